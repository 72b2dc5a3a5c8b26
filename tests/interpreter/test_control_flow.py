"""Loops, conditions and how they are left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, i1, i8, i32, i64

from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNIT, UNSIGNED, Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter import InterpreterError, run_entry

INT = TileType(i32)


def add(kernel: Kernel, lhs: Any, rhs: Any, type_: TileType = INT) -> Any:
    """An integer sum."""
    return kernel.add(ct.AddIOp, [lhs, rhs], type_, overflow=NO_OVERFLOW)


def is_less(kernel: Kernel, lhs: Any, rhs: Any) -> Any:
    """Whether one integer is below another."""
    return kernel.add(
        ct.CmpIOp,
        [lhs, rhs],
        TileType(i1),
        comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        signedness=SIGNED,
    )


def run_for(lower: int, upper: int, step: int, type_=i32, unsigned: bool = False) -> list[int]:
    """Sum and number of the induction values of a loop."""
    kernel = Kernel(PointerType(i64))
    bounds = [kernel.constant(type_, value) for value in (lower, upper, step)]
    zero, one = kernel.constant(i64, 0), kernel.constant(i64, 1)
    signedness = UNSIGNED if unsigned else SIGNED

    def body(iv: Any, total: Any, count: Any) -> None:
        wide = (
            iv
            if type_ == i64
            else kernel.add(ct.ExtIOp, [iv], TileType(i64), signedness=signedness)
        )
        total = add(kernel, total, wide, TileType(i64))
        count = add(kernel, count, one, TileType(i64))
        kernel.add(ct.ContinueOp, [[total, count]])

    region = kernel.region([TileType(type_), TileType(i64), TileType(i64)], body)
    total, count = kernel.add(
        ct.ForOp,
        [*bounds, [zero, zero]],
        [[TileType(i64), TileType(i64)]],
        [region],
        unsignedCmp=UNIT if unsigned else None,
    )
    kernel.store(kernel.args[0], total)
    moved = kernel.add(ct.OffsetOp, [kernel.args[0], one], kernel.args[0].type)
    kernel.store(moved, count)
    out = np.full(2, -1, np.int64)
    kernel.run(out)
    return out.tolist()


@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 17, 4), (5, 5, 1), (7, 2, 1), (-6, 6, 5)])
def test_for_visits_the_half_open_range(bounds):
    assert run_for(*bounds) == [sum(range(*bounds)), len(range(*bounds))]


def test_unsigned_for_reads_its_bounds_unsigned():
    assert run_for(250 - 256, 254 - 256, 1, i8, unsigned=True) == [250 + 251 + 252 + 253, 4]
    assert run_for(0, 200 - 256, 100, i8, unsigned=True) == [100, 2]
    assert run_for(0, 200 - 256, 100, i8) == [0, 0]


def test_step_that_is_not_positive_is_an_error():
    with pytest.raises(InterpreterError, match="for: step is 0, expected a positive one"):
        run_for(0, 4, 0)


def test_loop_breaks_with_results_unlike_its_inits():
    """Counts up by twos until 9 is passed; continue and break sit in nested ifs."""
    kernel = Kernel(PointerType(i32))
    zero, two, limit = (kernel.constant(i32, value) for value in (0, 2, 9))

    def body(current: Any) -> None:
        following = add(kernel, current, two)

        def go_on() -> None:
            kernel.add(ct.ContinueOp, [[following]])

        def leave() -> None:
            kernel.add(ct.BreakOp, [[current, following]])

        regions = [kernel.region([], go_on), kernel.region([], leave)]
        kernel.add(ct.IfOp, [is_less(kernel, following, limit)], [[]], regions)
        kernel.add(ct.ContinueOp, [[zero]])

    results = kernel.add(ct.LoopOp, [[zero]], [[INT, INT]], [kernel.region([INT], body)])
    kernel.store(kernel.args[0], add(kernel, results[0], results[1]))
    out = np.zeros(1, np.int32)
    kernel.run(out)
    assert out[0] == 8 + 10


@pytest.mark.parametrize("condition, expected", [(1, 5), (0, 7)])
def test_if_yields_the_taken_branch(condition, expected):
    kernel = Kernel(i1, PointerType(i32))
    branches = [
        kernel.region([], lambda v=v: kernel.add(ct.YieldOp, [[kernel.constant(i32, v)]]))
        for v in (5, 7)
    ]
    result = kernel.add(ct.IfOp, [kernel.args[0]], [[INT]], branches)
    kernel.store(kernel.args[1], result)
    out = np.zeros(1, np.int32)
    kernel.run(condition, out)
    assert out[0] == expected


@pytest.mark.parametrize("condition, expected", [(1, 1), (0, 2)])
def test_return_inside_if_ends_the_block(condition, expected):
    kernel = Kernel(i1, PointerType(i32))

    def store_and_return() -> None:
        kernel.store(kernel.args[1], kernel.constant(i32, 1))
        kernel.add(ct.ReturnOp, [[]])

    regions = [kernel.region([], store_and_return), kernel.region([], None)]
    kernel.add(ct.IfOp, [kernel.args[0]], [[]], regions)
    kernel.store(kernel.args[1], kernel.constant(i32, 2))
    out = np.zeros(1, np.int32)
    kernel.run(condition, out)
    assert out[0] == expected


def test_continue_in_nested_loops_belongs_to_the_inner_one():
    """Inner loop skips odd numbers; outer sums what the inner one counted."""
    kernel = Kernel(PointerType(i32))
    zero, one, three, four = (kernel.constant(i32, value) for value in (0, 1, 3, 4))

    def inner(iv: Any, count: Any) -> None:
        odd = kernel.add(ct.AndIOp, [iv, one], INT)

        def skip() -> None:
            kernel.add(ct.ContinueOp, [[count]])

        kernel.add(
            ct.IfOp,
            [is_less(kernel, zero, odd)],
            [[]],
            [kernel.region([], skip), kernel.region([], None)],
        )
        kernel.add(ct.ContinueOp, [[add(kernel, count, one)]])

    def outer(iv: Any, total: Any) -> None:
        region = kernel.region([INT, INT], inner)
        counted = kernel.add(ct.ForOp, [zero, four, one, [total]], [[INT]], [region])
        kernel.add(ct.ContinueOp, [[counted]])

    region = kernel.region([INT, INT], outer)
    result = kernel.add(ct.ForOp, [zero, three, one, [zero]], [[INT]], [region])
    kernel.store(kernel.args[0], result)
    out = np.zeros(1, np.int32)
    kernel.run(out)
    assert out[0] == 3 * 2


def test_assert_records_the_failed_elements_and_goes_on():
    kernel = Kernel(PointerType(i32))
    values = kernel.load(kernel.args[0], (4,))
    limit = kernel.constant(i32, 3, (4,))
    good = kernel.add(
        ct.CmpIOp,
        [values, limit],
        TileType(i1, (4,)),
        comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
        signedness=SIGNED,
    )
    kernel.add(ct.AssertOp, [good], message=StringAttr("too large"))
    kernel.store(kernel.args[0], limit)
    data = np.array([1, 5, 2, 3], np.int32)
    log = kernel.run(data)
    assert data.tolist() == [3] * 4
    (failure,) = log.failures
    assert failure.message == "too large"
    assert failure.elements == ((1,), (3,))
    assert failure.block_id == (0, 0, 0)
    assert str(failure.location).startswith('loc("kernel.py":')


def test_endless_loop_is_an_error():
    kernel = Kernel()
    region = kernel.region([], lambda: kernel.add(ct.ContinueOp, [[]]))
    kernel.add(ct.LoopOp, [[]], [[]], [region])
    kernel.add(ct.ReturnOp, [[]])
    with pytest.raises(InterpreterError, match="loop: the loop did not end within 50 rounds"):
        run_entry(kernel.module, None, [], (1, 1, 1), loop_limit=50)
