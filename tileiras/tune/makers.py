"""The processes that make candidates: each reads the user's file once and forks for each point.

Python, the client, the compiler and the user's file are loaded when a process starts; a candidate
costs what it takes to compile. One that hangs costs its process, one that crashes only the fork.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any

from tileiras.runtime.child_process import CRASH, ERROR, ChildFailed, ChildProcess
from tileiras.tune.description import Point


class Makers:
    """Makes candidates, as many at a time as threads ask for; `with` ends all processes.

    `command` is that of a maker; `seconds` are for one candidate; `folder` gets the logs.
    """

    def __init__(
        self, path: str, variable: str, folder: str, seconds: float, command: Sequence[str]
    ) -> None:
        self._command = [*command, "make", path, variable]
        self._folder, self._seconds = folder, seconds
        self._lock = Lock()
        self._idle: list[ChildProcess] = []
        self._busy: list[ChildProcess] = []

    def start(self, count: int) -> None:
        """Starts so many, before the first point is known."""
        started = [self._start() for _ in range(count)]
        with self._lock:
            self._idle += started

    def make(self, point: Point, folder: str, target: str) -> dict[str, Any]:
        """What to launch for a point; its files are in the folder. Raises ChildFailed."""
        with self._lock:
            child = self._idle.pop() if self._idle else None
        child = child or self._start()
        with self._lock:
            self._busy.append(child)
        try:
            child.limit(self._seconds)
            child.send(point=point, folder=folder, target=target)
            told = child.ask()
        except ChildFailed:
            child.end()
            with self._lock:
                self._busy.remove(child)
            raise
        with self._lock:
            self._busy.remove(child)
            self._idle.append(child)
        if "failure" in told:
            raise ChildFailed(CRASH if told["crashed"] else ERROR, told["failure"])
        return told

    def stop(self) -> None:
        """Ends what is being made: who waits for it gets ChildFailed."""
        with self._lock:
            busy = list(self._busy)
        for child in busy:
            child.kill()

    def _start(self) -> ChildProcess:
        log = os.path.join(self._folder, f"maker{os.urandom(4).hex()}.log")
        return ChildProcess(self._command, log)

    def __enter__(self) -> Makers:
        """The makers themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends them."""
        self.stop()
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()
