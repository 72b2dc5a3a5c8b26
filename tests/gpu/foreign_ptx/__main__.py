"""PTX of Triton and of nvcc in the PTX machine, against float64; the same PTX on a GPU, by bits.

python -m tests.gpu.foreign_ptx check --triton PYTHON --nvcc NVCC      # no GPU
python -m tests.gpu.foreign_ptx prepare DIR --triton PYTHON --nvcc NVCC   # no GPU: for sm_90
python -m tests.gpu.foreign_ptx run DIR                                # GPU: numpy, cuda-python

PYTHON is one that has triton. Exit status 1 where something is wrong, or differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TARGETS = ("sm_90", "sm_100", "sm_103", "sm_120")
BUDGET = 20_000_000
"""Instructions of a thread at most."""
MAPS = 1 << 16
"""Bytes for what a kernel of Triton's keeps in global memory: tensor maps of each block."""
INDEX = "index.json"


@dataclass(frozen=True)
class Foreign:
    """A kernel's PTX, and how it is launched."""

    name: str
    target: str
    ptx: str
    entry: str
    launch: Any
    shared: int = 0

    @property
    def arguments(self) -> list[Any]:
        """Copies, so that a launch finds them as they were."""
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.launch.arguments]


def triton_kernels(python: str, targets: tuple[str, ...], folder: Path) -> Iterator[Foreign]:
    """What Triton makes; behind its arguments stand two pointers to memory of its own."""
    from tests.gpu.foreign_ptx.cases import TRITON, Launch

    script = [python, str(HERE / "triton_kernels.py"), str(folder), ",".join(targets)]
    subprocess.run(script, check=True, stderr=subprocess.DEVNULL)
    for key, facts in json.loads((folder / "launches.json").read_text()).items():
        name, target = key.split(".")
        plain = TRITON[name]()
        own = [np.zeros(MAPS, np.uint8), np.zeros(128, np.uint8)]
        launch = Launch(
            [*plain.arguments, *own],
            plain.result,
            plain.wanted,
            plain.grid,
            plain.tolerance,
            facts["threads"],
        )
        ptx = (folder / f"{key}.ptx").read_text()
        yield Foreign(f"triton {name}", target, ptx, facts["entry"], launch, facts["shared"])


def cuda_kernels(nvcc: str, targets: tuple[str, ...], folder: Path) -> Iterator[Foreign]:
    """What nvcc makes."""
    from tests.gpu.foreign_ptx.cases import CUDA

    for target in targets:
        path = folder / f"cuda.{target}.ptx"
        source = str(HERE / "kernels.cu")
        subprocess.run([nvcc, f"-arch={target}", "-ptx", source, "-o", str(path)], check=True)
        for name, make in CUDA.items():
            yield Foreign(f"nvcc {name}", target, path.read_text(), name, make())


def kernels(options: argparse.Namespace, targets: tuple[str, ...]) -> Iterator[Foreign]:
    """Those of the compilers that were named."""
    with tempfile.TemporaryDirectory() as name:
        if options.triton:
            yield from triton_kernels(options.triton, targets, Path(name))
        if options.nvcc:
            yield from cuda_kernels(options.nvcc, targets, Path(name))


def run_in_machine(kernel: Foreign) -> list[Any]:
    """The arguments behind a launch."""
    from tileiras.interpreter.ptx import Limits, run_ptx

    arguments, launch = kernel.arguments, kernel.launch
    plain = [x if isinstance(x, np.ndarray) else x.item() for x in arguments]
    run_ptx(
        kernel.ptx,
        plain,
        launch.grid,
        (launch.block, 1, 1),
        kernel=kernel.entry,
        dynamic_shared=kernel.shared,
        limits=Limits(BUDGET),
        filename=kernel.name,
    )
    return arguments


