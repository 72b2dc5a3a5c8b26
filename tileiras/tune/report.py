"""What a tuning found, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tileiras.runtime.batches import spread
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
class Comparison:
    """The defaults and the best that the search found, in milliseconds of alternating batches.

    `failure` says why there are none.
    """

    defaults: tuple[float, ...] = ()
    found: tuple[float, ...] = ()
    failure: str = ""

    @property
    def gain(self) -> float:
        """How many times as long the defaults take."""
        return median(self.defaults) / median(self.found) if self.defaults else 1.0

    @property
    def spread(self) -> float:
        """The larger of the two spreads: a smaller difference means nothing."""
        return max(spread(self.defaults), spread(self.found))

    @property
    def is_better(self) -> bool:
        """Whether what was found is faster than the defaults by more than the spread."""
        return self.gain > 1 + self.spread


@dataclass(frozen=True)
class Report:
    """The results in the order in which they were found; the first is that of the defaults.

    `found` is the best point of the search, `final` its comparison with the defaults: None where it
    is the defaults, or where these fail.
    """

    name: str
    device: str
    target: str
    points: int
    results: tuple[Result, ...]
    found: Point | None
    final: Comparison | None
    known: int
    """How many results are from an earlier run."""
    reason: str
    seconds: float

    @property
    def defaults(self) -> Result:
        """That of the defaults."""
        return self.results[0]

    @property
    def best(self) -> Point | None:
        """What was found if it is better than the defaults, else these; None where nothing runs."""
        if self.final is None or self.final.is_better:
            return self.found
        return self.defaults.point

    @property
    def gain(self) -> float | None:
        """How many times as long the defaults take as the best; None where they fail."""
        if self.best is None or not self.defaults.times:
            return None
        return self.final.gain if self.final is not None and self.final.is_better else 1.0


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
        lines.append(f"gain      {_gain(report)}")
    failed = sum(not one.times for one in report.results)
    lines.append(
        f"tried     {len(report.results)} of {report.points} points, {failed} failed, "
        f"{report.known} known from earlier; {report.reason}"
    )
    lines.append(f"time      {report.seconds:.1f} s")
    return lines


def _gain(report: Report) -> str:
    """By how much the best is faster, or what was found is not."""
    final = report.final
    if final is None:
        return "none: nothing is better than the defaults"
    other = "" if report.found is None else label_of(report.found)
    if final.failure:
        return f"none: {other} failed when it was compared: {final.failure}"
    first, second = median(final.defaults), median(final.found)
    told = f"{first:.4f} ms, {second:.4f} ms, spread {100 * final.spread:.1f} %"
    if final.is_better:
        return f"{final.gain:.3f} times as fast as the defaults, by turns: {told}"
    return f"none: {other} is no better than the defaults, by turns: {told}"


def to_json(report: Report) -> str:
    """Everything; times of launches in milliseconds."""
    final = report.final
    data: dict[str, Any] = {
        "name": report.name,
        "device": report.device,
        "target": report.target,
        "points": report.points,
        "best": report.best,
        "gain": report.gain,
        "compared": report.found if final is not None else None,
        "compared_ms": [final.defaults, final.found] if final and final.defaults else None,
        "spread": final.spread if final is not None else None,
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
