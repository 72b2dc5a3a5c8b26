"""Rows of control flow with tiles carried, and of accesses ordered by tokens in one block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, f16, f32, f64
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNIT, WEAK, Kernel, flags, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.types import TOKEN, PointerType, TileType

from .rows import Row, i1, i8, i32, i64
from .shapes import text
from .tiles import INT, block_index, whole_view
from .values import distinct, empty, small_integers

Build = Callable[[Kernel], None]


def compare(kernel: Kernel, predicate: str, a: Any, b: Any, signedness: Any = SIGNED) -> Any:
    """An integer comparison."""
    return kernel.add(
        ct.CmpIOp,
        [a, b],
        TileType(i1, a.type.shape),
        comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate(predicate)),
        signedness=signedness,
    )


def added(kernel: Kernel, a: Any, b: Any) -> Any:
    """The sum of two integer tiles."""
    return kernel.add(ct.AddIOp, [a, b], a.type, overflow=NO_OVERFLOW)


def filled(kernel: Kernel, value: Any, shape: Sequence[int]) -> Any:
    """A scalar in every element of a tile."""
    element = value.type.element_type
    ones = kernel.add(ct.ReshapeOp, [value], TileType(element, (1,) * len(shape)))
    return kernel.add(ct.BroadcastOp, [ones], TileType(element, tuple(shape)))


def transposed(kernel: Kernel, tile: Any) -> Any:
    """The transpose of a matrix: another layout is natural for it."""
    rows, columns = tile.type.shape
    type_ = TileType(tile.type.element_type, (columns, rows))
    order = DenseArrayBase.from_list(builtin_i32, [1, 0])
    return kernel.add(ct.PermuteOp, [tile], type_, permutation=order)


def one(results: Any) -> Any:
    """The only result of an op with a variable number of them."""
    return results[0] if isinstance(results, list) else results


def for_loop(kernel: Kernel, bounds: Sequence[Any], start: Sequence[Any], fill: Any) -> list[Any]:
    """A `for`; `fill(step, *carried)` gives the next values."""
    types = [value.type for value in start]
    region = kernel.region(
        [bounds[0].type, *types],
        lambda step, *carried: kernel.add(ct.ContinueOp, [fill(step, *carried)]),
    )
    results = kernel.add(ct.ForOp, [*bounds, list(start)], [types], [region])
    return results if isinstance(results, list) else [results]


def loop_row(element: Attribute, shape: tuple[int, ...], bounds: tuple[int, int, int]) -> Row:
    """Adds the step's number into a tile, and swaps it with another one, in a `for`."""

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, pointer, *[i32] * 3)
        tiles = [kernel.load(kernel.args[p], shape) for p in range(2)]

        def body(step: Any, first: Any, second: Any) -> list[Any]:
            if element in (f16, f32, f64):
                changed = kernel.add(
                    ct.AddFOp, [first, second], first.type, rounding_mode=rounding()
                )
            else:
                changed = added(kernel, first, second)
            del step
            return [second, changed]

        results = for_loop(kernel, list(kernel.args[3:]), tiles, body)
        kernel.store(kernel.args[2], results[1])
        return kernel

    name = f"for_{text(shape)}_{'_'.join(map(str, bounds))}-{element}"

    def arguments() -> list[Any]:
        inputs = [small_integers(element, shape, f"{name}{p}") for p in range(2)]
        return [*inputs, empty(element, shape), *(np.int32(b) for b in bounds)]

    return Row("control", name, build, arguments)


def kernel_row(
    name: str,
    parameters: Sequence[Attribute],
    fill: Build,
    arguments: Callable[[], list[Any]],
    grid: tuple[int, int, int] = (1, 1, 1),
) -> Row:
    """A row of one written-out kernel."""

    def build() -> Kernel:
        kernel = Kernel(*parameters)
        fill(kernel)
        return kernel

    return Row("control", name, build, arguments, grid)


INTS = PointerType(i32)


