"""Kernels in a process of their own: one that hangs or breaks the context costs that process only.

    with KernelProcess(folder) as process:
        results = process.launch(job, folder, seconds=20)   # files with what the arrays are now
        (times,) = process.time(repeats=20)                 # milliseconds

Arrays are files of their bytes, since a process of its own has its own memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tileiras.runtime.child_process import ChildFailed, ChildProcess

WORKER = (sys.executable, "-m", "tileiras.runtime.isolated_worker")
"""The command of the process; `serve` follows, or `device`."""

SECONDS_TO_START = 60.0
"""Policy: for Python, the driver's library and a context."""


@dataclass(frozen=True)
class ArrayFile:
    """An argument that is an array: the file of its bytes."""

    path: str


@dataclass(frozen=True)
class Job:
    """A kernel and what to launch it on; arguments are files of arrays, and numbers.

    `types` are those of the parameters as the launch information has them, empty if not known.
    """

    cubin: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    types: tuple[str, ...]
    arguments: tuple[ArrayFile | int | float, ...]
    cluster_size: int = 1


@dataclass(frozen=True)
class Device:
    """What times depend on besides the kernel."""

    target: str
    name: str
    driver: str


class KernelProcess:
    """A process that launches one kernel after another, as long as none of them fails.

    Its context is made when it starts, the arrays when the first kernel comes, and both stay.
    `folder` gets its log. `with` ends it, whatever it is doing.
    """

    def __init__(self, folder: str, command: Sequence[str] = WORKER):
        log = os.path.join(folder, f"launch{os.urandom(4).hex()}.log")
        self._child = ChildProcess([*command, "serve"], log)
        self._child.limit(SECONDS_TO_START)
        self._started = self._failed = False
        self._device: Device | None = None

    @property
    def failed(self) -> bool:
        """Whether a kernel failed: then the process is of no more use."""
        return self._failed

    def device(self) -> Device:
        """What this machine's GPU is. Raises ChildFailed without one."""
        if self._device is None:
            self._device = Device(**self._ask())
        return self._device

    def launch(self, job: Job, folder: str, seconds: float) -> dict[int, str]:
        """Loads a kernel and launches it once; `folder` gets its files.

        Returns the files with the arrays after it, by the arguments' places; that of an array that
        is as before is its own. From now on the process has so many seconds for all launches.
        Raises ChildFailed.
        """
        results: dict[int, str] = {}
        arguments: list[Any] = []
        for place, value in enumerate(job.arguments):
            if isinstance(value, ArrayFile):
                results[place] = os.path.join(folder, f"result{place}")
                arguments.append({"array": value.path, "result": results[place]})
            else:
                arguments.append({"value": value})
        path = os.path.join(folder, "job.json")
        with open(path, "w") as stream:
            json.dump({**asdict(job), "arguments": arguments}, stream)
        if not self._started:
            self.device()
            self._ask()
            self._started = True
        self._child.limit(seconds)
        changed = self._ask(load=path)["changed"]
        return {
            place: results[place] if place in changed else value.path
            for place, value in enumerate(job.arguments)
            if isinstance(value, ArrayFile)
        }

    def time(self, repeats: int, enough: float | None = None) -> list[list[float]]:
        """The milliseconds of each kernel that is loaded, batch by batch, which alternate.

        Where the first few of a single one all take longer than `enough`, the others are left out.
        Raises ChildFailed.
        """
        self.begin_timing(repeats, enough)
        return self.times()

    def begin_timing(self, repeats: int, enough: float | None = None) -> None:
        """As `time`, but does not wait: `times` gives the result."""
        self._child.send(repeats=repeats, enough=enough)

    def times(self) -> list[list[float]]:
        """What `begin_timing` asked for. Raises ChildFailed."""
        return self._ask()["times"]

    def forget(self) -> None:
        """Unloads all kernels. Raises ChildFailed."""
        self._ask(forget=True)

    def close(self) -> None:
        """Ends the process; a second time does nothing."""
        self._child.end()

    def _ask(self, **message: Any) -> dict[str, Any]:
        """The answer to a message, or the next message."""
        try:
            if message:
                self._child.send(**message)
            return self._child.ask()
        except ChildFailed:
            self._failed = True
            self.close()
            raise

    def __enter__(self) -> KernelProcess:
        """The process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.close()


def ask_device(folder: str, command: Sequence[str] = WORKER) -> Device:
    """What this machine's GPU is, as a process of its own says. Raises GpuError without one."""
    with ChildProcess([*command, "device"], os.path.join(folder, "device.log")) as child:
        child.limit(SECONDS_TO_START)
        return Device(**child.ask())


__all__ = ["ArrayFile", "ChildFailed", "Device", "Job", "KernelProcess", "ask_device"]
