"""Tries points: a process makes the kernel, another launches it and takes times.

Kernels are made side by side, a few ahead; the GPU has one of them at a time. The process that
launches stays as long as kernels are well behaved, and is replaced by another after one that hangs,
crashes or fails.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tileiras.runtime.child_process import ChildFailed, ChildProcess
from tileiras.runtime.isolated import WORKER, ArrayFile, Job, KernelProcess
from tileiras.tune.cache import Result
from tileiras.tune.description import Point
from tileiras.tune.search import key_of
from tileiras.tune.verification import ArgumentFile, mistake

MAKER = (sys.executable, "-m", "tileiras.tune.worker")
"""The command of the processes that run the user's file."""

SLOWER = 1.25
"""Policy: a point whose first batches all take longer than the best's, times this, is given up."""


@dataclass(frozen=True)
class Commands:
    """The programs that make and launch candidates."""

    maker: Sequence[str] = MAKER
    launcher: Sequence[str] = WORKER


@dataclass(frozen=True)
class Subject:
    """What is tuned: a description in a file, as the process that read it tells."""

    path: str
    variable: str
    client: str
    sources: str
    arguments: tuple[ArgumentFile | int | float, ...]
    grids: Mapping[str, tuple[int, int, int]]
    """The grid of each point, by its key."""
    points: tuple[Point, ...]
    relative: float | None
    absolute: float | None

    @property
    def has_reference(self) -> bool:
        """Whether the file says what results should be."""
        return any(isinstance(one, ArgumentFile) and one.expected for one in self.arguments)


@dataclass
class Made:
    """A candidate that can be launched, with the folder for its files, or why there is none."""

    job: Job | None = None
    folder: str = ""
    failure: str = ""
    resources: Mapping[str, int] = field(default_factory=dict[str, int])


def start_reading(
    path: str, variable: str, folder: str, seconds: float, commands: Commands
) -> ChildProcess:
    """A process that reads the file; arrays go to the folder."""
    words = [*commands.maker, "describe", path, variable, folder]
    child = ChildProcess(words, os.path.join(folder, "describe.log"))
    child.limit(seconds)
    return child


def read_subject(child: ChildProcess, path: str, variable: str) -> Subject:
    """What the file says. Raises ChildFailed where it is wrong, its code fails or does not end."""
    told = child.ask()
    arguments: list[ArgumentFile | int | float] = [
        ArgumentFile(
            one["name"], one["file"], one["dtype"], tuple(one["shape"]), one.get("expected", "")
        )
        if "file" in one
        else one["value"]
        for one in told["arguments"]
    ]
    points = tuple(one["point"] for one in told["points"])
    grids = {key_of(one["point"]): tuple(one["grid"]) for one in told["points"]}
    return Subject(
        path,
        variable,
        told["client"],
        told["sources"],
        tuple(arguments),
        grids,
        points,
        told["relative"],
        told["absolute"],
    )


