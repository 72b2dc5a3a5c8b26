"""Rows of matrix products in loops: a GEMM through views with ragged edges, sums carried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import NoneAttr, bf16, f8E4M3FN, f8E5M2, f16, f32, f64, tf32
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, Kernel, rounding
from tests.kernels.view_kernels import load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import PaddingValue, PaddingValueAttr
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)

from .control import for_loop
from .rows import Row, i8, i32
from .shapes import text
from .tiles import INT, aligned, block_index
from .values import empty, small_integers

PAIRS: tuple[tuple[Attribute, Attribute], ...] = (
    (f16, f32),
    (f16, f16),
    (bf16, f32),
    (tf32, f32),
    (f32, f32),
    (f64, f64),
    (f8E4M3FN, f32),
    (f8E5M2, f16),
    (i8, i32),
)
GEMMS: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((64, 64, 32), (128, 128, 128)),
    ((64, 64, 32), (80, 96, 112)),
    ((128, 64, 64), (200, 72, 136)),
    ((128, 128, 32), (128, 144, 48)),
    ((16, 32, 16), (33, 50, 41)),
)
"""Tile sizes m, n, k and matrix sizes; those of the last are divisible by nothing."""
LONG_GEMMS: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((64, 64, 128), (80, 96, 272)),
    ((128, 128, 128), (208, 144, 400)),
    ((64, 256, 128), (64, 272, 656)),
    ((256, 128, 128), (272, 144, 144)),
)
"""Rows of 128 bytes along K for operands of 8 bits; several K tiles, the last one ragged."""


def gemm_kernel(
    types: tuple[Attribute, Attribute], tile: tuple[int, int, int], promises: bool, transposed: bool
) -> Kernel:
    """c = a x b with run-time sizes; `transposed`: b is stored transposed and read by a dim map."""
    operand, sum_type = types
    (m, n, k), pointer = tile, PointerType(operand)
    kernel = Kernel(pointer, pointer, PointerType(sum_type), i32, i32, i32)
    a, b, c, rows, columns, depth = kernel.args
    if promises:
        a, b, c = (aligned(kernel, p) for p in (a, b, c))
        rows, columns, depth = (aligned(kernel, size) for size in (rows, columns, depth))

    def view(base: Any, sizes: Any, shape: Any, order: Any = (0, 1), pads: bool = True) -> Any:
        element = base.type.element_type.pointee
        type_ = TensorViewType(element, (DYNAMIC, DYNAMIC), (DYNAMIC, 1))
        padding = PaddingValueAttr(PaddingValue.ZERO) if pads else NoneAttr()
        whole = tensor_view(kernel, base, type_, [*sizes, sizes[1]])
        view_type = PartitionViewType(shape, type_, order, padding)
        return kernel.add(ct.MakePartitionViewOp, [whole], view_type)

    left = view(a, [rows, depth], (m, k))
    right = (
        view(b, [columns, depth], (k, n), (1, 0))
        if transposed
        else view(b, [depth, columns], (k, n))
    )
    result = view(c, [rows, columns], (m, n), pads=False)
    x, y, _ = block_index(kernel)
    steps = kernel.add(ct.GetIndexSpaceShapeOp, [left], [[INT, INT]])[1]
    zero, one = kernel.constant(i32, 0), kernel.constant(i32, 1)

    def body(step: Any, acc: Any) -> list[Any]:
        tiles = [load_view(kernel, left, [x, step]), load_view(kernel, right, [step, y]), acc]
        if sum_type == i32:
            signs = {"signedness_lhs": SIGNED, "signedness_rhs": SIGNED}
            return [kernel.add(ct.MmaIOp, tiles, acc.type, **signs)]
        return [kernel.add(ct.MmaFOp, tiles, acc.type)]

    (total,) = for_loop(kernel, [zero, steps, one], [kernel.constant(sum_type, 0, (m, n))], body)
    store_view(kernel, total, result, [x, y])
    return kernel


def gemm_row(
    types: tuple[Attribute, Attribute],
    tile: tuple[int, int, int],
    sizes: tuple[int, int, int],
    transposed: bool,
) -> Row:
    """A GEMM of small whole numbers: exact in any order of sums."""
    operand, sum_type = types
    m, n, k = sizes
    promises = all(size % 16 == 0 for size in sizes)
    limit = 1 if sum_type == f16 else 2

    def arguments() -> list[Any]:
        import numpy as np

        right = (n, k) if transposed else (k, n)
        inputs = [small_integers(operand, s, f"gemm{s}", limit) for s in ((m, k), right)]
        return [*inputs, empty(sum_type, (m, n)), *(np.int32(size) for size in (m, n, k))]

    form = "_transposed" if transposed else ""
    name = f"gemm_{operand}_{sum_type}_{text(tile)}_{text(sizes)}{form}"
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    return Row(
        "matrix", name, lambda: gemm_kernel(types, tile, promises, transposed), arguments, grid
    )


def carried_kernel(operand: Attribute, sum_type: Attribute) -> Kernel:
    """Sums four products in a loop, operands through pointers."""
    kernel = Kernel(PointerType(operand), PointerType(operand), PointerType(sum_type))
    lhs, rhs, out = kernel.args

    def body(step: Any, acc: Any) -> list[Any]:
        tiles = []
        for pointer, shape in ((lhs, (32, 32)), (rhs, (32, 64))):
            size = kernel.constant(i32, shape[0] * shape[1])
            distance = kernel.add(ct.MulIOp, [step, size], INT, overflow=NO_OVERFLOW)
            moved = kernel.add(ct.OffsetOp, [pointer, distance], pointer.type)
            tiles.append(kernel.load(moved, shape))
        return [kernel.add(ct.MmaFOp, [*tiles, acc], acc.type)]

    bounds = [kernel.constant(i32, number) for number in (0, 4, 1)]
    (total,) = for_loop(kernel, bounds, [kernel.constant(sum_type, 0, (32, 64))], body)
    kernel.store(out, total)
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


def _rows() -> Iterator[Row]:
    for number, types in enumerate(PAIRS):
        for place, (tile, sizes) in enumerate(GEMMS):
            if types[0] in (f32, f64) and tile[0] == 128:
                continue
            yield gemm_row(types, tile, sizes, transposed=(number + place) % 2 == 0)
            if place < 2:
                yield gemm_row(types, tile, sizes, transposed=(number + place) % 2 == 1)
    for types in ((i8, i32), (f8E4M3FN, f32), (f8E5M2, f32), (f8E4M3FN, f16)):
        for tile, sizes in LONG_GEMMS:
            for transposed in (False, True):
                yield gemm_row(types, tile, sizes, transposed)
    for tile, sizes in LONG_GEMMS[1:]:
        yield gemm_row((tf32, f32), (tile[0], tile[1], 32), sizes, transposed=False)
    for operand, sum_type in ((f16, f32), (bf16, f32), (tf32, f32), (f64, f64)):
        yield Row(
            "matrix",
            f"carried_{operand}_{sum_type}",
            lambda o=operand, s=sum_type: carried_kernel(o, s),
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


ROWS = list(_rows())
"""Products in loops."""
