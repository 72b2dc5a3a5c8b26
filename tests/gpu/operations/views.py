"""Rows of views: paddings, dim maps, static and run-time sizes and strides, unaligned bases.

Each block loads its tile of the index space through the view and stores it densely, or the other
way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from xdsl.dialects.builtin import NoneAttr, bf16, f8E4M3FN, f8E5M2, f16, f32, f64, tf32
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, Kernel
from tests.kernels.view_kernels import MAKE_VIEW, load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import PaddingValue, PaddingValueAttr
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)

from .rows import Row, i1, i8, i16, i32, i64
from .shapes import text
from .tiles import INT, aligned, block_index, strides_of
from .values import distinct, empty, generator

PADDINGS = tuple(PaddingValue)


@dataclass(frozen=True)
class Access:
    """A view and how it is reached.

    `shift` elements lie before the base; `steps` are a strided view's traversal strides, `rows` the
    row indices that a gather view takes along `sparse` (with the tensor dim's tile size many).
    `fixed` lists the sizes and strides known when compiling: "all", "inner" (the stride of one) or
    "none".
    """

    element: Attribute
    sizes: tuple[int, ...]
    tile: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    dim_map: tuple[int, ...] | None = None
    padding: PaddingValue | None = PaddingValue.ZERO
    shift: int = 0
    steps: tuple[int, ...] | None = None
    sparse: int | None = None
    fixed: str = "all"
    index_type: Attribute = i32
    promises: bool = False

    @property
    def all_strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self.strides or strides_of(self.sizes)

    @property
    def mapped(self) -> tuple[int, ...]:
        """The tensor dim of every tile dim."""
        return self.dim_map or tuple(range(len(self.sizes)))

    @property
    def space(self) -> tuple[int, ...]:
        """Tiles along every dim of the index space."""
        steps = self.steps or self.tile
        counts = [-(-self.sizes[d] // step) for d, step in zip(self.mapped, steps)]
        if self.sparse is not None:
            counts[self.sparse] = 1
        return tuple(counts)

    @property
    def extent(self) -> int:
        """Elements of memory from the array's start to the tensor's end."""
        last = sum((size - 1) * s for size, s in zip(self.sizes, self.all_strides))
        return self.shift + last + 1

    @property
    def name(self) -> str:
        """What a row is called."""
        parts = [text(self.sizes), f"tile{text(self.tile)}", str(self.element), self.fixed]
        if self.strides is not None:
            parts.append(f"strides{text(self.strides)}")
        if self.dim_map is not None:
            parts.append("map" + "".join(map(str, self.dim_map)))
        if self.padding is not PaddingValue.ZERO:
            parts.append("nopad" if self.padding is None else f"pad_{self.padding.value}")
        if self.steps is not None:
            parts.append(f"steps{text(self.steps)}")
        if self.sparse is not None:
            parts.append(f"sparse{self.sparse}")
        parts += [f"shift{self.shift}"] if self.shift else []
        parts += ["i64index"] if self.index_type == i64 else []
        parts += ["promises"] if self.promises else []
        return "_".join(parts)

    def grid(self) -> tuple[int, int, int]:
        """One block for each tile, at most three dims."""
        space = (*self.space, 1, 1, 1)
        return space[0], space[1], space[2]


def view_type(access: Access) -> Any:
    """The type of the view."""
    fixed = access.fixed
    sizes = access.sizes if fixed == "all" else (DYNAMIC,) * len(access.sizes)
    strides = access.all_strides
    if fixed == "none":
        strides = (DYNAMIC,) * len(strides)
    elif fixed == "inner":
        strides = tuple(stride if stride == 1 else DYNAMIC for stride in strides)
    tensor = TensorViewType(access.element, sizes, strides)
    padding = NoneAttr() if access.padding is None else PaddingValueAttr(access.padding)
    if access.steps is not None:
        return StridedViewType(access.tile, access.steps, tensor, access.mapped, padding)
    if access.sparse is not None:
        return GatherScatterViewType(access.tile, tensor, access.sparse, padding)
    return PartitionViewType(access.tile, tensor, access.mapped, padding)


def run_time_sizes(access: Access) -> list[int]:
    """The sizes, then the strides that the kernel takes as arguments."""
    if access.fixed == "all":
        return []
    strides = access.all_strides
    return [*access.sizes, *(s for s in strides if access.fixed == "none" or s != 1)]


def build_kernel(access: Access, stores: bool) -> Kernel:
    """Parameters: the view's memory, dense tiles, row indices, sizes and strides."""
    pointer = PointerType(access.element)
    extra = [access.index_type] * len(run_time_sizes(access))
    kernel = Kernel(pointer, pointer, PointerType(i32), *extra)
    base, dense, rows = kernel.args[:3]
    if access.promises:
        base = aligned(kernel, base)
    if access.shift:
        distance = kernel.constant(i32, access.shift)
        base = kernel.add(ct.OffsetOp, [base, distance], base.type)
    type_ = view_type(access)
    whole = tensor_view(kernel, base, type_.tensor_view, list(kernel.args[3:]))
    view = kernel.add(MAKE_VIEW[type(type_)], [whole], type_)
    index, number = _index(kernel, access, rows)
    count = kernel.constant(i32, int(np.prod(access.tile)))
    distance = kernel.add(ct.MulIOp, [number, count], INT, overflow=NO_OVERFLOW)
    place = kernel.add(ct.OffsetOp, [dense, distance], dense.type)
    if stores:
        store_view(kernel, kernel.load(place, access.tile), view, index)
    else:
        kernel.store(place, load_view(kernel, view, index))
    return kernel


def _index(kernel: Kernel, access: Access, rows: Any) -> tuple[list[Any], Any]:
    """The block's place in the index space, and its number."""
    blocks = block_index(kernel)
    rank = len(access.tile)
    zero = kernel.constant(i32, 0)
    index = [blocks[dim] if dim < 3 else zero for dim in range(rank)]
    number = blocks[0]
    for dim in range(1, min(rank, 3)):
        count = kernel.constant(i32, access.grid()[dim])
        scaled = kernel.add(ct.MulIOp, [number, count], INT, overflow=NO_OVERFLOW)
        number = kernel.add(ct.AddIOp, [scaled, blocks[dim]], INT, overflow=NO_OVERFLOW)
    if access.index_type != i32:
        wide = TileType(access.index_type)
        index = [kernel.add(ct.ExtIOp, [part], wide, signedness=SIGNED) for part in index]
    if access.sparse is not None:
        index = [_scaled(kernel, part, size) for part, size in zip(index, access.tile)]
        index[access.sparse] = kernel.load(rows, (access.tile[access.sparse],))
    return index, number


def _scaled(kernel: Kernel, index: Any, count: int) -> Any:
    """Indices of a gather view count elements, not tiles."""
    size = kernel.constant(index.type.element_type, count)
    return kernel.add(ct.MulIOp, [index, size], index.type, overflow=NO_OVERFLOW)


def view_row(access: Access, stores: bool) -> Row:
    """A row of loads or stores through a view."""
    name = f"{'store' if stores else 'load'}_{access.name}"

    def arguments() -> list[Any]:
        tiles = (int(np.prod(access.grid())), *access.tile)
        extent, element = (access.extent,), access.element
        memory = empty(element, extent) if stores else distinct(element, extent)
        dense = distinct(element, tiles) if stores else empty(element, tiles)
        rows = np.zeros(1, np.int32)
        if access.sparse is not None:
            size = access.sizes[access.sparse]
            rows = generator(name).permutation(size + 3)[: access.tile[access.sparse]]
            rows = rows.astype(np.int32)
        scalar = np.int64 if access.index_type == i64 else np.int32
        return [memory, dense, rows, *(scalar(size) for size in run_time_sizes(access))]

    return Row("view", name, lambda: build_kernel(access, stores), arguments, access.grid())


def _both(access: Access) -> Iterator[Row]:
    yield view_row(access, stores=False)
    if access.steps is None or all(s >= t for s, t in zip(access.steps, access.tile)):
        yield view_row(access, stores=True)


TILED: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1000,), (256,)),
    ((5,), (8,)),
    ((1,), (1,)),
    ((64, 64), (32, 32)),
    ((70, 50), (32, 16)),
    ((33, 128), (16, 64)),
    ((7, 300), (1, 128)),
    ((300, 7), (128, 8)),
    ((100, 1), (64, 1)),
    ((5, 12, 40), (2, 8, 32)),
    ((3, 5, 7, 33), (4, 8, 8, 32)),
)
ELEMENTS = (f32, f16, i8, i64, bf16, i1, f64, i16, i32, tf32, f8E4M3FN, f8E5M2)


