"""What a row is: a kernel, its arguments, and how close its results must come to what reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    IntegerType,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f16,
    f32,
    f64,
    tf32,
)

from tests.kernels.kernel_builder import Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType
from tileiras.interpreter.formats import FloatFormat, Format, format_of, from_bits

i1, i8, i16, i32, i64 = (IntegerType(width) for width in (1, 8, 16, 32, 64))
INTEGERS = (i1, i8, i16, i32, i64)
FLOATS = (f16, bf16, f32, f64)
SMALL_FLOATS = (f8E4M3FN, f8E5M2)
ELEMENTS = (*INTEGERS, *FLOATS, tf32, *SMALL_FLOATS)
"""Every element type that sm_90 has."""

Arguments = list[Any]
Reference = Callable[[Arguments], Any]


@dataclass(frozen=True)
class Close:
    """How near an output must come to its reference.

    `reference` makes exact values (long double) from the arguments before the launch; without it
    the interpreter's result is the reference. The error may be `ulps` units in the last place of
    the output's type plus `absolute(arguments)`.
    """

    position: int
    reference: Reference | None = None
    ulps: float = 0.0
    absolute: Reference | None = None
    flushes: bool = False


@dataclass(frozen=True)
class Row:
    """One kernel: every array argument is compared afterwards, exactly unless `close` says not.

    NaNs are all alike. The elements of the arguments at positions `unordered` are compared sorted.
    """

    family: str
    name: str
    build: Callable[[], Kernel]
    arguments: Callable[[], Arguments]
    grid: tuple[int, int, int] = (1, 1, 1)
    close: Sequence[Close] = ()
    unordered: Sequence[int] = ()

    @property
    def id(self) -> str:
        """The row's name among all rows."""
        return f"{self.family}-{self.name}"

    def finished(self) -> Kernel:
        """The kernel with its `return`."""
        kernel = self.build()
        if not isinstance(kernel.block.last_op, ct.ReturnOp):
            kernel.add(ct.ReturnOp, [[]])
        return kernel


def formats_of(kernel: Kernel) -> list[Format | None]:
    """The format of each pointer parameter's elements, None for scalars."""
    found: list[Format | None] = []
    for argument in kernel.args:
        element = argument.type.element_type  # pyright: ignore
        pointee = element.pointee if isinstance(element, PointerType) else None
        found.append(None if pointee is None else format_of(pointee))
    return found


def as_numbers(bits: np.ndarray, fmt: Format) -> np.ndarray:
    """Memory read as elements of a format."""
    return np.asarray(from_bits(np.ascontiguousarray(bits).view(fmt.storage), fmt))


@dataclass(frozen=True)
class Comparison:
    """The worst error of one output and its bound, and whether all is well."""

    is_ok: bool
    error: float = 0.0
    bound: float = 0.0
    message: str = ""


def compare_exactly(found: np.ndarray, wanted: np.ndarray, fmt: Format) -> Comparison:
    """Bits must agree; NaNs are all alike."""
    got = np.ascontiguousarray(found).view(fmt.storage)
    want = np.ascontiguousarray(wanted).view(fmt.storage)
    wrong = got != want
    if isinstance(fmt, FloatFormat) and wrong.any():
        with np.errstate(all="ignore"):
            left = as_numbers(got, fmt).astype(np.float64)
            right = as_numbers(want, fmt).astype(np.float64)
        wrong &= ~(np.isnan(left) & np.isnan(right))
    if not wrong.any():
        return Comparison(True)
    places = np.argwhere(wrong)[:4]
    shown = [
        f"{list(map(int, place))}: got {as_numbers(got, fmt)[tuple(place)]} "
        f"expected {as_numbers(want, fmt)[tuple(place)]}"
        for place in places
    ]
    text = f"{int(wrong.sum())} of {wrong.size} differ: " + "; ".join(shown)
    return Comparison(False, float(wrong.sum()), 0.0, text)


def ulp_of(values: np.ndarray, fmt: FloatFormat) -> np.ndarray:
    """The distance of neighbouring numbers of the format around each value."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.abs(values))
    exponent = np.where(values == 0, fmt.emin, np.maximum(exponent - 1, fmt.emin))
    return np.ldexp(np.longdouble(1), exponent - (fmt.precision - 1))


def compare_closely(
    found: np.ndarray, exact: np.ndarray, fmt: FloatFormat, close: Close, arguments: Arguments
) -> Comparison:
    """The error in units of its bound; infinities and NaNs must be where they belong."""
    with np.errstate(all="ignore"):
        numbers = as_numbers(found, fmt)
        got = numbers.astype(np.float64 if fmt.bits < 64 else fmt.dtype).astype(np.longdouble)
    exact = np.broadcast_to(np.asarray(exact, dtype=np.longdouble), got.shape)
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(exact), exact, 0)
        unit = ulp_of(finite, fmt)
        allowed = close.ulps * unit
        if close.absolute is not None:
            allowed = allowed + np.asarray(close.absolute(arguments), dtype=np.longdouble)
        error = np.abs(got - finite)
        largest = np.longdouble(fmt.max_finite)
        over = np.isinf(got) & (np.abs(finite) + allowed + unit / 2 > largest)
        good = (error <= allowed) | (over & (np.signbit(got) == np.signbit(finite)))
        if close.flushes:
            good |= (got == 0) & (np.abs(finite) < np.ldexp(np.longdouble(1), fmt.emin))
    good = np.where(np.isnan(exact), np.isnan(got), good)
    good = np.where(np.isinf(exact), got == exact, good)
    inside = np.isfinite(exact) & np.isfinite(got)
    ratio = np.where(inside, error / np.maximum(allowed, np.longdouble(1e-4000)), 0)
    worst = int(np.argmax(ratio)) if ratio.size else 0
    size = float((error / unit).flat[worst]) if ratio.size else 0.0
    bound = float((allowed / unit).flat[worst]) if ratio.size else 0.0
    if good.all():
        return Comparison(True, size, bound)
    places = np.argwhere(~good)[:4]
    shown = [
        f"{list(map(int, p))}: got {got[tuple(p)]} expected {exact[tuple(p)]}"
        f" within {float(allowed[tuple(p)]):.3g}"
        for p in places
    ]
    text = f"{int((~good).sum())} of {good.size} differ: " + "; ".join(shown)
    return Comparison(False, size, bound, text)
