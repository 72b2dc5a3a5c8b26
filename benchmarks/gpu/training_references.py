"""Exact results and library calls for `training_kernels.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from elementwise_references import expected_of
from torch.nn.functional import cross_entropy, embedding, gelu

Arguments = list[Any]
Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
CHUNK = 1 << 25
"""Elements of a float64 piece, about."""


def _geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gelu(gate, approximate="tanh") * up


def expected_cross_entropy(arguments: Arguments) -> Iterator[Piece]:
    """Losses of rows; a sum of f32 exponentials."""
    scores, targets = arguments[0], arguments[1].long()
    rows = max(1, CHUNK // scores.shape[1])
    for row in range(0, scores.shape[0], rows):
        part = slice(row, row + rows)
        exact = cross_entropy(scores[part].to(torch.float64), targets[part], reduction="none")
        yield part, exact, 2.0**-18 * (1 + exact.abs())


def expected_embedding(arguments: Arguments) -> Iterator[Piece]:
    """The same bits elsewhere."""
    table, indices = arguments[0], arguments[1].long()
    rows = max(1, CHUNK // table.shape[1])
    for row in range(0, indices.shape[0], rows):
        part = slice(row, row + rows)
        yield part, table[indices[part]].to(torch.float64), 0.0


def expected_index_add(arguments: Arguments) -> Iterator[Piece]:
    """Sums of rows in f32, in any order."""
    source, indices, out = arguments[:3]
    columns = max(1, CHUNK // out.shape[0])
    for column in range(0, out.shape[1], columns):
        part = source[:, column : column + columns].to(torch.float64)
        exact = torch.zeros(out.shape[0], part.shape[1], dtype=torch.float64, device=out.device)
        size = torch.zeros_like(exact).index_add_(0, indices.long(), part.abs())
        exact.index_add_(0, indices.long(), part)
        yield (slice(None), slice(column, column + columns)), exact, 2.0**-20 * size


def expected_layer_norm_backward(arguments: Arguments) -> Iterator[Piece]:
    """Sums of the weights' gradients, every so many rows in one, in f32 and in any order."""
    total, dy, x, mean, rstd = (arguments[number] for number in (0, 3, 4, 6, 7))
    for group in range(total.shape[0]):
        rows = slice(group, None, total.shape[0])
        scale, center = rstd[rows, None].to(torch.float64), mean[rows, None].to(torch.float64)
        part = (x[rows].to(torch.float64) - center) * scale * dy[rows].to(torch.float64)
        size = ((x[rows].abs() + center.abs()) * scale.abs() * dy[rows].abs()).sum(0)
        yield group, part.sum(0), 2.0**-20 * size


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "geglu": expected_of(_geglu, 2),
    "cross_entropy": expected_cross_entropy,
    "embedding": expected_embedding,
    "index_add": expected_index_add,
    "layer_norm_backward": expected_layer_norm_backward,
}


def _library_index_add(arguments: Arguments) -> Callable[[], Any]:
    source, indices, out = arguments[:3]
    total = torch.zeros_like(out)
    wide = source.to(total.dtype)
    return lambda: total.index_add_(0, indices, wide)


def _library_cross_entropy(arguments: Arguments) -> Callable[[], Any]:
    targets = arguments[1].long()
    return lambda: cross_entropy(arguments[0], targets, reduction="none")


def _library_layer_norm_backward(arguments: Arguments) -> Callable[[], Any]:
    dy, x, weight, mean, rstd = arguments[3:8]
    wanted = [True, True, True]
    return lambda: torch.ops.aten.native_layer_norm_backward(
        dy, x, [x.shape[1]], mean[:, None], rstd[:, None], weight, weight, wanted
    )


LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "geglu": lambda a: lambda: _geglu(a[0], a[1]),
    "cross_entropy": _library_cross_entropy,
    "embedding": lambda a: lambda: embedding(a[1], a[0]),
    "index_add": _library_index_add,
    "layer_norm_backward": _library_layer_norm_backward,
}