def _partitions() -> Iterator[Row]:
    for number, (sizes, tile) in enumerate(TILED):
        for place, fixed in enumerate(("all", "inner", "none")):
            element = ELEMENTS[(3 * number + place) % len(ELEMENTS)]
            access = Access(element, sizes, tile, fixed=fixed)
            yield from _both(access)
            if place == number % 3:
                yield from _both(replace(access, shift=1 + number))
                yield from _both(replace(access, index_type=i64, fixed="inner"))
    for element in ELEMENTS:
        yield from _both(Access(element, (40, 24), (16, 16), fixed="inner"))
        yield from _both(Access(element, (64, 64), (64, 64), promises=True))
        yield from _both(Access(element, (128, 64), (64, 64), padding=None, promises=True))


def _paddings() -> Iterator[Row]:
    for element in (f16, bf16, f32, f64, tf32, f8E5M2):
        for padding in PADDINGS:
            for sizes, tile in (((100,), (64,)), ((20, 30), (16, 32))):
                access = Access(element, sizes, tile, padding=padding)
                yield view_row(access, stores=False)
    for element in (i1, i8, i16, i32, i64, f8E4M3FN):
        yield view_row(Access(element, (20, 30), (16, 32), fixed="inner"), stores=False)


def _maps() -> Iterator[Row]:
    number = 0
    shapes = (((40, 24), (16, 32)), ((6, 10, 20), (4, 8, 16)), ((3, 4, 5, 18), (2, 4, 8, 16)))
    for sizes, tile in shapes:
        for order in permutations(range(len(sizes))):
            number += 1
            if len(sizes) == 4 and number % 3:
                continue
            access = Access(ELEMENTS[number % len(ELEMENTS)], sizes, tile, dim_map=order)
            yield from _both(access)
    for element, promises in ((f16, True), (f32, False), (i8, True)):
        access = Access(element, (64, 128), (64, 32), dim_map=(1, 0), promises=promises)
        yield from _both(replace(access, fixed="inner"))


