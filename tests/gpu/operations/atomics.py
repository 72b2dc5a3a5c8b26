"""Rows of atomic operations: every mode and type, masks, views, colliding addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, f64
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import Kernel, flags
from tests.kernels.view_kernels import tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
)
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)
from tileiras.interpreter.formats import format_of, to_bits

from .rows import Row, i1, i32, i64
from .shapes import text
from .tiles import aligned, block_index
from .values import empty, gaussian, generator, mixed, small_integers

INTEGER_MODES = tuple(
    mode for mode in AtomicRMWMode if mode not in (AtomicRMWMode.ADDF, AtomicRMWMode.XCHG)
)
MODES: tuple[tuple[AtomicRMWMode, Attribute], ...] = (
    *((mode, element) for mode in INTEGER_MODES for element in (i32, i64)),
    *((AtomicRMWMode.ADDF, element) for element in (f16, bf16, f32, f64)),
    *((AtomicRMWMode.XCHG, element) for element in (i32, i64, f32, f64)),
)
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (16,), (512,), (8, 32), (2, 4, 64))
ORDERINGS = (
    MemoryOrdering.RELAXED,
    MemoryOrdering.ACQUIRE,
    MemoryOrdering.RELEASE,
    MemoryOrdering.ACQ_REL,
)
SCOPES = tuple(MemoryScope)


def ordering(value: MemoryOrdering) -> MemoryOrderingAttr:
    """The attribute of an ordering."""
    return MemoryOrderingAttr(value)


def spread_row(mode: AtomicRMWMode, element: Attribute, shape: tuple[int, ...], n: int) -> Row:
    """An address for each element; the old values are stored where the mask is set."""
    masked = n % 2 == 0

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, pointer, PointerType(i1))
        memory, argument, old, masks = kernel.args
        mask = kernel.load(masks, shape)
        operands = [kernel.addresses(memory, shape), kernel.load(argument, shape)]
        found = kernel.add(
            ct.AtomicRMWTkoOp,
            [*operands, [mask] if masked else [], []],
            [TileType(element, shape), TOKEN],
            memory_ordering_semantics=ordering(ORDERINGS[n % 4]),
            memory_scope=MemoryScopeAttr(SCOPES[n % 3]),
            mode=AtomicRMWModeAttr(mode),
        )[0]
        zero = kernel.constant(element, 0, shape)
        kept = kernel.add(ct.SelectOp, [mask, found, zero], TileType(element, shape))
        kernel.store(old, kept)
        return kernel

    name = f"{mode.value}_{text(shape)}-{element}_{'masked' if masked else 'all'}"

    def arguments() -> list[Any]:
        mask = generator(name).integers(0, 2, shape or (1,)).astype(np.uint8)
        inputs = [mixed(element, shape, name, p) for p in range(2)]
        if mode is AtomicRMWMode.ADDF and element == f32:  # PTX ISA, "atom": subnormals are flushed
            inputs = [gaussian(element, shape, f"{name}{p}") for p in range(2)]
        return [*inputs, empty(element, shape), mask]

    return Row("atomic", name, build, arguments)


def colliding_row(mode: AtomicRMWMode, element: Attribute, used: bool, blocks: int) -> Row:
    """All elements of all blocks go to a few addresses; the result does not depend on the order."""
    count, places = 256, 4

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, PointerType(i32), pointer)
        memory, argument, where, old = kernel.args
        one = kernel.add(ct.ReshapeOp, [memory], TileType(pointer, (1,)))
        many = kernel.add(ct.BroadcastOp, [one], TileType(pointer, (count,)))
        index = kernel.load(where, (count,))
        addresses = kernel.add(ct.OffsetOp, [many, index], TileType(pointer, (count,)))
        found = kernel.add(
            ct.AtomicRMWTkoOp,
            [addresses, kernel.load(argument, (count,)), [], []],
            [TileType(element, (count,)), TOKEN],
            memory_ordering_semantics=ordering(MemoryOrdering.RELAXED),
            memory_scope=MemoryScopeAttr(MemoryScope.DEVICE),
            mode=AtomicRMWModeAttr(mode),
        )[0]
        if used:
            kernel.store(old, found)
        return kernel

    name = f"colliding_{mode.value}-{element}_{'used' if used else 'unused'}_{blocks}"

    def arguments() -> list[Any]:
        where = generator(name).integers(0, places, count).astype(np.int32)
        argument = small_integers(element, (count,), name, 1)
        if used:  # of equal summands the old values are the same in any order
            argument = np.full_like(argument, one_of(element))
        memory = small_integers(element, (places,), name, 3)
        return [memory, argument, where, empty(element, (count,))]

    return Row("atomic", name, build, arguments, (blocks, 1, 1), unordered=(3,) if used else ())


def one_of(element: Attribute) -> Any:
    """The pattern of the number one."""
    fmt = format_of(element)
    return to_bits(np.ones(1, fmt.dtype), fmt)[0]


def swap_row(element: Attribute, shape: tuple[int, ...], masked: bool, n: int) -> Row:
    """Compare and swap where half of the expected values are there."""

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, pointer, PointerType(i1), pointer)
        memory, expected, new, masks, old = kernel.args
        mask = [kernel.load(masks, shape)] if masked else []
        addresses = kernel.addresses(memory, shape)
        operands = [addresses, kernel.load(expected, shape), kernel.load(new, shape), mask, []]
        found = kernel.add(
            ct.AtomicCASTkoOp,
            operands,
            [TileType(element, shape), TOKEN],
            memory_ordering_semantics=ordering(ORDERINGS[n % 4]),
            memory_scope=MemoryScopeAttr(SCOPES[n % 3]),
        )[0]
        kernel.store(old, found)
        return kernel

    name = f"cas_{text(shape)}-{element}_{'masked' if masked else 'all'}"

    def arguments() -> list[Any]:
        rng = generator(name)
        before, other, new = (mixed(element, shape, f"{name}{p}", p) for p in range(3))
        expected = np.where(rng.integers(0, 2, shape) == 1, before, other).astype(before.dtype)
        mask = rng.integers(0, 2, shape or (1,)).astype(np.uint8)
        return [before, expected, new, mask, empty(element, shape)]

    return Row("atomic", name, build, arguments)


def view_row(
    mode: AtomicRMWMode, element: Attribute, sizes: Any, tile: Any, is_aligned: bool = False
) -> Row:
    """A reduction into memory through a view whose last tiles hang over."""

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer)
        memory, argument = (aligned(kernel, arg) if is_aligned else arg for arg in kernel.args)
        strides = (1,) if len(sizes) == 1 else (sizes[1], 1)
        type_ = TensorViewType(element, sizes, strides)
        base = tensor_view(kernel, memory, type_)
        dims = tuple(range(len(sizes)))
        view_type = PartitionViewType(tile, type_, dims)
        view = kernel.add(ct.MakePartitionViewOp, [base], view_type)
        index = block_index(kernel)[: len(sizes)]
        kernel.add(
            ct.AtomicRedViewTkoOp,
            [view, index, kernel.load(argument, tile), []],
            TOKEN,
            memory_ordering_semantics=ordering(MemoryOrdering.RELAXED),
            memory_scope=MemoryScopeAttr(MemoryScope.DEVICE),
            mode=AtomicRMWModeAttr(mode),
            inbounds=flags([0] * len(sizes)),
        )
        return kernel

    grid = tuple(-(-size // t) for size, t in zip(sizes, tile))
    kind = "aligned_view" if is_aligned else "view"
    name = f"{kind}_{mode.value}_{text(sizes)}_{text(tile)}-{element}"

    def arguments() -> list[Any]:
        return [small_integers(element, s, f"{name}{len(s)}", 50) for s in (sizes, tile)]

    return Row("atomic", name, build, arguments, (*grid, 1, 1)[:3])


def _rows() -> Iterator[Row]:
    for number, (mode, element) in enumerate(MODES):
        for place in range(3):
            shape = SHAPES[(number + 2 * place) % len(SHAPES)]
            yield spread_row(mode, element, shape, number + place)
        if mode is not AtomicRMWMode.XCHG:
            yield colliding_row(mode, element, False, 1)
            yield colliding_row(mode, element, False, 32)
            yield view_row(mode, element, (100,), (64,))
            yield view_row(mode, element, (20, 30), (16, 16))
            yield view_row(mode, element, (80, 96), (32, 64), is_aligned=True)
    for element in (i32, i64, f32, f64):
        # One block: several would write their old values to one place.
        yield colliding_row(
            AtomicRMWMode.ADDF if element in (f32, f64) else AtomicRMWMode.ADD, element, True, 1
        )
        for number, shape in enumerate(SHAPES):
            yield swap_row(element, shape, number % 2 == 0, number)
    for number in range(12):
        yield _ordered_row(number)


def _ordered_row(n: int) -> Row:
    """Every ordering in every scope."""
    row = spread_row(AtomicRMWMode.ADD, i32, (32,), n)
    name = f"{row.name}_{ORDERINGS[n % 4].value}_{SCOPES[n % 3].value}"
    return Row(row.family, name, row.build, row.arguments)


ROWS = list(_rows())
"""Atomic operations."""
