"""Rows of matrix products: every pair of types, shapes from 16 to 128, batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, f64, tf32
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import SIGNED, UNIT, UNSIGNED, Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType
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

LARGE_SHAPES: tuple[tuple[int, int, int], ...] = (
    (128, 128, 64),
    (128, 256, 64),
    (64, 256, 128),
    (256, 128, 32),
)
"""For operands of 16 bits and less."""

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
        if types[0] not in (f32, f64, tf32):
            for place, size in enumerate(LARGE_SHAPES):
                way = ("pointer", "view")[place % 2]
                yield product_row(types, size, None, way, rounds=False)
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


ROWS = list(_rows())
"""Matrix products."""
