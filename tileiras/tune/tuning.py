"""A whole tuning: reads the file, tries points while that helps, measures the best again."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from tileiras.driver import with_environment
from tileiras.errors import UsageError
from tileiras.options import CompileOptions
from tileiras.result_cache import compiler_state
from tileiras.runtime.isolated import Device, KernelProcess
from tileiras.tune.cache import Result, ResultFile
from tileiras.tune.description import Point, label_of
from tileiras.tune.makers import Makers
from tileiras.tune.progress import Tell, progress
from tileiras.tune.report import Comparison, Report
from tileiras.tune.search import Limits, Search
from tileiras.tune.trials import Commands, Subject, Trials, read_subject, start_reading


@dataclass(frozen=True)
class Plan:
    """What the command line asks for; times in seconds, `cache` is a folder or None."""

    path: str
    variable: str
    target: str
    jobs: int
    most: int
    patience: int
    seconds: float
    seconds_to_run: float
    seconds_to_make: float
    repeats: int
    cache: str | None
    retry: bool
    fresh: bool
    shows_progress: bool


def tune(plan: Plan, folder: str, commands: Commands, start: float) -> Report:
    """Tunes; `folder` is for files that go after it, `start` is when the command began.

    Raises UsageError for a file that is wrong, GpuError where there is no GPU.
    """
    if not os.path.isfile(plan.path):
        raise UsageError(f"unable to read input file '{plan.path}': No such file or directory")
    limit = plan.seconds_to_make
    with (
        start_reading(plan.path, plan.variable, folder, limit, commands) as child,
        KernelProcess(folder, commands.launcher) as launcher,
        Makers(plan.path, plan.variable, folder, limit, commands.maker) as makers,
    ):
        makers.start(plan.jobs)
        device = launcher.device()
        subject = read_subject(child, plan.path)
        target = plan.target or device.target
        with Trials(
            subject,
            target,
            folder,
            plan.jobs,
            plan.seconds_to_run,
            plan.repeats,
            makers,
            launcher,
            commands.launcher,
        ) as trials:
            return _tune(plan, trials, device, start)


def _tune(plan: Plan, trials: Trials, device: Device, start: float) -> Report:
    """Searches, and compares the best with the defaults."""
    subject = trials.subject
    kept = ResultFile(plan.cache, _parts(plan, subject, device, trials.target))
    if plan.retry:
        kept.forget_failures()
    run = _Run(trials, kept, Search(subject.points), plan, start)
    limits = Limits(plan.most, plan.patience, plan.seconds)
    with progress(min(plan.most, len(subject.points)), plan.shows_progress) as tell:
        reason = run.search(limits, tell)
        final = run.compare()
    return Report(
        name=_name(plan),
        device=device.name,
        target=trials.target,
        points=len(subject.points),
        results=tuple(run.results),
        found=run.state.best,
        final=final,
        known=run.known,
        reason=reason,
        seconds=time.monotonic() - start,
    )


def _name(plan: Plan) -> str:
    """What is tuned, for the report."""
    name = os.path.basename(plan.path)
    return name if plan.variable == "TUNE" else f"{name}:{plan.variable}"


def _parts(plan: Plan, subject: Subject, device: Device, target: str) -> dict[str, Any]:
    """What results depend on."""
    knobs = with_environment(CompileOptions()).knobs
    return {
        "variable": plan.variable,
        "sources": subject.sources,
        "client": subject.client,
        "compiler": compiler_state(knobs),
        "knobs": sorted(item for item in knobs.items() if item[0].startswith("TILEIR_")),
        "target": target,
        "device": [device.target, device.name, device.driver],
        "batches": plan.repeats,
    }


class _Run:
    """The tuning as it goes."""

    def __init__(
        self, trials: Trials, kept: ResultFile, state: Search, plan: Plan, start: float
    ) -> None:
        self.trials, self.kept, self.state, self.plan = trials, kept, state, plan
        self.results: list[Result] = []
        self.known = 0
        self._start = start

    def search(self, limits: Limits, tell: Tell) -> str:
        """Tries points until one of the limits is reached; returns which."""
        while True:
            points = self.state.next_points()
            missing = [point for point in points if self._known(point) is None]
            with self.trials.making(missing) as made:
                for point in points:
                    reason = self.state.reason_to_stop(limits, time.monotonic() - self._start)
                    if reason:
                        return reason
                    result = self._known(point)
                    if result is not None:
                        self.known += 1
                    else:
                        result = self.trials.run(point, made(point), self.state.best_time)
                        self.kept.keep(result)
                    self._take(result, tell)
            if not points:
                return "every point was tried"

    def compare(self) -> Comparison | None:
        """The defaults and the best in one process, by turns; None where they are the same.

        The best of many was also lucky: this tells by how much it is faster, or that it is not.
        """
        best, defaults = self.state.best, self.results[0]
        if best is None or best == defaults.point or not defaults.times:
            return None
        points = [defaults.point, best]
        with self.trials.making(points) as made:
            found = self.trials.compare([made(point) for point in points])
        if isinstance(found, str):
            return Comparison(failure=found)
        first, second = found
        return Comparison(first, second)

    def _known(self, point: Point) -> Result | None:
        """The result of an earlier run.

        Without a reference the defaults run in every run: they tell what is expected.
        """
        subject = self.trials.subject
        needed = point == subject.points[0] and not subject.has_reference
        return None if self.plan.fresh or needed else self.kept.find(point)

    def _take(self, result: Result, tell: Tell) -> None:
        """Adds a result to what is known."""
        self.results.append(result)
        self.state.record(result.point, result.median)
        best, least = self.state.best, self.state.best_time
        words = "" if best is None else f"{least:.4f} ms {label_of(best)}"
        tell(len(self.results), words)
