"""Rows of matrix products: every pair of types, shapes from 16 to 128, batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from interpreter.kernels import NO_OVERFLOW, SIGNED, UNIT, UNSIGNED, Kernel, rounding
from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, f64, tf32
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.formats import format_of, from_bits

from .rows import Close, Row, i8, i32
from .shapes import text
from .tiles import load, store
from .values import empty, gaussian, mixed, small_integers

TYPES: tuple[tuple[Attribute, Attribute], ...] = (
    (f16, f16),
    (f16, f32),
    (bf16, f32),
    (tf32, f32),
    (f32, f32),
    (f64, f64),
    (f8E4M3FN, f16),
    (f8E4M3FN, f32),
    (f8E5M2, f16),
    (f8E5M2, f32),
)
"""Operand and accumulator types."""

SHAPES: tuple[tuple[int, int, int], ...] = (
    (16, 16, 16),
    (16, 128, 32),
    (128, 16, 32),
    (32, 32, 64),
    (64, 64, 16),
    (64, 64, 64),
    (64, 128, 32),
    (128, 64, 64),
    (128, 128, 32),
    (64, 32, 128),
    (1, 16, 16),
    (8, 8, 8),
    (16, 1, 64),
    (2, 4, 1),
)
"""m, n, k."""

BATCHES: tuple[tuple[int, tuple[int, int, int]], ...] = (
    (2, (16, 16, 16)),
    (4, (32, 16, 16)),
    (1, (64, 64, 32)),
    (8, (16, 8, 16)),
)


def product_kernel(
    types: tuple[Attribute, Attribute],
    shapes: Sequence[Sequence[int]],
    way: Any,
    properties: dict[str, Any],
) -> Kernel:
    """result = lhs x rhs + acc, each from a pointer of its own."""
    operand, sum_type = types
    kernel = Kernel(*(PointerType(t) for t in (operand, operand, sum_type, sum_type)))
    tiles = [load(kernel, p, shape, way) for p, shape in zip(kernel.args, shapes)]
    op_class = ct.MmaIOp if sum_type == i32 else ct.MmaFOp
    result = kernel.add(op_class, tiles, tiles[2].type, **properties)
    store(kernel, kernel.args[3], result, way)
    return kernel


def operand_shapes(
    size: tuple[int, int, int], batch: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Shapes of lhs, rhs and accumulator."""
    m, n, k = size
    first = () if batch is None else (batch,)
    return (*first, m, k), (*first, k, n), (*first, m, n)


def product_row(
    types: tuple[Attribute, Attribute],
    size: tuple[int, int, int],
    batch: int | None,
    way: str,
    rounds: bool,
    **properties: Any,
) -> Row:
    """A product of small whole numbers, exact in any order, or one that rounds."""
    shapes = operand_shapes(size, batch)
    operand, sum_type = types
    kind = "rounded" if rounds else "exact"
    signs = "".join(f"_{key[-3:]}_{value.data.value}" for key, value in properties.items())
    where = text(size) if batch is None else f"{batch}_of_{text(size)}"
    name = f"mma_{operand}_{sum_type}_{where}_{way}_{kind}{signs}"
    close = (Close(3, exact_product(types), 0.5, error_bound(types)),) if rounds else ()

    def arguments() -> list[Any]:
        elements = (operand, operand, sum_type)
        made = [_inputs(e, s, f"{name}/{s}/{e}", rounds) for e, s in zip(elements, shapes)]
        return [*made, empty(sum_type, shapes[2])]

    return Row(
        "matrix",
        name,
        lambda: product_kernel(types, shapes, way, properties),
        arguments,
        close=close,
    )


def _inputs(element: Attribute, shape: Sequence[int], seed: str, rounds: bool) -> Any:
    if element in (i8, i32):
        return mixed(element, shape, seed)
    if rounds:
        return gaussian(element, shape, seed)
    return small_integers(element, shape, seed, limit=3)


def _wide(bits: Any, element: Attribute) -> Any:
    return from_bits(bits, format_of(element)).astype(np.float64)


def exact_product(types: tuple[Attribute, Attribute]) -> Any:
    """The product in float64, long double where operands are f64."""
    operand, sum_type = types
    wide = np.longdouble if operand == f64 else np.float64

    def compute(arguments: list[Any]) -> Any:
        lhs, rhs = (_wide(bits, operand).astype(wide) for bits in arguments[:2])
        return np.matmul(lhs, rhs) + _wide(arguments[2], sum_type)

    return compute


def error_bound(types: tuple[Attribute, Attribute]) -> Any:
    """k roundings of the partial sums; matrix units cut f16 and f8 sums off, instead of rounding.

    The f8 units of Hopper keep 13 bits below the largest product of an instruction (measured by
    DeepSeek-V3, section 3.5.2: about 14 bits are kept).
    """
    operand, sum_type = types
    precision = format_of(sum_type).precision  # type: ignore[union-attr]
    if operand in (f8E4M3FN, f8E5M2):
        precision = min(precision, 13)

    def compute(arguments: list[Any]) -> Any:
        lhs, rhs = (np.abs(_wide(bits, operand)) for bits in arguments[:2])
        sizes = np.matmul(lhs, rhs) + np.abs(_wide(arguments[2], sum_type))
        steps = min(lhs.shape[-1], 64) + 1
        return steps * 2.0 ** (1 - precision) * sizes

    return compute


