"""A kernel in a process of its own: one that hangs or breaks the context costs that process only.

    with IsolatedKernel(job, folder) as kernel:
        results = kernel.launch(seconds=20)       # files with what the arrays are now
        times = kernel.time(repeats=20)           # milliseconds

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
"""The command of the process; a folder follows, or `device`."""

SECONDS_TO_START = 60.0
"""Policy: for Python and the driver's library."""


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


@dataclass(frozen=True)
class Device:
    """What times depend on besides the kernel."""

    target: str
    name: str
    driver: str


class IsolatedKernel:
    """A process that is ready to launch a kernel. It touches the GPU when it is asked to.

    `folder` gets its files: what to do, results, log. `with` ends it, whatever it is doing.
    """

    def __init__(self, job: Job, folder: str, command: Sequence[str] = WORKER):
        self._results: dict[int, str] = {}
        arguments: list[Any] = []
        for place, value in enumerate(job.arguments):
            if isinstance(value, ArrayFile):
                self._results[place] = os.path.join(folder, f"result{place}")
                arguments.append({"array": value.path, "result": self._results[place]})
            else:
                arguments.append({"value": value})
        with open(os.path.join(folder, "job.json"), "w") as stream:
            json.dump({**asdict(job), "arguments": arguments}, stream)
        log = os.path.join(folder, "launch.log")
        self._child = ChildProcess([*command, folder], log)
        self._child.limit(SECONDS_TO_START)
        self._started = False

    def launch(self, seconds: float) -> dict[int, str]:
        """Launches once; the files with the arrays after it, by the arguments' places.

        From now on the process has so many seconds for everything. Raises ChildFailed.
        """
        self._child.ask()
        self._child.limit(seconds)
        self._child.send(begin=True)
        self._child.ask()
        return self._results

    def time(self, repeats: int, warm_up: int = 3, enough: float | None = None) -> list[float]:
        """The milliseconds of launches, after some that do not count. Raises ChildFailed.

        Where the first few all take longer than `enough`, the others are left out.
        """
        self._child.send(repeats=repeats, warm_up=warm_up, enough=enough)
        return [float(time) for time in self._child.ask()["times"]]

    def close(self) -> None:
        """Ends the process; a second time does nothing."""
        self._child.end()

    def __enter__(self) -> IsolatedKernel:
        """The kernel itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self.close()


def ask_device(folder: str, command: Sequence[str] = WORKER) -> Device:
    """What this machine's GPU is, as a process of its own says. Raises GpuError without one."""
    with ChildProcess([*command, "device"], os.path.join(folder, "device.log")) as child:
        child.limit(SECONDS_TO_START)
        return Device(**child.ask())


__all__ = ["ArrayFile", "ChildFailed", "Device", "IsolatedKernel", "Job", "ask_device"]
