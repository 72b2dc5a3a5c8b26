"""Rows of reduce and scan: every axis, many shapes, several operands, order that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, bf16, f16, f32, f64
from xdsl.dialects.builtin import i1 as builtin_i1
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute

from tests.kernels.combining import argmax
from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNIT, UNSIGNED, Kernel, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.formats import format_of, from_bits

from .rows import Close, Row, i1, i8, i16, i32, i64
from .shapes import text
from .tiles import load, store
from .values import empty, gaussian, mixed, small_integers

Body = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Combining:
    """A body: its operands' types, how it is written, and what to combine."""

    name: str
    types: tuple[Attribute, ...]
    body: Callable[[Kernel], Body]
    inputs: Callable[[Attribute, Sequence[int], str], Any] = mixed
    identity: int = 0


def identity_attr(element: Attribute, value: int) -> Attribute:
    """A typed identity: 0, or -1 (all ones) for integers."""
    if isinstance(element, IntegerType):
        return IntegerAttr(value, element)
    return FloatBitsAttr(value, element)


def one_op(op_class: Any, **properties: Any) -> Callable[[Kernel], Body]:
    """A body of one operation."""
    return lambda kernel: lambda a, b: [kernel.add(op_class, [a, b], a.type, **properties)]


def affine(kernel: Kernel) -> Body:
    """Composition of affine maps modulo a power of two: associative, not commutative."""

    def body(later_a: Any, early_a: Any, later_b: Any, early_b: Any) -> Sequence[Any]:
        type_ = later_a.type
        scale = kernel.add(ct.MulIOp, [later_a, early_a], type_, overflow=NO_OVERFLOW)
        moved = kernel.add(ct.MulIOp, [later_a, early_b], type_, overflow=NO_OVERFLOW)
        return [scale, kernel.add(ct.AddIOp, [moved, later_b], type_, overflow=NO_OVERFLOW)]

    return body


def numbered(element: Attribute, shape: Sequence[int], seed: str) -> Any:
    """Values with ties for the float operand, indices for the integer one."""
    if not isinstance(element, IntegerType):
        return small_integers(element, shape, seed, limit=100)
    count = int(np.prod(shape, dtype=np.int64))
    return np.arange(count, dtype=format_of(element).storage).reshape(tuple(shape))


def few(element: Attribute, shape: Sequence[int], seed: str) -> Any:
    """Whole numbers so small that partial sums are exact in every order, in bf16 too."""
    return small_integers(element, shape, seed, limit=1)


SUMS = tuple(
    Combining(f"addi_{t}", (t,), one_op(ct.AddIOp, overflow=NO_OVERFLOW))
    for t in (i1, i8, i16, i32, i64)
)
FLOAT_SUMS = tuple(
    Combining(f"addf_{t}", (t,), one_op(ct.AddFOp, rounding_mode=rounding()), few)
    for t in (f16, bf16, f32, f64)
)
PRODUCT = Combining("muli_i32", (i32,), one_op(ct.MulIOp, overflow=NO_OVERFLOW), identity=1)
LOGIC = tuple(
    Combining(f"{op.name.rpartition('.')[2]}_{t}", (t,), one_op(op), identity=-1)
    for op in (ct.AndIOp, ct.OrIOp, ct.XOrIOp)
    for t in (i1, i8, i32, i64)
)
EXTREMES = tuple(
    Combining(
        f"{op.name.rpartition('.')[2]}_{sign.data.value}_{t}", (t,), one_op(op, signedness=sign)
    )
    for op in (ct.MaxIOp, ct.MinIOp)
    for sign in (SIGNED, UNSIGNED)
    for t in (i8, i16, i32, i64)
)
FLOAT_EXTREMES = tuple(
    Combining(f"{op.name.rpartition('.')[2]}{suffix}_{t}", (t,), one_op(op, **properties))
    for op in (ct.MaxFOp, ct.MinFOp)
    for suffix, properties in (("", {}), ("_nan", {"propagate_nan": UNIT}))
    for t in (f16, bf16, f32, f64)
)
AFFINE = tuple(Combining(f"affine_{t}", (t, t), affine) for t in (i32, i8, i64))
ARGMAX = Combining("argmax", (f32, i32), argmax, numbered)
LAST = Combining("last_i32", (i32,), lambda kernel: lambda later, earlier: [later])
FIRST = Combining("first_i32", (i32,), lambda kernel: lambda later, earlier: [earlier])

ALL = (
    *SUMS,
    *FLOAT_SUMS,
    PRODUCT,
    *LOGIC,
    *EXTREMES,
    *FLOAT_EXTREMES,
    *AFFINE,
    ARGMAX,
    LAST,
    FIRST,
)
SHAPES: tuple[tuple[int, ...], ...] = (
    (1,),
    (2,),
    (32,),
    (256,),
    (8192,),
    (1, 1),
    (64, 64),
    (2, 1024),
    (1024, 2),
    (1, 512),
    (512, 1),
    (16, 128),
    (4, 8, 32),
    (32, 2, 16),
    (1, 64, 4),
    (2, 4, 8, 16),
)


