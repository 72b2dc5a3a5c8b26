"""Lines of IR text that are too long, over kernels of a folder, at every stage.

    python tests/sweeps/width_sweep.py CORPUS --gpu-name sm_90 --every 10

Prints how many lines of each stage are over `tileiras.dialects.assembly.wrapping.WIDTH` columns,
signatures of functions aside, and the longest. Exits with 1 where there is one.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tileiras.dialects.assembly.wrapping import WIDTH
from tileiras.driver import compile_module
from tileiras.errors import TileirasError
from tileiras.options import CompileOptions

STAGES = ("nv_tileaa", "nv_tileas", "llvm-dialect")
SIGNATURE = re.compile(r"^\s*(?:(?:nv_tileaa|llvm)\.func )?@")


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


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    counts = dict.fromkeys(STAGES, 0)
    total = dict.fromkeys(STAGES, 0)
    worst = dict.fromkeys(STAGES, "")
    for path in sorted(arguments.corpus.glob("*.tileirbc"))[:: arguments.every]:
        for stage, text in texts(path, arguments.gpu_name).items():
            total[stage] += text.count("\n")
            for line in long_lines(text):
                counts[stage] += 1
                worst[stage] = max(worst[stage], f"{path.name}: {line}", key=len)
    for stage in STAGES:
        print(f"{stage}: {counts[stage]} of {total[stage]} lines over {WIDTH} columns")
        if worst[stage]:
            print(f"  {worst[stage]}")
    return 1 if any(counts.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