def _rows() -> Iterator[Row]:
    for number, types in enumerate(TYPES):
        for place, size in enumerate(SHAPES):
            if size == (128, 128, 32) and types[0] == f64:
                continue
            way = ("pointer", "view")[(number + place) % 2]
            yield product_row(types, size, None, way, rounds=False)
            if place % 3 == number % 3:
                yield product_row(types, size, None, way, rounds=True)
        for place, (batch, size) in enumerate(BATCHES):
            way = ("pointer", "view")[(number + place) % 2]
            yield product_row(types, size, batch, way, rounds=place == 0)
    for lhs_sign in (SIGNED, UNSIGNED):
        for rhs_sign in (SIGNED, UNSIGNED):
            signs = {"signedness_lhs": lhs_sign, "signedness_rhs": rhs_sign}
            for place, size in enumerate(SHAPES):
                way = ("pointer", "view")[place % 2]
                yield product_row((i8, i32), size, None, way, False, **signs)
            yield product_row((i8, i32), (32, 16, 16), 4, "pointer", False, **signs)
    yield from _chains()
    for size in SHAPES[3:6]:
        row = product_row((f8E4M3FN, f32), size, None, "view", True)
        yield Row(
            row.family,
            f"{row.name}_fast_acc",
            lambda size=size: product_kernel(
                (f8E4M3FN, f32), operand_shapes(size), "view", {"fast_acc": UNIT}
            ),
            row.arguments,
            close=row.close,
        )


def _chains() -> Iterator[Row]:
    """A product in a loop over k, and a product of a product."""
    for operand, sum_type in ((f16, f32), (bf16, f32), (tf32, f32), (f64, f64)):
        yield Row(
            "matrix",
            f"loop_{operand}_{sum_type}",
            lambda o=operand, s=sum_type: loop_kernel(o, s),
            lambda o=operand, s=sum_type: [
                small_integers(o, (4, 32, 32), "lhs", 2),
                small_integers(o, (4, 32, 64), "rhs", 2),
                empty(s, (32, 64)),
            ],
        )
    for operand in (f16, bf16):
        yield Row(
            "matrix",
            f"twice_{operand}",
            lambda o=operand: twice_kernel(o),
            lambda o=operand: [
                *(small_integers(o, (64, 64), f"twice{p}", 1) for p in range(3)),
                empty(f32, (64, 64)),
            ],
        )


def loop_kernel(operand: Attribute, sum_type: Attribute) -> Kernel:
    """Sums four products in a loop."""
    kernel = Kernel(PointerType(operand), PointerType(operand), PointerType(sum_type))
    lhs, rhs, out = kernel.args
    sums = TileType(sum_type, (32, 64))
    first, last, one = (kernel.constant(i32, n) for n in (0, 4, 1))

    def body(step: Any, acc: Any) -> None:
        tiles = []
        for pointer, shape in ((lhs, (32, 32)), (rhs, (32, 64))):
            size = kernel.constant(i32, shape[0] * shape[1])
            distance = kernel.add(
                ct.MulIOp, [step, size], TileType(builtin_i32), overflow=NO_OVERFLOW
            )
            moved = kernel.add(ct.OffsetOp, [pointer, distance], pointer.type)
            tiles.append(kernel.load(moved, shape))
        result = kernel.add(ct.MmaFOp, [*tiles, acc], sums)
        kernel.add(ct.ContinueOp, [[result]])

    region = kernel.region([TileType(builtin_i32), sums], body)
    zero = kernel.constant(sum_type, 0, (32, 64))
    total = kernel.add(ct.ForOp, [first, last, one, [zero]], [[sums]], [region])
    kernel.store(out, total[0] if isinstance(total, list) else total)
    return kernel


def twice_kernel(operand: Attribute) -> Kernel:
    """(a x b, narrowed) x c: an accumulator becomes an operand."""
    kernel = Kernel(*[PointerType(operand)] * 3, PointerType(f32))
    a, b, c = (kernel.load(pointer, (64, 64)) for pointer in kernel.args[:3])
    sums = TileType(f32, (64, 64))
    zero = kernel.constant(f32, 0, (64, 64))
    first = kernel.add(ct.MmaFOp, [a, b, zero], sums)
    narrow = kernel.add(ct.FToFOp, [first], TileType(operand, (64, 64)), rounding_mode=rounding())
    kernel.store(kernel.args[3], kernel.add(ct.MmaFOp, [narrow, c, zero], sums))
    return kernel


ROWS = list(_rows())
"""Matrix products."""
