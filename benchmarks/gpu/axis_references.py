"""Exact results and library calls for `axis_kernels.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

Arguments = list[Any]
Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
CHUNK = 1 << 24
"""Elements of a float64 piece, about."""


def _pieces(x: torch.Tensor, axis: int) -> Iterator[tuple[slice, ...]]:
    """Whole rows, or whole columns, a few at a time."""
    step = max(1, CHUNK // x.shape[axis])
    for start in range(0, x.shape[1 - axis], step):
        part = slice(start, start + step)
        yield (part, slice(None)) if axis == 1 else (slice(None), part)


def _scan(axis: int) -> Callable[[Arguments], Iterator[Piece]]:
    """Sums in f32, rounded to the type of the result."""

    def pieces(arguments: Arguments) -> Iterator[Piece]:
        x, out = arguments[:2]
        for part in _pieces(x, axis):
            source = x[part].to(torch.float64)
            exact, squares = source.cumsum(axis), source.square().cumsum(axis)
            yield part, exact, torch.finfo(out.dtype).eps * exact.abs() + 2.0**-18 * squares.sqrt()

    return pieces


def _argmax(axis: int) -> Callable[[Arguments], Iterator[Piece]]:
    """Places, the first of equal elements."""

    def pieces(arguments: Arguments) -> Iterator[Piece]:
        x = arguments[0]
        places = torch.arange(x.shape[axis], device=x.device, dtype=torch.float64)
        places = places if axis == 1 else places[:, None]
        for part in _pieces(x, axis):
            source = x[part]
            is_top = source == source.amax(axis, keepdim=True)
            yield part[1 - axis], torch.where(is_top, places, float("inf")).amin(axis), 0.0

    return pieces


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "scan_rows": _scan(1),
    "scan_columns": _scan(0),
    "argmax_rows": _argmax(1),
    "argmax_columns": _argmax(0),
}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "scan_rows": lambda a: lambda: torch.cumsum(a[0], 1),
    "scan_columns": lambda a: lambda: torch.cumsum(a[0], 0),
    "argmax_rows": lambda a: lambda: torch.argmax(a[0], 1),
    "argmax_columns": lambda a: lambda: torch.argmax(a[0], 0),
}
