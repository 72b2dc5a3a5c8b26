"""Whether the text of kernels can be read, by people and by us, behind every pass.

    python tests/sweeps/text_sweep.py CORPUS --gpu-name sm_90 --every 10 --damages 5

Each kernel is compiled with a dump behind every pass. Then

- no line of a lower stage is over `tileiras.dialects.assembly.wrapping.WIDTH` columns, signatures
  of functions aside, and no operation stands in generic form;
- each dump is parsed, and printed again as it was;
- the text of each stage compiles to the PTX of the kernel;
- what is damaged at random gets an error with a place in it, or compiles: no other exception.

Prints each text that fails and a table. Exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kernels.damaged_text import damaged  # noqa: E402
from tileiras.dialects.assembly.wrapping import WIDTH  # noqa: E402
from tileiras.driver import compile_module  # noqa: E402
from tileiras.errors import BytecodeError, InternalError, TileirasError  # noqa: E402
from tileiras.ir_text import parse_text  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.stages import print_stage, stage_of  # noqa: E402

LOOKED_AT = ("kernels", "texts", "lines", "damaged")
STAGES = ("nv_tileaa", "nv_tileas", "llvm-dialect")
SIGNATURE = re.compile(r"^\s*(?:(?:nv_tileaa|llvm)\.func )?@")
NO_IR = "input does not correspond to Tile IR bytecode"
"""What is said of a file in which nothing looks like IR; it has no place."""
GENERIC = re.compile(r'(?:= |^\s*)"[\w.]+"\(')


def long_lines(text: str) -> list[str]:
    """The lines of a text that are too long, but for signatures."""
    return [
        line for line in text.split("\n") if len(line) > WIDTH and SIGNATURE.match(line) is None
    ]


def texts(path: Path, target: str) -> dict[str, str]:
    """Stage -> the text of a kernel; what does not compile for the target is left out."""
    found: dict[str, str] = {}
    for stage in STAGES:
        options = CompileOptions(gpu_name=target, emit=stage)
        try:
            found[stage] = compile_module(path.read_bytes(), options).output.decode()
        except TileirasError:
            break
    return found


def dumps(path: Path, target: str, locations: str = "") -> tuple[dict[str, str], bytes]:
    """Dump -> its text, each text once, and the PTX; nothing where the kernel is refused."""
    with TemporaryDirectory() as folder:
        options = CompileOptions(
            gpu_name=target, emit="ptx", dump_dir=folder, print_locations=locations
        )
        try:
            ptx = compile_module(path.read_bytes(), options).output
        except TileirasError:
            return {}, b""
        found = {one.stem: one.read_text() for one in sorted(Path(folder).glob("*.mlir"))}
    return {name: text for text, name in {text: n for n, text in found.items()}.items()}, ptx


def makes(text: str, ptx: bytes, target: str) -> bool:
    """Whether a text compiles to this PTX."""
    options = CompileOptions(gpu_name=target, emit="ptx")
    return compile_module(text.encode(), options).output == ptx


def complaints(text: str) -> Iterator[str]:
    """What is wrong with the text of a dump."""
    try:
        module = parse_text(text, "dump.mlir")
    except BytecodeError as error:
        yield f"read: {error.message}"
        return
    stage = stage_of(module).name
    if stage in STAGES:
        yield from (f"wide: {line}" for line in long_lines(text))
        yield from (f"generic: {line}" for line in text.split("\n") if GENERIC.search(line))
    if print_stage(module).strip() != text.strip():
        yield "printed: the text changes when it is read and printed"


def damage(text: str, target: str, rng: random.Random) -> str:
    """What is wrong with what is said of a damaged text; empty where nothing is."""
    broken = damaged(text, rng).encode(errors="replace")
    try:
        compile_module(broken, CompileOptions(gpu_name=target, emit="llvm-dialect"), "dump.mlir")
    except InternalError as error:
        return f"broken: {error.message}"
    except BytecodeError as error:
        placed = error.location is not None or error.message == NO_IR
        return "" if placed else f"no place: {error.message}"
    except TileirasError:
        return ""
    except Exception as error:
        return f"broken: {type(error).__name__}: {error}"
    return ""


def check_kernel(path: Path, target: str, damages: int, table: Counter[str]) -> list[str]:
    """All that is wrong with the texts of a kernel; counts what was looked at."""
    found, ptx = dumps(path, target)
    last = {stage_of(parse_text(text)).name: name for name, text in found.items()}
    rng = random.Random(path.name)
    wrong: list[str] = []
    table["kernels"] += bool(found)
    for name, text in found.items():
        table["texts"] += 1
        table["lines"] += text.count("\n")
        wrong += [f"{name}: {what}" for what in complaints(text)]
    for name in last.values():
        # Assertions have places in their messages: those of the text, if it does not say others.
        if not makes(found[name], ptx, target):
            located = dumps(path, target, "loc")[0]
            if name not in located or not makes(located[name], ptx, target):
                wrong.append(f"{name}: compiled: other PTX")
        for _ in range(damages):
            table["damaged"] += 1
            what = damage(found[name], target, rng)
            wrong += [f"{name}: {what}"] if what else []
    return wrong


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--damages", type=int, default=3, help="of each kernel's text of a stage")
    arguments = parser.parse_args()
    table: Counter[str] = Counter()
    for path in sorted(arguments.corpus.glob("*.tileirbc"))[:: arguments.every]:
        for what in check_kernel(path, arguments.gpu_name, arguments.damages, table):
            table[f"{what.split(': ')[1]}: WRONG"] += 1
            print(f"{path.name} {what[:300]}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in table.items()))
    return 0 if set(table) <= set(LOOKED_AT) else 1


if __name__ == "__main__":
    raise SystemExit(main())
