"""Rows of constants, iota, and what moves elements: reshape, permute, broadcast, cat, slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, bf16, f8E4M3FN, f16, f32, f64
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.dialects.builtin import i64 as builtin_i64
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.formats import format_of

from .rows import ELEMENTS, INTEGERS, Row, i1, i8, i16, i32, i64
from .tiles import Way, load, store
from .values import distinct, empty, mixed

MOVED = (i32, i1, i8, i16, f64, bf16, f8E4M3FN, i64, f16, f32)
"""Element types that rows of moves take turns in."""

Fill = Callable[[Kernel, list[Any]], Any]


def text(shape: Sequence[int]) -> str:
    """A shape in a name."""
    return "x".join(map(str, shape)) or "scalar"


def moving_row(
    name: str,
    element: Attribute,
    sources: Sequence[Sequence[int]],
    result: Sequence[int],
    fill: Fill,
    ways: tuple[Way, Way] = ("pointer", "pointer"),
) -> Row:
    """Loads tiles of the source shapes, applies `fill`, stores its result."""

    def build() -> Kernel:
        kernel = Kernel(*[PointerType(element)] * (len(sources) + 1))
        tiles = [load(kernel, p, shape, ways[0]) for p, shape in zip(kernel.args, sources)]
        store(kernel, kernel.args[-1], fill(kernel, tiles), ways[1])
        return kernel

    def arguments() -> list[Any]:
        inputs = [distinct(element, shape) for shape in sources]
        inputs[1:] = [mixed(element, shape, name, 1) for shape in sources[1:]]
        return [*inputs, empty(element, result)]

    return Row("shape", f"{name}-{element}", build, arguments)


class _Turn:
    """Element types and ways of access, taken in turns so that all meet many shapes."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> tuple[Attribute, tuple[Way, Way]]:
        ways: tuple[tuple[Way, Way], ...] = (
            ("pointer", "pointer"),
            ("view", "pointer"),
            ("pointer", "view"),
            ("view", "view"),
        )
        self.count += 1
        return MOVED[self.count % len(MOVED)], ways[self.count // 3 % 4]


def _constants() -> Iterator[Row]:
    for element in ELEMENTS:
        for shape in ((), (1,), (8,), (4, 16), (1024,)):
            for kind in ("splat", "dense"):
                if kind == "dense" and shape in ((), (1,)):
                    continue
                if str(element) == "tf32":
                    continue

                def build(element: Any = element, shape: Any = shape, kind: Any = kind) -> Kernel:
                    kernel = Kernel(PointerType(element))
                    fmt = format_of(element)
                    bits = mixed(element, shape, "constant")
                    if kind == "splat":
                        bits = bits.reshape(-1)[:1]
                    type_ = TileType(element, shape)
                    raw = bits.astype(fmt.storage).tobytes()
                    value = DenseAttr(type_, raw)
                    kernel.store(kernel.args[0], kernel.add(ct.ConstantOp, (), type_, value=value))
                    return kernel

                yield Row(
                    "shape",
                    f"constant_{kind}_{text(shape)}-{element}",
                    build,
                    lambda element=element, shape=shape: [empty(element, shape)],
                )


def _iotas() -> Iterator[Row]:
    for element in INTEGERS:
        for count in (1, 2, 16, 128, 256, 4096):
            if count > 1 << element.width.data:
                continue

            def build(element: Any = element, count: int = count) -> Kernel:
                kernel = Kernel(PointerType(element))
                tile = kernel.add(ct.IotaOp, [], TileType(element, (count,)))
                kernel.store(kernel.args[0], tile)
                return kernel

            yield Row(
                "shape",
                f"iota_{count}-{element}",
                build,
                lambda element=element, count=count: [empty(element, (count,))],
            )


RESHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    ((1,), ()),
    ((1, 1, 1), ()),
    ((16,), (4, 4)),
    ((64, 64), (4096,)),
    ((4096,), (64, 64)),
    ((2, 512), (512, 2)),
    ((512, 2), (2, 512)),
    ((1, 128), (128, 1)),
    ((8, 16, 4), (32, 16)),
    ((32, 16), (2, 2, 2, 64)),
    ((2, 4, 8, 16), (16, 64)),
    ((1024, 1), (32, 1, 32)),
    ((4, 1, 256), (256, 4)),
    ((2,), (1, 2, 1)),
)

BROADCASTS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1,), (1024,)),
    ((1, 1), (64, 64)),
    ((1, 64), (64, 64)),
    ((64, 1), (64, 64)),
    ((2, 1), (2, 2048)),
    ((1, 2), (2048, 2)),
    ((4, 1, 8), (4, 16, 8)),
    ((1, 16, 1), (8, 16, 4)),
    ((1, 1, 1, 8), (2, 4, 8, 8)),
    ((8, 1, 4, 1), (8, 2, 4, 16)),
    ((1, 1), (1, 1)),
)

