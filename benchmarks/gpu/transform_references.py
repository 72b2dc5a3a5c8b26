"""Exact results and library calls for `transform_kernels.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

Arguments = list[Any]
Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
CHUNK = 1 << 24
"""Elements of a float64 piece, about."""
STEPS = 24
"""Roundings on the way to a result, about, each of half a unit in the last place."""


def roots(shape: list[int], count: int, device: str) -> torch.Tensor:
    """Powers i * j of the count-th root of unity, as pairs."""
    rows, columns = (torch.arange(size, dtype=torch.float64, device=device) for size in shape[:2])
    angles = -2 * torch.pi * rows[:, None] * columns / count
    return torch.stack([angles.cos(), angles.sin()], -1)


def complex_rows(packed: torch.Tensor) -> torch.Tensor:
    """The rows of a packed array as complex numbers."""
    return torch.view_as_complex(packed.reshape(packed.shape[0], -1, 2))


def expected_fourier(arguments: Arguments) -> Iterator[Piece]:
    """Transforms of rows; errors are as large as a share of the row's norm."""
    x = arguments[0]
    unit = torch.finfo(x.dtype).eps / 2
    rows = max(1, CHUNK // x[0].numel())
    for row in range(0, x.shape[0], rows):
        part = slice(row, row + rows)
        source = complex_rows(x[part].to(torch.float64))
        exact = torch.view_as_real(torch.fft.fft(source)).reshape(x[part].shape)
        size = torch.linalg.vector_norm(source, dim=1)[:, None, None]
        yield part, exact, STEPS * unit * size


def _library(arguments: Arguments) -> Callable[[], Any]:
    source = complex_rows(arguments[0])
    return lambda: torch.fft.fft(source)


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {"fourier": expected_fourier}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {"fourier": _library}
