"""Rows of pointer accesses: masks, padding values, casts of pointers, globals, own memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, f16, f32, f64
from xdsl.dialects.builtin import i64 as builtin_i64
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.types import PointerType, TileType

from .rows import ELEMENTS, INTEGERS, Row, format_of, i1, i8, i16, i32, i64
from .shapes import text
from .tiles import aligned, masked_load, masked_store
from .values import distinct, empty, generator, mixed

SHAPES: tuple[tuple[int, ...], ...] = ((1,), (64,), (1024,), (16, 32), (2, 4, 64))


def below(kernel: Kernel, shape: Sequence[int], limit: Any) -> Any:
    """Whether an element's row-major number is below a run-time limit."""
    count = int(np.prod(shape))
    numbers = kernel.add(ct.IotaOp, [], TileType(i32, (count,)))
    one = kernel.add(ct.ReshapeOp, [limit], TileType(i32, (1,)))
    many = kernel.add(ct.BroadcastOp, [one], TileType(i32, (count,)))
    mask = kernel.add(
        ct.CmpIOp,
        [numbers, many],
        TileType(i1, (count,)),
        comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        signedness=SIGNED,
    )
    return kernel.add(ct.ReshapeOp, [mask], TileType(i1, tuple(shape)))


def masked_row(element: Attribute, shape: tuple[int, ...], kind: str, padded: bool) -> Row:
    """Loads and stores under a mask: the first elements (`tail`), or random ones."""
    count = int(np.prod(shape))
    limit = count - count // 3

    def build() -> Kernel:
        kernel = Kernel(*[PointerType(element)] * 3, PointerType(i1), i32)
        source, padding, out, masks, length = kernel.args
        if kind == "aligned":
            source, out = aligned(kernel, source), aligned(kernel, out)
        mask = kernel.load(masks, shape) if kind == "random" else below(kernel, shape, length)
        filler = kernel.load(padding, shape) if padded else None
        tile = masked_load(kernel, kernel.addresses(source, shape), mask, filler, element)
        if padded:
            kernel.store(out, tile)
        else:
            masked_store(kernel, kernel.addresses(out, shape), tile, mask)
        return kernel

    def arguments() -> list[Any]:
        short = distinct(element, (count,))[: count if kind == "random" else limit]
        mask = generator(f"{shape}").integers(0, 2, shape).astype(np.uint8)
        filler = mixed(element, shape, "padding", 1)
        return [np.ascontiguousarray(short), filler, empty(element, shape), mask, np.int32(limit)]

    name = f"{kind}_{'padded' if padded else 'masked'}_{text(shape)}-{element}"
    return Row("pointer", name, build, arguments)


def _masks() -> Iterator[Row]:
    for number, element in enumerate(ELEMENTS):
        for place, shape in enumerate(SHAPES):
            kind = ("random", "tail", "aligned")[(number + place) % 3]
            yield masked_row(element, shape, kind, padded=(number + place) % 2 == 0)
            yield masked_row(element, shape, "tail", padded=(number + place) % 2 == 1)


def gather_row(element: Attribute, shape: tuple[int, ...], index: Attribute) -> Row:
    """Loads through a permutation, stores through another."""
    count = int(np.prod(shape))

    def moved(kernel: Kernel, pointer: Any, offsets: Any) -> Any:
        type_ = pointer.type.element_type
        ones = kernel.add(ct.ReshapeOp, [pointer], TileType(type_, (1,) * len(shape)))
        many = kernel.add(ct.BroadcastOp, [ones], TileType(type_, shape))
        return kernel.add(ct.OffsetOp, [many, offsets], TileType(type_, shape))

    def build() -> Kernel:
        kernel = Kernel(*[PointerType(element)] * 2, *[PointerType(index)] * 2)
        source, out, reads, writes = kernel.args
        every = kernel.constant(i1, True, shape)
        addresses = moved(kernel, source, kernel.load(reads, shape))
        tile = masked_load(kernel, addresses, every, None, element)
        masked_store(kernel, moved(kernel, out, kernel.load(writes, shape)), tile, every)
        return kernel

    def arguments() -> list[Any]:
        storage = format_of(index).storage
        orders = [generator(f"order{n}").permutation(count) for n in range(2)]
        offsets = [order.astype(storage).reshape(shape) for order in orders]
        return [distinct(element, (count,)), empty(element, (count,)), *offsets]

    return Row("pointer", f"gather_{text(shape)}-{element}_{index}", build, arguments)


def simple_row(
    name: str, parameters: Sequence[Attribute], fill: Callable[[Kernel], None], arguments: Any
) -> Row:
    """A row of one written-out kernel."""

    def build() -> Kernel:
        kernel = Kernel(*parameters)
        fill(kernel)
        return kernel

    return Row("pointer", name, build, arguments)