PERMUTED: tuple[tuple[int, ...], ...] = (
    (64, 64),
    (2, 512),
    (512, 2),
    (1, 256),
    (128, 16),
    (4, 4),
    (2, 8, 64),
    (32, 1, 32),
    (16, 4, 8),
    (2, 4, 8, 16),
)

CATS: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((512,), 0),
    ((16, 16), 0),
    ((16, 16), 1),
    ((1, 64), 0),
    ((64, 1), 1),
    ((4, 8, 16), 0),
    ((4, 8, 16), 1),
    ((4, 8, 16), 2),
    ((2, 2, 2, 32), 3),
)

SLICES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((64,), (8,)),
    ((4096,), (1,)),
    ((64, 64), (16, 64)),
    ((64, 64), (64, 16)),
    ((64, 64), (32, 32)),
    ((16, 16), (1, 1)),
    ((128, 4), (2, 4)),
    ((2, 256), (1, 32)),
    ((4, 8, 16), (2, 8, 4)),
    ((8, 8, 8), (8, 1, 8)),
    ((4, 4, 8, 8), (1, 2, 8, 4)),
    ((32, 32), (32, 32)),
)


def _moves() -> Iterator[Row]:
    turn = _Turn()
    for op_class, pairs in ((ct.ReshapeOp, RESHAPES), (ct.BroadcastOp, BROADCASTS)):
        for source, result in pairs:
            for _ in range(2):
                element, ways = turn.next()

                def fill(kernel: Kernel, tiles: Any, op: Any = op_class, r: Any = result) -> Any:
                    return kernel.add(op, [tiles[0]], TileType(tiles[0].type.element_type, r))

                name = f"{op_class.name.rpartition('.')[2]}_{text(source)}_{text(result)}"
                yield moving_row(name, element, [source], result, fill, ways)
    for shape in PERMUTED:
        for order in permutations(range(len(shape))):
            if order == tuple(range(len(shape))) or (len(shape) == 4 and sum(order[:2]) == 3):
                continue
            element, ways = turn.next()
            result = tuple(shape[dim] for dim in order)

            def permute(kernel: Kernel, tiles: Any, order: Any = order, r: Any = result) -> Any:
                return kernel.add(
                    ct.PermuteOp,
                    [tiles[0]],
                    TileType(tiles[0].type.element_type, r),
                    permutation=DenseArrayBase.from_list(builtin_i32, order),
                )

            name = f"permute_{text(shape)}_{''.join(map(str, order))}"
            yield moving_row(name, element, [shape], result, permute, ways)
    yield from _joints_and_slices(turn)


def _joints_and_slices(turn: _Turn) -> Iterator[Row]:
    for shape, dim in CATS:
        element, ways = turn.next()
        result = tuple(2 * size if d == dim else size for d, size in enumerate(shape))

        def cat(kernel: Kernel, tiles: Any, dim: Any = dim, r: Any = result) -> Any:
            type_ = TileType(tiles[0].type.element_type, r)
            return kernel.add(ct.CatOp, tiles, type_, dim=IntegerAttr(dim, builtin_i64))

        yield moving_row(f"cat_{text(shape)}_{dim}", element, [shape, shape], result, cat, ways)
    for whole, part in SLICES:
        for is_known in (True, False):
            for op_name in ("extract", "insert"):
                element, _ = turn.next()
                yield _slice_row(op_name, element, whole, part, is_known)


def _slice_row(
    op_name: str, element: Attribute, whole: tuple[int, ...], part: tuple[int, ...], known: bool
) -> Row:
    """Slices at an index that is a constant, or known when the kernel runs."""
    counts = [w // p for w, p in zip(whole, part)]
    index = [count - 1 - dim % count for dim, count in enumerate(counts)]

    def build() -> Kernel:
        kernel = Kernel(*[PointerType(element)] * 3, *[i32] * len(whole))
        indices = list(kernel.args[3:])
        if known:
            indices = [kernel.constant(i32, position) for position in index]
        tile = load(kernel, kernel.args[0], whole)
        if op_name == "extract":
            type_ = TileType(element, part)
            result = kernel.add(ct.ExtractOp, [tile, indices], type_)
        else:
            slice_ = load(kernel, kernel.args[1], part)
            type_ = TileType(element, whole)
            result = kernel.add(ct.InsertOp, [slice_, tile, indices], type_)
        store(kernel, kernel.args[2], result)
        return kernel

    def arguments() -> list[Any]:
        inputs = [distinct(element, whole), mixed(element, part, "slice", 1)]
        result = empty(element, part if op_name == "extract" else whole)
        return [*inputs, result, *(np.int32(position) for position in index)]

    kind = "constant" if known else "runtime"
    name = f"{op_name}_{text(whole)}_{text(part)}_{kind}-{element}"
    return Row("shape", name, build, arguments)


ROWS = [*_constants(), *_iotas(), *_moves()]
"""Constants, iota and moves."""
