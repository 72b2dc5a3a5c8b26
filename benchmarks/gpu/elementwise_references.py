"""Exact results and library calls for `elementwise_kernels.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import gelu, silu

Arguments = list[Any]
Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
CHUNK = 1 << 22
HALF_ROUNDING = 2.0**-11
"""Half a unit in the last place of f16."""
SMALLEST = 2.0**-24
COMPUTED = 2.0**-16
"""What f32 arithmetic with approximate functions may be off, relatively."""


def expected_of(function: Callable[..., torch.Tensor], inputs: int) -> Callable[..., Any]:
    """Pieces of rows of the first dim, in f64; the result has the shape of the first input."""

    def pieces(arguments: Arguments) -> Iterator[Piece]:
        first = arguments[0]
        rows = max(1, CHUNK // max(1, first[0].numel()))
        for row in range(0, first.shape[0], rows):
            part = slice(row, row + rows)
            exact = function(*(a[part].to(torch.float64) for a in arguments[:inputs]))
            size = sum(a[part].to(torch.float64).abs().amax() for a in arguments[:inputs])
            yield part, exact, (HALF_ROUNDING + COMPUTED) * exact.abs() + SMALLEST + 1e-6 * size

    return pieces


def kept(count: int, seed: int, device: torch.device) -> torch.Tensor:
    """Which elements stay: the kernel's hash in 32-bit arithmetic with signed shifts."""
    bits = torch.arange(count, device=device, dtype=torch.int32) + seed
    bits = (bits ^ (bits >> 15)) * 0x2C1B3C6D
    bits = (bits ^ (bits >> 12)) * 0x297A2D39
    bits = bits ^ (bits >> 15)
    return (bits & 3) != 0


def expected_dropout(arguments: Arguments) -> Iterator[Piece]:
    """Elements that stay, times 4 / 3."""
    x, _, seed = arguments[:3]
    mask = kept(x.shape[0], seed, x.device)
    for start in range(0, x.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        exact = torch.where(mask[part], x[part].to(torch.float64) * 4 / 3, 0.0)
        yield part, exact, (HALF_ROUNDING + COMPUTED) * exact.abs() + SMALLEST


def rotated(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """The halves of the last dim, rotated."""
    first, second = x.chunk(2, -1)
    cosine, sine = cosines[:, None], sines[:, None]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def expected_function(function: Callable[..., torch.Tensor], inputs: int, ulps: int) -> Any:
    """A function's values within so many units in the last place of the result."""

    def pieces(arguments: Arguments) -> Iterator[Piece]:
        unit = torch.finfo(arguments[0].dtype)
        for start in range(0, arguments[0].shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            exact = function(*(a[part].to(torch.float64) for a in arguments[:inputs]))
            yield part, exact, ulps * (unit.eps * exact.abs() + unit.smallest_normal * unit.eps)

    return pieces


def _tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return gelu(x, approximate="tanh")


def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return silu(gate) * up


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "add": expected_of(torch.add, 2),
    "silu": expected_of(silu, 1),
    "gelu": expected_of(_tanh_gelu, 1),
    "dropout": expected_dropout,
    "rope": expected_of(rotated, 3),
    "swiglu": expected_of(_swiglu, 2),
    "sin": expected_function(torch.sin, 1, 2),
    "cos": expected_function(torch.cos, 1, 2),
    "tan": expected_function(torch.tan, 1, 4),
    "exp": expected_function(torch.exp, 1, 2),
    "log": expected_function(torch.log, 1, 1),
    "pow": expected_function(torch.pow, 2, 4),
}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "add": lambda a: lambda: torch.add(a[0], a[1], out=_like(a[0])),
    "silu": lambda a: lambda: silu(a[0]),
    "gelu": lambda a: lambda: _tanh_gelu(a[0]),
    "dropout": lambda a: lambda: torch.nn.functional.dropout(a[0], 0.25),
    "rope": lambda a: None,
    "swiglu": lambda a: lambda: _swiglu(a[0], a[1]),
    "sin": lambda a: lambda: torch.sin(a[0], out=_like(a[0])),
    "cos": lambda a: lambda: torch.cos(a[0], out=_like(a[0])),
    "tan": lambda a: lambda: torch.tan(a[0], out=_like(a[0])),
    "exp": lambda a: lambda: torch.exp(a[0], out=_like(a[0])),
    "log": lambda a: lambda: torch.log(a[0], out=_like(a[0])),
    "pow": lambda a: lambda: torch.pow(a[0], a[1], out=_like(a[0])),
}

_OUTPUTS: dict[tuple[tuple[int, ...], torch.dtype], torch.Tensor] = {}


def _like(x: torch.Tensor) -> torch.Tensor:
    """An output of the library's, made once: making it is no part of the work."""
    key = (tuple(x.shape), x.dtype)
    if key not in _OUTPUTS:
        _OUTPUTS.clear()
        _OUTPUTS[key] = torch.empty_like(x)
    return _OUTPUTS[key]
