"""What a kernel took on the GPU beside what the GPU could do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tileiras.codegen.target.rates import RATES
from tileiras.explain.analysis import Explanation, explain
from tileiras.explain.prediction import Shape
from tileiras.runtime.batches import spread
from tileiras.runtime.comparison import Comparison, difference


@dataclass(frozen=True)
class Times:
    """Milliseconds of a launch, one for each batch of them."""

    each: tuple[float, ...]

    @property
    def median(self) -> float:
        """In half of the batches a launch takes as long or longer."""
        return median(self.each)

    @property
    def spread(self) -> float:
        """The width of the middle half of the times, as a part of their median."""
        return spread(self.each)


@dataclass(frozen=True)
class Measurement:
    """A kernel on this GPU. `bytes` and `flops` are what its program asks for, by its shape.

    `comparison` is there if it was measured against another kernel that ran; `failure` says why
    that did not.
    """

    explanation: Explanation
    times: Times
    bytes: float
    flops: float
    comparison: Comparison | None = None
    other: str = ""
    failure: str = ""

    @property
    def gigabytes(self) -> float:
        """GB/s, every tensor once each way."""
        return self.bytes / self.times.median / 1e6 if self.times.median else 0.0

    @property
    def teraflops(self) -> float:
        """TFLOP/s of products."""
        return self.flops / self.times.median / 1e9 if self.times.median else 0.0

    @property
    def of_prediction(self) -> float:
        """The predicted time as a part of the measured one, 0 without a prediction."""
        predicted = self.explanation.prediction.time / 1000
        return predicted / self.times.median if self.times.median else 0.0

    def fact(self, key: str) -> str:
        """A fact of the remark about resources, empty if there is none."""
        for remark in self.explanation.remarks:
            if remark.name == "Resources":
                return dict(remark.arguments).get(key, "")
        return ""


def explained(
    source: bytes, filename: str, target: str, entry: str, shape: Shape
) -> tuple[Explanation, float, float]:
    """The kernel with its prediction where the GPU's rates are known, bytes and flops."""
    known = target in RATES
    found = explain(source, filename, target, entry, shape if known else None)
    lines = found.prediction.lines
    flops = sum(sum(line.work.flops.values()) for line in lines) * shape.blocks
    memory = found.prediction.times.get("memory", 0.0)
    bytes = memory * RATES[target].memory * 1e3 if known else 0.0
    return found, bytes, flops if known else 0.0


@dataclass(frozen=True)
class Launched:
    """A kernel that ran in another process: its times, and files with its arrays after it."""

    times: tuple[float, ...]
    results: Mapping[int, str]


def measure(
    found: tuple[Explanation, float, float],
    ours: Launched,
    arguments: Sequence[Any],
    other: tuple[str, Launched | str] | None = None,
    tolerance: tuple[float, float] = (0.0, 0.0),
) -> Measurement:
    """Puts together what is known of a kernel, and of another where there is one.

    `other`: its name with what it did, or why it failed. `tolerance`: relative and absolute
    difference of results that agree.
    """
    explanation, bytes, flops = found
    times = Times(ours.times)
    if other is None:
        return Measurement(explanation, times, bytes, flops)
    label, theirs = other
    if isinstance(theirs, str):
        return Measurement(explanation, times, bytes, flops, other=label, failure=theirs)
    done = _compare(ours, theirs, arguments, *tolerance)
    return Measurement(explanation, times, bytes, flops, done, label)


def _compare(
    ours: Launched, theirs: Launched, arguments: Sequence[Any], relative: float, absolute: float
) -> Comparison:
    """The results of two kernels, array by array."""
    import numpy as np

    agrees, errors = True, dict[int, float]()
    for place, path in ours.results.items():
        kind = arguments[place].dtype
        first, second = (np.fromfile(name, kind) for name in (path, theirs.results[place]))
        same, errors[place] = difference(first, second, relative, absolute)
        agrees = agrees and same
    return Comparison(agrees, errors, ours.times, theirs.times)