def _loops() -> Iterator[Row]:
    for number, shape in enumerate(((), (16,), (512,), (32, 32), (4, 8, 16))):
        for bounds in ((0, 5, 1), (3, 3, 1), (5, 2, 1), (-4, 9, 3), (0, 1, 7)):
            yield loop_row((i32, f32, i8, f16, f64, i64)[number], shape, bounds)

    shape = (64,)

    def unsigned(kernel: Kernel) -> None:
        zero = kernel.constant(i32, 0, shape)

        def body(step: Any, acc: Any) -> None:
            kernel.add(ct.ContinueOp, [[added(kernel, acc, filled(kernel, step, shape))]])

        region = kernel.region([INT, zero.type], body)
        bounds = list(kernel.args[1:])
        result = kernel.add(ct.ForOp, [*bounds, [zero]], [[zero.type]], [region], unsignedCmp=UNIT)
        kernel.store(kernel.args[0], one(result))

    yield kernel_row(
        "for_unsigned",
        (INTS, i32, i32, i32),
        unsigned,
        lambda: [empty(i32, shape), np.int32(5), np.int32(-(1 << 31)), np.int32(1 << 28)],
    )

    def nested(kernel: Kernel) -> None:
        start, end, step = (kernel.constant(i64, n) for n in (0, 6, 1))
        tile = kernel.load(kernel.args[0], (16, 32))

        def outer(i: Any, acc: Any) -> list[Any]:
            def inner(j: Any, sums: Any) -> list[Any]:
                both = kernel.add(ct.MulIOp, [i, j], TileType(i64), overflow=NO_OVERFLOW)
                low = kernel.add(ct.TruncIOp, [both], INT, overflow=NO_OVERFLOW)
                return [added(kernel, sums, filled(kernel, low, (16, 32)))]

            return for_loop(kernel, [start, i, step], [acc], inner)

        (result,) = for_loop(kernel, [start, end, step], [tile], outer)
        kernel.store(kernel.args[1], result)

    yield kernel_row(
        "for_nested_i64",
        (INTS, INTS),
        nested,
        lambda: [distinct(i32, (16, 32)), empty(i32, (16, 32))],
    )

    def turning(kernel: Kernel) -> None:
        tile = kernel.load(kernel.args[0], (32, 32))
        bounds = [kernel.constant(i32, n) for n in (0, 3, 1)]
        (result,) = for_loop(
            kernel,
            bounds,
            [tile],
            lambda step, t: [added(kernel, transposed(kernel, t), filled(kernel, step, (32, 32)))],
        )
        kernel.store(kernel.args[1], result)

    yield kernel_row(
        "for_transposes_its_tile",
        (INTS, INTS),
        turning,
        lambda: [distinct(i32, (32, 32)), empty(i32, (32, 32))],
    )


def _branches() -> Iterator[Row]:
    def choosing(kernel: Kernel) -> None:
        x, _, _ = block_index(kernel)
        tile = kernel.load(kernel.args[0], (32, 32))
        condition = compare(kernel, "less_than", x, kernel.args[2])
        yes = kernel.region([], lambda: kernel.add(ct.YieldOp, [[transposed(kernel, tile)]]))

        def otherwise() -> None:
            kernel.add(ct.YieldOp, [[added(kernel, tile, filled(kernel, x, (32, 32)))]])

        results = kernel.add(
            ct.IfOp, [condition], [[tile.type]], [yes, kernel.region([], otherwise)]
        )
        size = kernel.constant(i32, 1024)
        distance = kernel.add(ct.MulIOp, [x, size], INT, overflow=NO_OVERFLOW)
        out = kernel.add(ct.OffsetOp, [kernel.args[1], distance], kernel.args[1].type)
        kernel.store(out, one(results))

    yield kernel_row(
        "if_else_of_tiles",
        (INTS, INTS, i32),
        choosing,
        lambda: [distinct(i32, (32, 32)), empty(i32, (4, 32, 32)), np.int32(2)],
        (4, 1, 1),
    )

    def without_else(kernel: Kernel) -> None:
        x, _, _ = block_index(kernel)
        out = kernel.add(ct.OffsetOp, [kernel.args[0], x], kernel.args[0].type)

        def yes() -> None:
            kernel.store(out, x)
            kernel.add(ct.YieldOp, [[]])

        condition = compare(kernel, "greater_than", x, kernel.args[1])
        kernel.add(ct.IfOp, [condition], [[]], [kernel.region([], yes), kernel.region([], None)])

    yield kernel_row(
        "if_without_else",
        (INTS, i32),
        without_else,
        lambda: [empty(i32, (8,)), np.int32(3)],
        (8, 1, 1),
    )

    def early(kernel: Kernel) -> None:
        x, _, _ = block_index(kernel)
        out = kernel.add(ct.OffsetOp, [kernel.args[0], x], kernel.args[0].type)
        condition = compare(kernel, "greater_than_or_equal", x, kernel.args[1])
        leave = kernel.region([], lambda: kernel.add(ct.ReturnOp, [[]]))
        kernel.add(ct.IfOp, [condition], [[]], [leave, kernel.region([], None)])
        kernel.store(out, x)

    yield kernel_row(
        "early_return",
        (INTS, i32),
        early,
        lambda: [empty(i32, (8,)), np.int32(5)],
        (8, 1, 1),
    )