def build_kernel(
    combining: Combining, shape: Sequence[int], dim: int, reverse: bool | None, way: Any
) -> Kernel:
    """Loads the operands, reduces (or scans, unless `reverse` is None), stores the results."""
    types = combining.types
    kernel = Kernel(*(PointerType(type_) for type_ in [*types, *types]))
    loaded = [load(kernel, arg, shape, way) for arg in kernel.args[: len(types)]]
    fill = combining.body(kernel)
    properties: dict[str, Any] = {
        "dim": IntegerAttr(dim, builtin_i32),
        "identities": ArrayAttr([identity_attr(t, combining.identity) for t in types]),
    }
    result_shape = list(shape)
    if reverse is None:
        del result_shape[dim]
    else:
        properties["reverse"] = IntegerAttr(int(reverse), builtin_i1)
    results = kernel.add(
        ct.ReduceOp if reverse is None else ct.ScanOp,
        [loaded],
        [[TileType(type_, result_shape) for type_ in types]],
        [
            kernel.region(
                [TileType(type_) for type_ in types for _ in (0, 1)],
                lambda *arguments: kernel.add(ct.YieldOp, [list(fill(*arguments))]),
            )
        ],
        **properties,
    )
    results = results if isinstance(results, list) else [results]
    for pointer, result in zip(kernel.args[len(types) :], results, strict=True):
        store(kernel, pointer, result)
    return kernel


def folding_row(
    combining: Combining,
    shape: tuple[int, ...],
    dim: int,
    reverse: bool | None,
    close: Sequence[Close] = (),
) -> Row:
    """A reduction or scan of mixed inputs."""
    kind = {None: "reduce", False: "scan", True: "scan_reverse"}[reverse]
    name = f"{kind}_{combining.name}_{text(shape)}_{dim}"
    kept = [s for d, s in enumerate(shape) if reverse is not None or d != dim]
    way = "view" if len(name) % 3 == 0 else "pointer"

    def arguments() -> list[Any]:
        inputs = [
            combining.inputs(t, shape, f"{name}/{position}")
            for position, t in enumerate(combining.types)
        ]
        return [*inputs, *(empty(t, kept) for t in combining.types)]

    return Row(
        "reduce" if reverse is None else "scan",
        name,
        lambda: build_kernel(combining, shape, dim, reverse, way),
        arguments,
        close=close,
    )


def _rounded_sums() -> Iterator[Row]:
    """Sums of numbers that round: near the exact sum, in any order."""
    for element in (f16, bf16, f32, f64):
        for shape, dim in (((4096,), 0), ((64, 64), 0), ((64, 64), 1), ((8, 512), 1)):
            for reverse in (None, False):
                body = one_op(ct.AddFOp, rounding_mode=rounding())
                sums = Combining(f"rounded_addf_{element}", (element,), body, gaussian)
                fmt = format_of(element)

                def exact(a: Any, fmt: Any = fmt, dim: Any = dim, reverse: Any = reverse) -> Any:
                    values = from_bits(a[0], fmt).astype(np.float64).astype(np.longdouble)
                    return values.sum(dim) if reverse is None else values.cumsum(dim)

                def bound(a: Any, fmt: Any = fmt, dim: Any = dim, n: int = shape[dim]) -> Any:
                    # every element takes part in at most log2(n) + 8 additions of partial sums
                    # of one thread or tree level (Higham, "Accuracy and Stability", section 4.2)
                    sizes = np.abs(from_bits(a[0], fmt).astype(np.float64))
                    unit = 2.0 ** (1 - fmt.precision)
                    return n / 2 * unit * sizes.sum(dim, keepdims=False).max()

                close = (Close(1, exact, 0.5, bound),)
                yield folding_row(sums, shape, dim, reverse, close)


def _rows() -> Iterator[Row]:
    for number, combining in enumerate(ALL):
        places = [(shape, dim) for shape in SHAPES for dim in range(len(shape))]
        often = combining in (*AFFINE, ARGMAX, SUMS[3], FLOAT_SUMS[2], LAST)
        taken = places if often else places[number % 7 :: 7]
        for place, (shape, dim) in enumerate(taken):
            yield folding_row(combining, shape, dim, None)
            if not often or place % 2 == number % 2 or combining is AFFINE[0]:
                yield folding_row(combining, shape, dim, bool((place // 2 + number) % 2))
    yield from _rounded_sums()


ROWS = list(_rows())
"""Reductions and scans."""
