"""Processes that try one input after the other, watched: one that dies or hangs is a finding.

A worker is forked from a process that has imported everything and made the seeds, so that a new one
costs nothing. It tells its parent the number of an input before it tries it.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.fuzzing.subjects import SUBJECTS, Finding, judge

PATIENCE = 60.0
"""Seconds at one input, also on a busy machine, after which a worker hangs."""
ADDRESS_SPACE = 8 << 30
"""Bytes: a worker that wants more gets MemoryError and does not take the machine down."""
BATCH = 50
"""Inputs between two messages about how many were tried; each is announced in shared memory."""


@dataclass
class Tally:
    """What came of a subject's inputs."""

    tried: int = 0
    refused: int = 0
    findings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


@dataclass
class _Worker:
    process: Any
    connection: Connection
    current: Any
    number: int
    """What `current` said when it was last looked at, at `heard`."""
    heard: float

    def has_gone_on(self) -> bool:
        """Whether it has come to another input since this was last asked."""
        before, self.number = self.number, self.current.value
        return self.number != before


def _work(name: str, first: int, step: int, sender: Connection, current: Any) -> None:
    """Tries inputs until it is ended."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    subject, number, tried, refused = SUBJECTS[name], first, 0, 0
    while True:
        current.value = number
        try:
            refused += judge(subject, subject.input(name, number))
        except Finding as finding:
            sender.send(("finding", number, str(finding)))
        tried += 1
        number += step
        if tried == BATCH:
            sender.send(("tried", tried, refused))
            tried = refused = 0


class Fuzzing:
    """Tries inputs of one subject with some processes."""

    def __init__(self, name: str, first: int, jobs: int, report: Callable[[int, str], None]):
        self.name, self.jobs, self.report = name, jobs, report
        self.tally = Tally()
        self._context = multiprocessing.get_context("fork")
        self._workers = [self._start(first + job) for job in range(jobs)]

    def _start(self, first: int) -> _Worker:
        receiver, sender = self._context.Pipe(duplex=False)
        current = self._context.Value("q", first, lock=False)
        arguments = (self.name, first, self.jobs, sender, current)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        sender.close()
        return _Worker(process, receiver, current, first, time.monotonic())

    def run(self, seconds: float, count: int) -> Tally:
        """Until the time is over or so many inputs were tried."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.tally.tried < count:
            ready = wait([worker.connection for worker in self._workers], 1.0)
            for index, worker in enumerate(self._workers):
                if worker.connection in ready:
                    self._hear(index)
                elif worker.has_gone_on():
                    worker.heard = time.monotonic()
                elif time.monotonic() - worker.heard > PATIENCE:
                    self._replace(index, "hangs")
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
        return self.tally

    def _hear(self, index: int) -> None:
        worker = self._workers[index]
        try:
            kind, number, what = worker.connection.recv()
        except EOFError:
            worker.process.join()
            status = worker.process.exitcode
            self._replace(index, f"the process ended with status {status}")
            return
        worker.heard = time.monotonic()
        if kind == "tried":
            self.tally.tried += number
            self.tally.refused += what
            return
        self._find(number, what)

    def _find(self, number: int, what: str) -> None:
        self.tally.findings.append((number, what))
        self.report(number, what)

    def _replace(self, index: int, what: str) -> None:
        worker = self._workers[index]
        worker.process.kill()
        worker.process.join()
        self._find(worker.current.value, what)
        self._workers[index] = self._start(worker.current.value + self.jobs)