@dataclass
class Trials:
    """Makes and launches candidates. Times are in seconds, but for those of launches."""

    subject: Subject
    target: str
    folder: str
    jobs: int
    seconds_to_make: float
    seconds_to_run: float
    repeats: int
    commands: Commands = Commands()
    numbers: Iterator[int] = field(default_factory=count)
    making_now: dict[int, ChildProcess] = field(default_factory=dict[int, ChildProcess])
    made_before: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What the process told that made a point, by its key."""
    _process: KernelProcess | None = None

    def __enter__(self) -> Trials:
        """The trials themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process that launches."""
        if self._process is not None:
            self._process.close()

    def _launcher(self) -> KernelProcess:
        """The process that launches, a new one where the last one failed."""
        if self._process is None or self._process.failed:
            self._process = KernelProcess(self.folder, self.commands.launcher)
        return self._process

    @contextmanager
    def making(self, points: Sequence[Point]) -> Iterator[Callable[[Point], Made]]:
        """Makes kernels of these points side by side; gives a function that waits for one.

        Those that were not waited for are ended.
        """
        if points:
            self._launcher()  # starts while the first is made
        pool = ThreadPoolExecutor(self.jobs)
        numbered = [(point, next(self.numbers)) for point in points]
        pending: dict[str, Future[Made]] = {}
        ahead = iter(numbered)

        def submit() -> None:
            for point, number in ahead:
                pending[key_of(point)] = pool.submit(self._make, point, number)
                return

        for _ in range(self.jobs):
            submit()

        def wait(point: Point) -> Made:
            while key_of(point) not in pending:
                submit()
            made = pending.pop(key_of(point)).result()
            submit()
            return made

        try:
            yield wait
        finally:
            unwanted = [future for future in pending.values() if not future.cancel()]
            for child in list(self.making_now.values()):
                child.kill()
            for future in unwanted:
                future.result()
            pool.shutdown()

    def _make(self, point: Point, number: int) -> Made:
        """Compiles a point."""
        folder = os.path.join(self.folder, f"candidate{number}")
        os.mkdir(folder)
        subject, key = self.subject, key_of(point)
        told = self.made_before.get(key)
        if told is None:
            words = [*self.commands.maker, "make", subject.path, subject.variable, folder]
            words += [self.target, json.dumps(point)]
            try:
                with ChildProcess(words, os.path.join(folder, "make.log")) as child:
                    self.making_now[number] = child
                    child.limit(self.seconds_to_make)
                    told = self.made_before[key] = child.ask()
            except ChildFailed as failure:
                return Made(failure=failure.message)
            finally:
                self.making_now.pop(number, None)
        x, y, z = subject.grids[key]
        arguments = tuple(
            ArrayFile(value.file) if isinstance(value, ArgumentFile) else value
            for value in subject.arguments
        )
        job = Job(
            told["cubin"],
            told["entry"],
            (x, y, z),
            tuple(told["block"]),
            tuple(told["types"]),
            arguments,
        )
        return Made(job, folder, resources=told["resources"])

    def run(self, point: Point, made: Made, best: float | None) -> Result:
        """Launches, checks and times a candidate; whatever it does costs its process only.

        Without a reference the results of the first that runs are what is expected. `best` are the
        milliseconds of the best so far.
        """
        if made.job is None:
            return Result(point, kind="make", message=made.failure)
        used: dict[str, Any] = {
            "registers": int(made.resources.get("registers", 0)),
            "spills": int(made.resources.get("spill_stores", 0)),
        }
        process = self._launcher()
        times: list[float] = []
        try:
            wrong = self._launch(process, made)
            if not wrong:
                enough = None if best is None else best * SLOWER
                (times,) = process.time(self.repeats, enough)
            process.forget()
        except ChildFailed as failure:
            self._launcher()  # starts while others are made
            return Result(point, kind=failure.kind, message=failure.message, **used)
        if wrong:
            return Result(point, kind="wrong", message=wrong, **used)
        return Result(point, tuple(times), **used)

    def compare(self, mades: Sequence[Made]) -> list[tuple[float, ...]] | str:
        """The milliseconds of candidates whose batches alternate in one process.

        What is wrong where one of them fails or its results are wrong.
        """
        process = self._launcher()
        try:
            for made in mades:
                if wrong := made.failure or self._launch(process, made):
                    process.forget()
                    return wrong
            times = process.time(self.repeats)
            process.forget()
        except ChildFailed as failure:
            return failure.message
        return [tuple(one) for one in times]

    def _launch(self, process: KernelProcess, made: Made) -> str:
        """Launches a candidate; what is wrong with its results. Raises ChildFailed."""
        assert made.job is not None
        found = process.launch(made.job, made.folder, self.seconds_to_run)
        subject = self.subject
        wrong = mistake(subject.arguments, found, self.folder, subject.relative, subject.absolute)
        for place, path in found.items():
            if ArrayFile(path) != made.job.arguments[place]:
                os.unlink(path)
        return wrong
