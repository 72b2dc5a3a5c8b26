"""Which points to try next: first every change of one choice, then what they promise together.

First the defaults, then every point that differs from them in one choice. From then on a model says
how long the others would take, in which each choice makes a kernel so many times as long whatever
the other choices are. The most promising are tried and the model learns from them; one of each
few is any point, since the model can be wrong. The same results lead to the same points.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Any

from tileiras.tune.description import Point

AT_ONCE = 6
"""Policy: points that are tried before the model is asked again."""

IMPROVEMENT = 0.01
"""Policy: the least part of the time by which a point must be faster to be a new best."""

_SEED = 20
_PENALTY = log(2)
"""Policy: a point that fails counts as twice as slow as the slowest."""
_ROUNDS = 20
"""Policy: how often the model's effects are adjusted to each other; they settle in a few rounds."""
_DOUBT = 0.25
"""Policy: an effect that was seen n times counts n / (n + this)."""


def key_of(point: Point) -> str:
    """A point as a key."""
    return json.dumps(point, sort_keys=True)


@dataclass(frozen=True)
class Limits:
    """When to stop: points tried, points in a row without a new best, seconds (0: never)."""

    most: int
    patience: int
    seconds: float


@dataclass
class Search:
    """The state of a search over the points that there are; the first are the defaults.

    `times` are the milliseconds of what was tried, None for what failed.
    """

    points: Sequence[Point]
    times: dict[str, float | None] = field(default_factory=dict[str, float | None])
    best: Point | None = None
    since_best: int = 0
    """How many points were tried since the best was found."""

    def next_points(self) -> list[Point]:
        """What to try next, the most promising first; empty when everything was tried."""
        left = [point for point in self.points if key_of(point) not in self.times]
        near = [point for point in left if _distance(point, self.points[0]) <= 1]
        if near or not left:
            return near
        model = _Model([(point, self._cost(point)) for point in self.points if self._tried(point)])
        ranked = sorted(left, key=model.predict)
        chosen, others = ranked[: AT_ONCE - 1], ranked[AT_ONCE - 1 :]
        return chosen + Random(_SEED + len(self.times)).sample(others, min(1, len(others)))

    def record(self, point: Point, time: float | None) -> None:
        """Notes how long a point took; None: it failed."""
        best = self.best_time
        self.times[key_of(point)] = time
        if time is not None and (best is None or time < best * (1 - IMPROVEMENT)):
            self.best, self.since_best = point, 0
        else:
            self.since_best += 1

    @property
    def best_time(self) -> float | None:
        """The milliseconds of the best point; None while there is none."""
        return None if self.best is None else self.times[key_of(self.best)]

    def reason_to_stop(self, limits: Limits, seconds: float) -> str:
        """Why to try no more after so many seconds; empty: go on. The defaults are always tried."""
        if not self.times:
            return ""
        if len(self.times) >= len(self.points):
            return "every point was tried"
        if len(self.times) >= limits.most:
            return f"{limits.most} points were tried"
        if self.since_best >= limits.patience:
            return f"{self.since_best} points in a row were no better"
        if limits.seconds and seconds >= limits.seconds:
            return f"{limits.seconds:g} seconds are over"
        return ""

    def _tried(self, point: Point) -> bool:
        return key_of(point) in self.times

    def _cost(self, point: Point) -> float:
        """The logarithm of a point's time; a guess for one that failed."""
        time = self.times[key_of(point)]
        if time:
            return log(time)
        slowest = max((one for one in self.times.values() if one), default=1.0)
        return log(slowest) + _PENALTY


class _Model:
    """Costs as a sum of one effect for each choice, fitted to costs that are known."""

    def __init__(self, known: Sequence[tuple[Point, float]]):
        self._base = sum(cost for _, cost in known) / len(known)
        self._effects: dict[tuple[str, Any], float] = {}
        holders: dict[tuple[str, Any], list[tuple[Point, float]]] = {}
        for point, cost in known:
            for choice in _choices(point):
                holders.setdefault(choice, []).append((point, cost))
        for _ in range(_ROUNDS):
            for choice, those in holders.items():
                rest = sum(
                    cost - self.predict(point) + self._effects.get(choice, 0.0)
                    for point, cost in those
                )
                self._effects[choice] = rest / (len(those) + _DOUBT)

    def predict(self, point: Point) -> float:
        """The cost of a point; choices that were never seen count as average ones."""
        return self._base + sum(self._effects.get(choice, 0.0) for choice in _choices(point))


def _choices(point: Point) -> list[tuple[str, str]]:
    """The choices of a point as keys."""
    return [(name, repr(value)) for name, value in point.items()]


def _distance(one: Mapping[str, object], other: Mapping[str, object]) -> int:
    """In how many choices two points differ."""
    return sum(one[name] != other[name] for name in one)