def _strides() -> Iterator[Row]:
    cases: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
        ((100,), (64,), (3,)),
        ((40, 40), (16, 16), (64, 1)),
        ((40, 40), (16, 16), (1, 40)),
        ((40, 40), (16, 32), (1, 48)),
        ((20, 20), (16, 16), (50, 2)),
        ((5, 20, 12), (4, 16, 16), (1, 64, 5)),
        ((64, 32), (32, 32), (33, 1)),
    )
    for number, (sizes, tile, strides) in enumerate(cases):
        for place, fixed in enumerate(("all", "none")):
            element = ELEMENTS[(2 * number + place) % len(ELEMENTS)]
            yield from _both(Access(element, sizes, tile, strides=strides, fixed=fixed))


def _other_kinds() -> Iterator[Row]:
    for number, steps in enumerate(((8, 8), (16, 16), (16, 32), (5, 3), (20, 40))):
        element = ELEMENTS[number]
        access = Access(element, (40, 50), (16, 16), steps=steps, fixed="inner")
        yield from _both(access)
        yield from _both(replace(access, dim_map=(1, 0), fixed="all"))
    for number, (sizes, tile, sparse) in enumerate(
        (
            ((40, 20), (16, 16), 0),
            ((20, 40), (16, 16), 1),
            ((100, 64), (32, 64), 0),
            ((9, 8, 20), (4, 8, 16), 1),
        )
    ):
        for padding in (PaddingValue.ZERO, PaddingValue.NEG_INF):
            element = f32 if number % 2 else f16
            yield from _both(Access(element, sizes, tile, sparse=sparse, padding=padding))
            access = Access(i32, sizes, tile, sparse=sparse, fixed="inner")
        yield from _both(access)


ROWS = [*_partitions(), *_paddings(), *_maps(), *_strides(), *_other_kinds()]
"""Accesses through views."""
