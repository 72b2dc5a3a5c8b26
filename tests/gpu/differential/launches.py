"""Launches prepared programs and compares; needs numpy and cuda-python, and nothing else of this
project but `cases` and `tests.gpu.launch`.

A kernel that faults ends its process's context and one that hangs never returns, so that launches
are made by a process that is replaced: the next one goes on behind the case that was fatal.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.differential.cases import Case
from tests.gpu.launch import LaunchError, check, primary_context

GUARD = 512
"""Bytes around every array that no kernel may write; arrays are aligned to as many."""
FILL = 0xA5
PATIENCE = 30.0
"""Seconds of silence after which a kernel hangs."""
LOST = 3
"""Exit status of a process whose context was lost."""
COMPILERS = ("ours", "theirs")


@dataclass(frozen=True)
class Launch:
    """A case and the cubin with its kernel."""

    compiler: str
    cubin: Path
    case: Case


def launches(folder: Path) -> Iterator[Launch]:
    """All that there are cubins for, by groups; one of its own counts more than the group's."""
    for manifest in sorted(folder.glob("g?????.json")):
        cases = [Case.from_json(data) for data in json.loads(manifest.read_text())["cases"]]
        for compiler in COMPILERS:
            together = folder / f"{manifest.stem}.{compiler}.cubin"
            for case in cases:
                alone = folder / f"{manifest.stem}.{compiler}.{case.name}.cubin"
                cubin = alone if alone.exists() else together
                if cubin.exists():
                    yield Launch(compiler, cubin, case)


class Device:
    """One buffer for all arrays of a launch, and the module that was loaded last."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        check(driver.cuCtxSetCurrent(primary_context()), "cuCtxSetCurrent")
        self.size = 0
        self.base = 0
        self.loaded: tuple[Path | None, Any] = (None, None)

    def function(self, launch: Launch) -> Any:
        """The kernel of a launch."""
        path, module = self.loaded
        if path != launch.cubin:
            if module is not None:
                self.driver.cuModuleUnload(module)
            module = check(self.driver.cuModuleLoadData(launch.cubin.read_bytes()), "load")
            self.loaded = (launch.cubin, module)
        return check(self.driver.cuModuleGetFunction(module, launch.case.name.encode()), "get")

    def run(self, launch: Launch) -> list[np.ndarray]:
        """The arguments after the launch. LaunchError where the driver or a guard says so."""
        function = self.function(launch)
        arrays = launch.case.arguments()
        starts, end = [], GUARD
        for array in arrays:
            starts.append(end)
            end += -(-array.nbytes // GUARD) * GUARD + GUARD
        if end > self.size:
            if self.base:
                self.driver.cuMemFree(self.base)
            self.size = 2 * end
            self.base = int(check(self.driver.cuMemAlloc(self.size), "cuMemAlloc"))
        image = np.full(end, FILL, np.uint8)
        for start, array in zip(starts, arrays):
            image[start : start + array.nbytes] = array.view(np.uint8)
        untouched = image.copy()
        check(self.driver.cuMemcpyHtoD(self.base, image.ctypes.data, end), "copy")
        values = np.array([self.base + start for start in starts], np.uint64)
        places = np.array([values.ctypes.data + 8 * i for i in range(len(values))], np.uint64)
        grid = launch.case.grid
        launched = self.driver.cuLaunchKernel(function, *grid, 1, 1, 1, 0, 0, places.ctypes.data, 0)
        check(launched, "cuLaunchKernel")
        check(self.driver.cuCtxSynchronize(), "cuCtxSynchronize")
        check(self.driver.cuMemcpyDtoH(image.ctypes.data, self.base, end), "copy")
        results = []
        for start, array in zip(starts, arrays):
            found = image[start : start + array.nbytes]
            results.append(found.copy().view(array.dtype))
            found[:] = untouched[start : start + array.nbytes]
        if not np.array_equal(image, untouched):
            at = int(np.flatnonzero(image != untouched)[0])
            raise LaunchError(f"byte {at} between the arguments was written")
        return results


def run_from(folder: Path, start: int) -> int:
    """Launches from a number on, up to one that is fatal; a line for each: `@`, a JSON list."""
    device = Device()
    for number, launch in enumerate(launches(folder)):
        if number < start:
            continue
        try:
            found = device.run(launch)
        except LaunchError as error:
            lost = "cu" in str(error).split(":")[0]
            _tell(number, launch, [str(error)])
            if lost:
                return LOST
            continue
        different = launch.case.differences(found)
        _tell(number, launch, different)
        if different:
            _keep(folder, launch, found)
    print("@end", flush=True)
    return 0


def _tell(number: int, launch: Launch, what: list[str]) -> None:
    print("@" + json.dumps([number, launch.compiler, launch.case.name, what]), flush=True)


def _keep(folder: Path, launch: Launch, found: list[np.ndarray]) -> None:
    """What was computed, to look at."""
    place = folder / "found"
    place.mkdir(exist_ok=True)
    names = {f"a{position}": array for position, array in enumerate(found)}
    np.savez_compressed(place / f"{launch.case.name}.{launch.compiler}.npz", **names)


def run(folder: Path) -> int:
    """Launches everything; prints what differs and a table; how many of this compiler's differ."""
    begin, next_number = time.monotonic(), 0
    bad: dict[str, dict[str, list[str]]] = {compiler: {} for compiler in COMPILERS}
    counts: Counter[str] = Counter()
    while next_number is not None:
        last = next_number - 1
        ended = False
        for line in _lines(folder, next_number):
            if line == "@end":
                ended = True
                break
            if line.startswith("@"):
                last, compiler, name, what = json.loads(line[1:])
                counts[compiler] += 1
                if what:
                    bad[compiler][name] = what
                    print(f"{compiler} {name}: {'; '.join(what)[:400]}", flush=True)
            else:
                print(line)
        if ended:
            next_number = None
        elif _told_fatal(bad, last, folder):
            next_number = last + 1
        else:
            print(f"launch {last + 1} hangs or ends the process", flush=True)
            counts["hang"] += 1
            next_number = last + 2
    for compiler in COMPILERS:
        if counts[compiler]:
            print(f"{compiler}: {counts[compiler]} launched, {len(bad[compiler])} differ")
    both = set(bad["ours"]) & set(bad["theirs"])
    print(f"in both: {len(both)}; {counts['hang']} hang; {time.monotonic() - begin:.1f} s")
    return len(bad["ours"]) + counts["hang"]


def _told_fatal(bad: dict[str, dict[str, list[str]]], number: int, folder: Path) -> bool:
    """Whether the last launch that was told of lost the context."""
    for at, launch in enumerate(launches(folder)):
        if at == number:
            texts = bad[launch.compiler].get(launch.case.name, [])
            return any("cu" in text.split(":")[0] for text in texts)
    return False


def _lines(folder: Path, start: int) -> Iterator[str]:
    """Lines of a process that launches; ends when it does, or is silent for too long."""
    command = [sys.executable, "-m", "tests.gpu.differential", "run-from", str(folder)]
    process = subprocess.Popen(
        [*command, "--start", str(start)], stdout=subprocess.PIPE, text=False, bufsize=0
    )
    assert process.stdout is not None
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    rest = b""
    try:
        while selector.select(PATIENCE):
            data = process.stdout.read(1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode() for line in lines)
    finally:
        process.kill()
        process.wait()