def check(options: argparse.Namespace) -> int:
    """Runs all in the machine; how many are wrong."""
    from tileiras.interpreter.ptx import PtxError

    count = wrong = 0
    for kernel in kernels(options, tuple(options.targets.split(","))):
        begin = time.monotonic()
        try:
            found = run_in_machine(kernel)[kernel.launch.result]
            verdict = "right" if kernel.launch.is_right(found) else "WRONG"
        except PtxError as error:
            verdict = f"WRONG: {error.render()}"
        count, wrong = count + 1, wrong + (verdict != "right")
        took = time.monotonic() - begin
        print(f"{verdict} {kernel.target} {took:.1f} s {kernel.name}", flush=True)
    print(f"{count - wrong} of {count} right")
    return wrong


def prepare(options: argparse.Namespace) -> int:
    """Writes cubins, arguments and what the machine computes, for sm_90."""
    from tileiras.codegen.ptxas_process import find_ptxas

    folder, index = options.folder, []
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in kernels(options, ("sm_90",)):
        stem = kernel.name.replace(" ", "_")
        source, cubin = folder / f"{stem}.ptx", folder / f"{stem}.cubin"
        source.write_text(kernel.ptx)
        target = next(
            line.split()[1] for line in kernel.ptx.splitlines() if line.startswith(".target")
        ).rstrip(",")
        assembler = [str(find_ptxas({})), f"-arch={target}", str(source), "-o", str(cubin)]
        subprocess.run(assembler, check=True)
        machine = run_in_machine(kernel)[kernel.launch.result]
        given = {f"x{number}": value for number, value in enumerate(kernel.launch.arguments)}
        np.savez_compressed(folder / f"{stem}.npz", machine=machine, **given)
        launch = kernel.launch
        index.append(
            {
                "name": kernel.name,
                "stem": stem,
                "entry": kernel.entry,
                "arguments": len(launch.arguments),
                "result": launch.result,
                "grid": launch.grid,
                "block": launch.block,
                "shared": kernel.shared,
                "tolerance": launch.tolerance,
            }
        )
    (folder / INDEX).write_text(json.dumps(index, indent=1))
    print(f"{len(index)} kernels prepared")
    return 0


def run(options: argparse.Namespace) -> int:
    """Launches what was prepared; how many differ from the machine."""
    from tests.gpu.launch import launch_cubin

    count = differ = 0
    for entry in json.loads((options.folder / INDEX).read_text()):
        saved = np.load(options.folder / f"{entry['stem']}.npz")
        values = [saved[f"x{number}"] for number in range(entry["arguments"])]
        arguments = [value if value.ndim else value[()] for value in values]
        cubin = (options.folder / f"{entry['stem']}.cubin").read_bytes()
        block = (entry["block"], 1, 1)
        launch_cubin(cubin, entry["entry"], arguments, tuple(entry["grid"]), block, entry["shared"])
        verdict = compared(arguments[entry["result"]], saved["machine"], entry["tolerance"])
        count, differ = count + 1, differ + verdict.startswith("differs")
        print(f"{entry['name']}: {verdict}", flush=True)
    print(f"{count - differ} of {count} as in the machine")
    return differ


def compared(found: np.ndarray, machine: np.ndarray, tolerance: float) -> str:
    """How a GPU's result is to the machine's; with a `tolerance` functions are approximate."""
    places = int((found.view(np.uint8) != machine.view(np.uint8)).sum())
    if not places:
        return "the same bits"
    error = np.abs(found.astype(np.float64) - machine.astype(np.float64)).max()
    if 0 < tolerance >= error:
        return f"at most {error:.1e} apart, of {tolerance:.1e}: approximate functions"
    return f"differs: {places} bytes, at most {error:.3g}"


def main() -> int:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("check", "prepare", "run"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--triton", help="a Python that has triton")
    parser.add_argument("--nvcc", help="nvcc of a CUDA toolkit")
    parser.add_argument("--targets", default=",".join(TARGETS))
    options = parser.parse_args()
    if options.what != "check" and options.folder is None:
        parser.error("expected a folder")
    return int({"check": check, "prepare": prepare, "run": run}[options.what](options) > 0)


if __name__ == "__main__":
    sys.exit(main())
