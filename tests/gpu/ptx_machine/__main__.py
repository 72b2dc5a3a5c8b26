"""Compares the PTX machine with a GPU of compute capability 9.0, bit by bit.

python -m tests.gpu.ptx_machine prepare DIR    # no GPU: PTX, cubins, what the machine computes
python -m tests.gpu.ptx_machine run DIR        # GPU: launches the cubins and compares
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.gpu.ptx_machine import (
    elementwise_cases,
    random_kernels,
    tensor_cases,
    warp_cases,
)
from tests.gpu.ptx_machine.case import HEADER, Case

GROUPS = {
    "elementwise": elementwise_cases.cases,
    "warp": warp_cases.cases,
    "tensor": tensor_cases.cases,
    "random": random_kernels.cases,
}
PER_CUBIN = 60


def batches() -> Iterator[tuple[str, list[Case]]]:
    """Cases in groups that are one cubin each."""
    for name, make in GROUPS.items():
        found = list(make())
        for start in range(0, len(found), PER_CUBIN):
            yield f"{name}_{start // PER_CUBIN}", found[start : start + PER_CUBIN]


def prepare(folder: Path) -> int:
    """Writes PTX, cubins and expected results; the number of cases that could not be made."""
    from tileiras.codegen.ptxas_backend import find_ptxas
    from tileiras.interpreter.ptx import PtxError, run_ptx

    folder.mkdir(parents=True, exist_ok=True)
    ptxas, failures, count = find_ptxas({}), 0, 0
    for name, cases in batches():
        path = folder / f"{name}.ptx"
        path.write_text(HEADER + "".join(case.entry for case in cases), encoding="utf-8")
        cubin = path.with_suffix(".cubin")
        command = [str(ptxas), "-arch=sm_90a", "-O1", str(path), "-o", str(cubin)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            failures += 1
            print(f"{name}: ptxas: {made.stderr.strip()[:2000]}")
        expected = {}
        for case in cases:
            arrays = [array.copy() for array in case.arrays]
            try:
                run_ptx(case.text, arrays, (case.grid, 1, 1), filename=case.name)
            except PtxError as error:
                failures += 1
                print(f"{case.name}: {error.render()}")
                continue
            expected[case.name] = arrays[0]
            count += 1
        np.savez_compressed(folder / f"{name}.npz", **expected)
    print(f"{count} cases prepared, {failures} failures")
    return failures


def run(folder: Path) -> int:
    """Launches every case and compares; the number of cases that differ."""
    from tests.gpu.launch import LaunchError, launch_cubin

    same, different, start = 0, 0, time.monotonic()
    for name, cases in batches():
        cubin = (folder / f"{name}.cubin").read_bytes()
        expected = np.load(folder / f"{name}.npz")
        for case in cases:
            if case.name not in expected:
                continue
            arrays = [array.copy() for array in case.arrays]
            try:
                launch_cubin(cubin, case.name, arrays, (case.grid, 1, 1), (case.block, 1, 1))
            except LaunchError as error:
                different += 1
                print(f"{case.name}: {error}", flush=True)
                if "ILLEGAL" in str(error) or "MISALIGNED" in str(error):
                    print("the context is lost: the rest cannot be launched")
                    return different
                continue
            found, wanted = arrays[0], expected[case.name]
            places = np.flatnonzero(found != wanted)
            if not places.size:
                same += 1
                continue
            different += 1
            at = int(places[0])
            per = found.size // case.arrays[1].size if case.arrays[1].size <= found.size else 0
            inputs = [hex(int(array[at])) for array in case.arrays[1:] if array.size == found.size]
            print(
                f"{case.name}: {places.size} of {found.size} differ, first at {at}: GPU "
                f"{int(found[at]):#x}, machine {int(wanted[at]):#x}, inputs {inputs or per}",
                flush=True,
            )
    print(f"{same} same, {different} different, {time.monotonic() - start:.1f} s")
    return different


def main(arguments: list[str]) -> int:
    """Runs `prepare` or `run`."""
    match arguments:
        case ["prepare", folder]:
            return int(prepare(Path(folder)) > 0)
        case ["run", folder]:
            return int(run(Path(folder)) > 0)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