def _endless_loops() -> Iterator[Row]:
    shape = (128,)

    def breaking(kernel: Kernel) -> None:
        """Doubles until the sum is too large; an odd step skips the addition."""
        tile, zero, by = (
            kernel.load(kernel.args[0], shape),
            *(kernel.constant(i32, n) for n in (0, 1)),
        )

        def body(step: Any, acc: Any) -> None:
            done = compare(kernel, "greater_than_or_equal", step, kernel.args[2])
            leave = kernel.region([], lambda: kernel.add(ct.BreakOp, [[acc, step]]))
            kernel.add(ct.IfOp, [done], [[]], [leave, kernel.region([], None)])
            following = added(kernel, step, by)
            odd = kernel.add(ct.AndIOp, [step, by], INT)
            is_odd = compare(kernel, "not_equal", odd, zero)
            skip = kernel.region([], lambda: kernel.add(ct.ContinueOp, [[following, acc]]))
            kernel.add(ct.IfOp, [is_odd], [[]], [skip, kernel.region([], None)])
            kernel.add(
                ct.ContinueOp, [[following, added(kernel, acc, filled(kernel, step, shape))]]
            )

        region = kernel.region([INT, tile.type], body)
        results = kernel.add(ct.LoopOp, [[zero, tile]], [[tile.type, INT]], [region])
        kernel.store(kernel.args[1], results[0])
        kernel.store(kernel.args[3], results[1])

    for limit in (0, 1, 9):
        yield kernel_row(
            f"loop_break_continue_{limit}",
            (INTS, INTS, i32, INTS),
            breaking,
            lambda limit=limit: [
                distinct(i32, shape),
                empty(i32, shape),
                np.int32(limit),
                empty(i32, (1,)),
            ],
        )

    def data_dependent(kernel: Kernel) -> None:
        """Collatz steps, until a reduction of the tile says that all have arrived."""
        x, _, _ = block_index(kernel)
        value = kernel.load(kernel.add(ct.OffsetOp, [kernel.args[0], x], kernel.args[0].type), ())
        zero, by, three, two = (kernel.constant(i32, n) for n in (0, 1, 3, 2))

        def body(number: Any, count: Any) -> None:
            done = compare(kernel, "less_than_or_equal", number, by)
            leave = kernel.region([], lambda: kernel.add(ct.BreakOp, [[count]]))
            kernel.add(ct.IfOp, [done], [[]], [leave, kernel.region([], None)])
            odd = kernel.add(ct.AndIOp, [number, by], INT)
            is_odd = compare(kernel, "equal", odd, by)

            def up() -> None:
                tripled = kernel.add(ct.MulIOp, [number, three], INT, overflow=NO_OVERFLOW)
                kernel.add(ct.YieldOp, [[added(kernel, tripled, by)]])

            def down() -> None:
                half = kernel.add(
                    ct.DivIOp, [number, two], INT, signedness=SIGNED, rounding=rounding("zero")
                )
                kernel.add(ct.YieldOp, [[half]])

            following = one(
                kernel.add(
                    ct.IfOp, [is_odd], [[INT]], [kernel.region([], up), kernel.region([], down)]
                )
            )
            kernel.add(ct.ContinueOp, [[following, added(kernel, count, by)]])

        region = kernel.region([INT, INT], body)
        steps = one(kernel.add(ct.LoopOp, [[value, zero]], [[INT]], [region]))
        out = kernel.add(ct.OffsetOp, [kernel.args[1], x], kernel.args[1].type)
        kernel.store(out, steps)

    yield kernel_row(
        "loop_collatz",
        (INTS, INTS),
        data_dependent,
        lambda: [np.arange(1, 33, dtype=np.uint32), empty(i32, (32,))],
        (32, 1, 1),
    )