def _casts() -> Iterator[Row]:
    shape = (128,)
    floats, words = PointerType(f32), PointerType(i32)

    def reinterpret(kernel: Kernel) -> None:
        addresses = kernel.addresses(kernel.args[0], shape)
        cast = kernel.add(ct.PtrToPtrOp, [addresses], TileType(words, shape))
        every = kernel.constant(i1, True, shape)
        kernel.store(kernel.args[1], masked_load(kernel, cast, every, None, i32))

    def arguments() -> list[Any]:
        return [mixed(f32, shape, "cast"), empty(i32, shape)]

    yield simple_row("ptr_to_ptr", (floats, words), reinterpret, arguments)

    def distance(kernel: Kernel) -> None:
        addresses = kernel.addresses(kernel.args[0], shape)
        wide = TileType(i64, shape)
        numbers = kernel.add(ct.PtrToIntOp, [addresses], wide)
        zero = kernel.add(ct.PtrToIntOp, [kernel.args[0]], TileType(i64))
        first = kernel.add(ct.ReshapeOp, [zero], TileType(i64, (1,)))
        many = kernel.add(ct.BroadcastOp, [first], wide)
        bytes_ = kernel.add(ct.SubIOp, [numbers, many], wide, overflow=NO_OVERFLOW)
        kernel.store(kernel.args[1], bytes_)

    yield simple_row(
        "ptr_to_int",
        (floats, PointerType(i64)),
        distance,
        lambda: [mixed(f32, shape, "cast"), empty(i64, shape)],
    )

    def back(kernel: Kernel) -> None:
        addresses = kernel.addresses(kernel.args[0], shape)
        numbers = kernel.add(ct.PtrToIntOp, [addresses], TileType(i64, shape))
        eight = kernel.constant(i64, 8, shape)
        moved = kernel.add(ct.AddIOp, [numbers, eight], TileType(i64, shape), overflow=NO_OVERFLOW)
        pointers = kernel.add(ct.IntToPtrOp, [moved], TileType(floats, shape))
        every = kernel.constant(i1, True, shape)
        kernel.store(kernel.args[1], masked_load(kernel, pointers, every, None, f32))

    yield simple_row(
        "int_to_ptr",
        (floats, floats),
        back,
        lambda: [mixed(f32, (130,), "cast"), empty(f32, shape)],
    )


def _offsets() -> Iterator[Row]:
    """Signed offsets of every width, backwards too."""
    for index in INTEGERS:
        for element in (i8, f16, f32, f64):

            def fill(kernel: Kernel, index: Any = index, element: Any = element) -> None:
                type_ = PointerType(element)
                middle = kernel.add(
                    ct.OffsetOp, [kernel.args[0], kernel.constant(i32, 128)], TileType(type_)
                )
                one = kernel.add(ct.ReshapeOp, [middle], TileType(type_, (1,)))
                many = kernel.add(ct.BroadcastOp, [one], TileType(type_, (64,)))
                offsets = kernel.load(kernel.args[1], (64,))
                moved = kernel.add(ct.OffsetOp, [many, offsets], TileType(type_, (64,)))
                every = kernel.constant(i1, True, (64,))
                kernel.store(kernel.args[2], masked_load(kernel, moved, every, None, element))

            def arguments(index: Any = index, element: Any = element) -> list[Any]:
                numbers = generator(f"{index}").integers(-128, 128, 64)
                fmt = format_of(index)
                if fmt.name == "i1":
                    offsets = (numbers & 1).astype(np.uint8)
                else:
                    offsets = numbers.astype(fmt.dtype)
                return [distinct(element, (256,)), offsets, empty(element, (64,))]

            pointers = [PointerType(t) for t in (element, index, element)]
            yield simple_row(f"offset_{index}-{element}", pointers, fill, arguments)


def _own_memory() -> Iterator[Row]:
    """What a block writes into memory of its own it reads again."""
    for element, shared in ((f32, True), (i8, True), (f64, True), (i32, False), (i16, True)):

        def fill(kernel: Kernel, element: Any = element, shared: Any = shared) -> None:
            size = format_of(element).storage.itemsize
            memory = kernel.add(
                ct.AllocaOp,
                [],
                TileType(PointerType(element)),
                num_elem=IntegerAttr(256, builtin_i64),
                alignment=IntegerAttr(max(size, 4), builtin_i64),
                **({"global": UnitAttr()} if shared else {}),
            )
            kernel.store(memory, kernel.load(kernel.args[0], (256,)))
            kernel.store(kernel.args[1], kernel.load(memory, (16, 16)))

        pointers = [PointerType(element)] * 2
        kind = "global" if shared else "local"
        yield simple_row(
            f"alloca_{kind}-{element}",
            pointers,
            fill,
            lambda element=element: [distinct(element, (256,)), empty(element, (256,))],
        )


def _rows() -> Iterator[Row]:
    yield from _masks()
    for number, element in enumerate(ELEMENTS):
        for shape in ((256,), (8, 64)):
            yield gather_row(element, shape, (i32, i64)[number % 2])
    yield from _casts()
    yield from _offsets()
    yield from _own_memory()


ROWS = list(_rows())
"""Accesses through pointers."""
