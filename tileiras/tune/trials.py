"""Tries points: some processes make kernels, another launches them and takes times.

Kernels are made side by side, a few ahead; the GPU has one of them at a time. The process that
launches stays as long as kernels are well behaved, and is replaced by another after one that hangs,
crashes or fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tileiras.errors import UsageError
from tileiras.runtime.child_process import ChildFailed, ChildProcess
from tileiras.runtime.isolated import WORKER, ArrayFile, Job, KernelProcess
from tileiras.tune.cache import Result
from tileiras.tune.description import Point
from tileiras.tune.makers import Makers
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


@dataclass
class Subject:
    """What is tuned: a description in a file, as the process that read it tells."""

    path: str
    reader: ChildProcess
    client: str
    sources: str
    grids: Mapping[str, tuple[int, int, int]]
    """The grid of each point, by its key."""
    points: tuple[Point, ...]
    relative: float | None
    absolute: float | None
    has_reference: bool
    """Whether the file says what results should be."""
    _arguments: tuple[ArgumentFile | int | float, ...] | None = None

    @property
    def arguments(self) -> tuple[ArgumentFile | int | float, ...]:
        """The kernel's arguments, as soon as they are there. Raises UsageError."""
        if self._arguments is None:
            told = _ask(self.reader, self.path)
            self._arguments = tuple(
                ArgumentFile(
                    one["name"],
                    one["file"],
                    one["dtype"],
                    tuple(one["shape"]),
                    one.get("expected", ""),
                )
                if "file" in one
                else one["value"]
                for one in told["arguments"]
            )
        return self._arguments


@dataclass
class Made:
    """A candidate as its maker tells it, with the folder for its files, or why there is none."""

    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    folder: str = ""
    failure: str = ""


def start_reading(
    path: str, variable: str, folder: str, seconds: float, commands: Commands
) -> ChildProcess:
    """A process that reads the file; arrays go to the folder."""
    words = [*commands.maker, "describe", path, variable, folder]
    child = ChildProcess(words, os.path.join(folder, "describe.log"))
    child.limit(seconds)
    return child


def read_subject(child: ChildProcess, path: str) -> Subject:
    """What the file says. Raises UsageError where it is wrong, its code fails or does not end."""
    told = _ask(child, path)
    return Subject(
        path,
        child,
        told["client"],
        told["sources"],
        {key_of(one["point"]): tuple(one["grid"]) for one in told["points"]},
        tuple(one["point"] for one in told["points"]),
        told["relative"],
        told["absolute"],
        told["has_reference"],
    )


def _ask(child: ChildProcess, path: str) -> dict[str, Any]:
    """The next message of the process that reads the file. Raises UsageError."""
    try:
        return child.ask()
    except ChildFailed as failure:
        raise UsageError(f"'{path}': {failure.message}") from failure


@dataclass
class Trials:
    """Makes and launches candidates. Times are in seconds, but for those of launches."""

    subject: Subject
    target: str
    folder: str
    jobs: int
    seconds_to_run: float
    repeats: int
    makers: Makers
    launcher: KernelProcess
    """The process that launches; the next one comes when it fails."""
    command: Sequence[str] = WORKER
    numbers: Iterator[int] = field(default_factory=count)
    made_before: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What the process told that made a point, by its key."""

    def __enter__(self) -> Trials:
        """The trials themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process that launches."""
        self.launcher.close()

    def _launcher(self) -> KernelProcess:
        """The process that launches, a new one where the last one failed."""
        if self.launcher.failed:
            self.launcher = KernelProcess(self.folder, self.command)
        return self.launcher

    @contextmanager
    def making(self, points: Sequence[Point]) -> Iterator[Callable[[Point], Made]]:
        """Makes kernels of these points side by side; gives a function that waits for one.

        Those that were not waited for are ended.
        """
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
            if unwanted:
                self.makers.stop()
            for future in unwanted:
                future.result()
            pool.shutdown()

    def _make(self, point: Point, number: int) -> Made:
        """Compiles a point."""
        folder = os.path.join(self.folder, f"candidate{number}")
        os.mkdir(folder)
        key = key_of(point)
        told = self.made_before.get(key)
        if told is None:
            try:
                told = self.made_before[key] = self.makers.make(point, folder, self.target)
            except ChildFailed as failure:
                return Made(failure=failure.message)
        return Made({**told, "grid": self.subject.grids[key]}, folder)

    def _job(self, made: Made) -> Job:
        """How a candidate is launched."""
        told = made.told
        x, y, z = told["grid"]
        arguments = tuple(
            ArrayFile(value.file) if isinstance(value, ArgumentFile) else value
            for value in self.subject.arguments
        )
        return Job(
            told["cubin"],
            told["entry"],
            (x, y, z),
            tuple(told["block"]),
            tuple(told["types"]),
            arguments,
            told["cluster_size"],
        )

    def run(self, point: Point, made: Made, best: float | None) -> Result:
        """Launches, checks and times a candidate; whatever it does costs its process only.

        Without a reference the results of the first that runs are what is expected. `best` are the
        milliseconds of the best so far.
        """
        if made.failure:
            return Result(point, kind="make", message=made.failure)
        resources = made.told["resources"]
        used: dict[str, Any] = {
            "registers": int(resources.get("registers", 0)),
            "spills": int(resources.get("spill_stores", 0)),
        }
        process = self._launcher()
        try:
            job, found = self._launch(process, made)
            process.begin_timing(self.repeats, None if best is None else best * SLOWER)
            wrong = self._mistake(job, found)  # while it is timed
            (times,) = process.times()
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
                wrong = made.failure or self._mistake(*self._launch(process, made))
                if wrong:
                    process.forget()
                    return wrong
            times = process.time(self.repeats)
            process.forget()
        except ChildFailed as failure:
            return failure.message
        return [tuple(one) for one in times]

    def _launch(self, process: KernelProcess, made: Made) -> tuple[Job, dict[int, str]]:
        """Launches a candidate: how, and the files of its results. Raises ChildFailed."""
        job = self._job(made)
        return job, process.launch(job, made.folder, self.seconds_to_run)

    def _mistake(self, job: Job, found: Mapping[int, str]) -> str:
        """What is wrong with results, whose files are removed."""
        subject = self.subject
        wrong = mistake(subject.arguments, found, self.folder, subject.relative, subject.absolute)
        for place, path in found.items():
            if ArrayFile(path) != job.arguments[place]:
                os.unlink(path)
        return wrong
