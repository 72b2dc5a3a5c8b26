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
LOST = 3
"""Exit status of a process whose context was lost."""


def batches() -> Iterator[tuple[str, list[Case]]]:
    """Cases in groups that are one cubin each."""
    for name, make in GROUPS.items():
        found = list(make())
        for start in range(0, len(found), PER_CUBIN):
            yield f"{name}_{start // PER_CUBIN}", found[start : start + PER_CUBIN]


def prepare(folder: Path) -> int:
    """Writes PTX, cubins and expected results; the number of cases that could not be made."""
    from tileiras.codegen.ptxas_process import find_ptxas
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
                if not case.is_fatal:
                    failures += 1
                    print(f"{case.name}: {error.render()}")
                continue
            if case.is_fatal:
                failures += 1
                print(f"{case.name}: the machine ran it, a GPU does not")
            expected[case.name] = arrays[0]
            count += 1
        np.savez_compressed(folder / f"{name}.npz", **expected)
    print(f"{count} cases prepared, {failures} failures")
    return failures


def run(folder: Path) -> int:
    """Launches every case and compares; the number of cases that differ.

    An illegal address or instruction ends the process's context, so the launches are made by
    processes: a new one goes on behind the case that was fatal.
    """
    same = different = start = 0
    begin = time.monotonic()
    while start is not None:
        command = [sys.executable, "-m", "tests.gpu.ptx_machine", "run-from", str(folder)]
        process = subprocess.Popen([*command, str(start)], stdout=subprocess.PIPE, text=True)
        start = None
        assert process.stdout is not None
        for line in process.stdout:
            match line.split():
                case ["@counts", one, other, following]:
                    same, different = same + int(one), different + int(other)
                    start = int(following) if int(following) >= 0 else None
                case _:
                    print(line, end="", flush=True)
        if process.wait() not in (0, LOST):
            return different + 1
    print(f"{same} same, {different} different, {time.monotonic() - begin:.1f} s")
    return different


def run_from(folder: Path, start: int) -> int:
    """Launches the cases from a number on, up to one that is fatal."""
    from tests.gpu.launch import LaunchError, launch_cubin

    same, different, number = 0, 0, -1
    for name, cases in batches():
        if number + len(cases) < start:
            number += len(cases)
            continue
        cubin = (folder / f"{name}.cubin").read_bytes()
        expected = np.load(folder / f"{name}.npz")
        for case in cases:
            number += 1
            if number < start or (case.name not in expected and not case.is_fatal):
                continue
            arrays = [array.copy() for array in case.arrays]
            try:
                launch_cubin(cubin, case.name, arrays, (case.grid, 1, 1), (case.block, 1, 1))
            except LaunchError as error:
                if not case.is_fatal:
                    print(f"{case.name}: {error}")
                counts = (same + case.is_fatal, different + (not case.is_fatal))
                print(f"@counts {counts[0]} {counts[1]} {number + 1}", flush=True)
                return LOST
            if case.is_fatal:
                report = f"{case.name}: the GPU ran it, the machine does not"
            else:
                report = difference(case, arrays[0], expected[case.name])
            if report:
                print(report, flush=True)
            different, same = different + bool(report), same + (not report)
    print(f"@counts {same} {different} -1", flush=True)
    return 0


def difference(case: Case, found: np.ndarray, wanted: np.ndarray) -> str:
    """Where the GPU and the machine differ, with the inputs of the first three places."""
    places = np.flatnonzero(found != wanted)
    if not places.size:
        return ""
    text = f"{case.name}: {places.size} of {found.size} differ"
    for at in places[:3]:
        inputs = [hex(int(array[at])) for array in case.arrays[1:] if array.size == found.size]
        text += f"; at {at}: GPU {int(found[at]):#x}, machine {int(wanted[at]):#x}, {inputs}"
    return text


def main(arguments: list[str]) -> int:
    """Runs `prepare` or `run`."""
    match arguments:
        case ["prepare", folder]:
            return int(prepare(Path(folder)) > 0)
        case ["run", folder]:
            return int(run(Path(folder)) > 0)
        case ["run-from", folder, start]:
            return run_from(Path(folder), int(start))
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