def ordered_load(kernel: Kernel, addresses: Any, token: Any) -> list[Any]:
    """A load after a token: the tile and the next token."""
    element = addresses.type.element_type.pointee
    results = [TileType(element, addresses.type.shape), TOKEN]
    operands = [addresses, [], [], [token]]
    return kernel.add(ct.LoadPtrTkoOp, operands, results, memory_ordering_semantics=WEAK)


def ordered_store(kernel: Kernel, addresses: Any, tile: Any, token: Any) -> Any:
    """A store after a token: the next token."""
    operands = [addresses, tile, [], [token]]
    return kernel.add(ct.StorePtrTkoOp, operands, TOKEN, memory_ordering_semantics=WEAK)


def hazard_row(shape: tuple[int, int], element: Attribute, kind: str) -> Row:
    """Stores a tile, reads it back transposed (by other threads), stores over what was read."""
    count = shape[0] * shape[1]

    def transposed_addresses(kernel: Kernel, pointer: Any) -> Any:
        """Addresses of the transpose: element (i, j) of shape[1] x shape[0]."""
        return transposed(kernel, kernel.addresses(pointer, shape))

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, pointer)
        source, scratch, out = kernel.args
        tile = kernel.load(source, shape)
        flat, turn = kernel.addresses(scratch, shape), transposed_addresses(kernel, scratch)
        token = ordered_store(kernel, flat, tile, kernel.add(ct.MakeTokenOp, [], TOKEN))
        if kind == "once":
            back, token = ordered_load(kernel, turn, token)
            ordered_store(kernel, kernel.addresses(out, shape[::-1]), back, token)
            return kernel
        bounds = [kernel.constant(i32, n) for n in (0, 3, 1)]

        def body(step: Any, token: Any) -> list[Any]:
            back, token = ordered_load(kernel, turn, token)
            again = kernel.add(ct.ReshapeOp, [back], TileType(element, shape))
            return [ordered_store(kernel, flat, again, token)]

        (token,) = for_loop(kernel, bounds, [token], body)
        last, token = ordered_load(kernel, flat, token)
        ordered_store(kernel, kernel.addresses(out, shape), last, token)
        return kernel

    def arguments() -> list[Any]:
        return [distinct(element, shape), empty(element, (count,)), empty(element, (count,))]

    return Row("control", f"hazard_{kind}_{text(shape)}-{element}", build, arguments)


def view_hazard_row(element: Attribute, tile: tuple[int, int]) -> Row:
    """Stores through a view, reads what pointers with other owners say, after joined tokens."""

    def build() -> Kernel:
        pointer = PointerType(element)
        kernel = Kernel(pointer, pointer, pointer)
        source, scratch, out = kernel.args
        loaded = kernel.load(source, tile)
        view = whole_view(kernel, scratch, tile)
        zero = kernel.constant(i32, 0)
        tokens = [kernel.add(ct.MakeTokenOp, [], TOKEN)]
        tokens.append(
            kernel.add(
                ct.StoreViewTkoOp,
                [loaded, view, [zero, zero], [tokens[0]]],
                TOKEN,
                memory_ordering_semantics=WEAK,
                inbounds=flags([0, 0]),
            )
        )
        token = kernel.add(ct.JoinTokensOp, [tokens], TOKEN)
        back, _ = ordered_load(kernel, transposed(kernel, kernel.addresses(scratch, tile)), token)
        kernel.store(out, back)
        return kernel

    def arguments() -> list[Any]:
        return [distinct(element, tile), empty(element, tile), empty(element, tile[::-1])]

    return Row("control", f"hazard_view_{text(tile)}-{element}", build, arguments)


def _hazards() -> Iterator[Row]:
    for shape in ((16, 16), (64, 32), (2, 256), (128, 64)):
        for element in (i32, f16, i8, f64):
            yield hazard_row(shape, element, "once")
            yield hazard_row(shape, element, "loop")
            yield view_hazard_row(element, shape)


ROWS = [*_loops(), *_branches(), *_endless_loops(), *_hazards()]
"""Control flow and hazards."""
