"""What a tuning found, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tileiras.tune.cache import Result
from tileiras.tune.description import Point, label_of

MOST_ROWS = 12
"""Policy: points that the table shows; JSON has all."""

_LONGEST_MESSAGE = 90

_FAILURES = {
    "make": "does not compile",
    "wrong": "wrong results",
    "hang": "hangs",
    "crash": "ends its process",
    "error": "fails",
}


@dataclass(frozen=True)
class Report:
    """The results in the order in which they were found; the first is that of the defaults.

    `again` are the milliseconds of the defaults and of the best, measured once more at the end.
    """

    name: str
    device: str
    target: str
    points: int
    results: tuple[Result, ...]
    best: Point | None
    again: tuple[tuple[float, ...], tuple[float, ...]] | None
    known: int
    """How many results are from an earlier run."""
    reason: str
    seconds: float

    @property
    def defaults(self) -> Result:
        """That of the defaults."""
        return self.results[0]

    @property
    def best_result(self) -> Result | None:
        """That of the best point."""
        return next((one for one in self.results if one.point == self.best), None)

    @property
    def gain(self) -> float | None:
        """How many times as long the defaults take; None where one of the two is missing."""
        if self.again is not None:
            return median(self.again[0]) / median(self.again[1])
        best = self.best_result
        if best is None or best.median is None or self.defaults.median is None:
            return None
        return self.defaults.median / best.median


def to_text(report: Report) -> str:
    """The table."""
    good = sorted((one for one in report.results if one.times), key=lambda one: one.median or 0.0)
    shown = good[:MOST_ROWS]
    if report.defaults.times and report.defaults not in shown:
        shown.append(report.defaults)
    lines = [f"{report.name} on {report.device} ({report.target})", ""]
    width = max((len(label_of(one.point)) for one in shown), default=0)
    for one in shown:
        marks = [word for word in (_mark(report, one), _spills(one)) if word]
        least, most = min(one.times), max(one.times)
        lines.append(
            f"  {label_of(one.point):<{width}}  {one.median:9.4f} ms "
            f"({least:.4f} to {most:.4f})  {', '.join(marks)}".rstrip()
        )
    if len(good) > len(shown):
        lines.append(f"  and {len(good) - len(shown)} slower ones")
    lines += _failures([one for one in report.results if not one.times])
    lines += ["", *_end(report)]
    return "\n".join(lines) + "\n"


def _mark(report: Report, one: Result) -> str:
    """Which of the points that are looked for this is."""
    words = ["best"] if one.point == report.best else []
    words += ["defaults"] if one is report.defaults else []
    return ", ".join(words)


def _spills(one: Result) -> str:
    """What the registers could not hold."""
    return f"{one.spills} bytes spilled" if one.spills else ""


def _failures(failed: Sequence[Result]) -> list[str]:
    """The points that failed, by how; the first of a kind says why."""
    lines: list[str] = []
    for kind, words in _FAILURES.items():
        some = [one for one in failed if one.kind == kind]
        for one in some[:2]:
            first = (one.message.splitlines() or [""])[0][:_LONGEST_MESSAGE]
            lines.append(f"  {label_of(one.point)}  {words}: {first}")
        if len(some) > 2:
            lines.append(f"  and {len(some) - 2} more: {words}")
    return lines


def _end(report: Report) -> list[str]:
    """The best, the gain, what it took."""
    lines: list[str] = []
    if report.best is not None:
        lines.append(f"best      {label_of(report.best)}")
    if report.gain is not None:
        text = f"{report.gain:.3f} times as fast as the defaults"
        if report.again is not None:
            first, second = (median(times) for times in report.again)
            text += f", measured again: {first:.4f} ms, {second:.4f} ms"
        lines.append(f"gain      {text}")
    failed = sum(not one.times for one in report.results)
    lines.append(
        f"tried     {len(report.results)} of {report.points} points, {failed} failed, "
        f"{report.known} known from earlier; {report.reason}"
    )
    lines.append(f"time      {report.seconds:.1f} s")
    return lines


def to_json(report: Report) -> str:
    """Everything; times of launches in milliseconds."""
    data: dict[str, Any] = {
        "name": report.name,
        "device": report.device,
        "target": report.target,
        "points": report.points,
        "best": report.best,
        "gain": report.gain,
        "again_ms": report.again,
        "known": report.known,
        "reason": report.reason,
        "seconds": report.seconds,
        "results": [
            {
                "point": one.point,
                "median_ms": one.median,
                "times_ms": one.times,
                "failure": one.kind,
                "message": one.message,
                "registers": one.registers,
                "bytes_spilled": one.spills,
            }
            for one in report.results
        ],
    }
    return json.dumps(data, indent=2) + "\n"
