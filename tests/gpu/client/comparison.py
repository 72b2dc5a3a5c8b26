"""Compares what a kernel wrote with what it must write, and keeps the rows of the final table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cases import KernelCase, Output


@dataclass(frozen=True)
class Row:
    """One output of one case: the largest error found and the bound where it was found."""

    name: str
    shape: str
    error: float
    bound: float
    is_ok: bool


def compare(case: KernelCase, output: Output, actual: np.ndarray) -> Row:
    """The row of an output; NaN must meet NaN, and zeros must have the expected sign."""
    got = np.asarray(actual).astype(np.float64)
    want = np.asarray(output.expected, dtype=np.float64)
    bound = np.broadcast_to(np.asarray(output.bound, dtype=np.float64), want.shape)
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
    is_same = (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(is_same, 0.0, np.where(np.isnan(error), np.inf, error))
    wrong_zero = (want == 0) & (bound == 0) & (np.signbit(got) != np.signbit(want))
    is_ok = not np.any((error > bound) | wrong_zero)
    worst = int(np.argmax(error - bound)) if error.size else 0
    name = case.name if len(case.outputs) == 1 else f"{case.name}[{output.position}]"
    return Row(name, case.shape, float(error.flat[worst]), float(bound.flat[worst]), is_ok)
