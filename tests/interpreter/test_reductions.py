"""Reductions and scans with any body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, f32, i1, i32

from tests.kernels.combining import argmax
from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, Kernel, held, rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType

IDENTITY = {f32: FloatBitsAttr(0, f32), i32: IntegerAttr(0, i32)}
Body = Callable[..., Sequence[Any]]


def run_reduction(
    inputs: Sequence[tuple[Any, Any]],
    dim: int,
    body: Callable[[Kernel], Body],
    scan: bool = False,
    reverse: bool = False,
) -> list[np.ndarray]:
    """The results of a reduce or scan whose body `body(kernel)` writes."""
    tiles = [held(type_, values) for type_, values in inputs]
    types = [type_ for type_, _ in inputs]
    kernel = Kernel(*(PointerType(type_) for type_ in types * 2))
    loaded = [kernel.load(arg, tiles[0].shape) for arg in kernel.args[: len(types)]]
    fill = body(kernel)

    def region(*arguments: Any) -> None:
        kernel.add(ct.YieldOp, [list(fill(*arguments))])

    shape = list(tiles[0].shape)
    if not scan:
        del shape[dim]
    properties: dict[str, Any] = {
        "dim": IntegerAttr(dim, i32),
        "identities": ArrayAttr([IDENTITY[type_] for type_ in types]),
    }
    if scan:
        properties["reverse"] = IntegerAttr(int(reverse), i1)
    results = kernel.add(
        ct.ScanOp if scan else ct.ReduceOp,
        [loaded],
        [[TileType(type_, shape) for type_ in types]],
        [kernel.region([TileType(type_) for type_ in types for _ in (0, 1)], region)],
        **properties,
    )
    results = results if isinstance(results, list) else [results]
    for pointer, result in zip(kernel.args[len(types) :], results):
        kernel.store(pointer, result)
    outputs = [np.zeros(shape, tile.dtype) for tile in tiles]
    kernel.run(*[tile.copy() for tile in tiles], *outputs)
    return outputs


def float_sum(kernel: Kernel) -> Body:
    """Adds floats."""
    return lambda a, b: [kernel.add(ct.AddFOp, [a, b], TileType(f32), rounding_mode=rounding())]


def integer_of(op_class: Any, **properties: Any) -> Callable[[Kernel], Body]:
    """A body of one integer op."""
    return lambda kernel: lambda a, b: [kernel.add(op_class, [a, b], TileType(i32), **properties)]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sum_removes_its_dim(dim):
    data = np.arange(64, dtype=np.float32).reshape(2, 4, 8)
    (result,) = run_reduction([(f32, data)], dim, float_sum)
    np.testing.assert_array_equal(result, data.sum(axis=dim))


def test_rank_one_reduces_to_a_scalar():
    (result,) = run_reduction([(i32, [3, 9, -4, 1])], 0, integer_of(ct.MaxIOp, signedness=SIGNED))
    assert result.shape == () and result == 9


def test_single_element_is_itself():
    (result,) = run_reduction([(f32, [[2.5], [1.5]])], 1, float_sum)
    assert result.tolist() == [2.5, 1.5]


def test_two_operands_find_the_first_maximum():
    data = np.random.default_rng(2).integers(0, 6, (4, 16)).astype(np.float32)
    index = np.broadcast_to(np.arange(16), (4, 16))
    top, place = run_reduction([(f32, data), (i32, index)], 1, argmax)
    np.testing.assert_array_equal(top, data.max(axis=1))
    np.testing.assert_array_equal(place, data.argmax(axis=1))


def second(kernel: Kernel) -> Body:
    """Keeps the later element: associative, not commutative."""
    return lambda later, earlier: [kernel.add(ct.OrIOp, [later, later], TileType(i32))]


def test_first_body_argument_is_the_later_element():
    (last,) = run_reduction([(i32, [1, 2, 3, 4])], 0, second)
    assert last == 4
    (same,) = run_reduction([(i32, [1, 2, 3, 4])], 0, second, scan=True)
    assert same.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scan_is_inclusive_from_either_end(dim, reverse):
    data = np.random.default_rng(3).integers(-9, 9, (4, 8))
    (result,) = run_reduction(
        [(i32, data)], dim, integer_of(ct.AddIOp, overflow=NO_OVERFLOW), True, reverse
    )
    order = np.flip(data, dim) if reverse else data
    expected = np.cumsum(order, axis=dim)
    np.testing.assert_array_equal(result, np.flip(expected, dim) if reverse else expected)


def guarded_sum(kernel: Kernel) -> Body:
    """Adds the later element only if it is positive, by control flow."""

    def body(value: Any, total: Any) -> list[Any]:
        zero = kernel.constant(i32, 0)
        positive = kernel.add(
            ct.CmpIOp,
            [zero, value],
            TileType(i1),
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            signedness=SIGNED,
        )

        def sum_up() -> None:
            both = kernel.add(ct.AddIOp, [value, total], TileType(i32), overflow=NO_OVERFLOW)
            kernel.add(ct.YieldOp, [[both]])

        def keep() -> None:
            kernel.add(ct.YieldOp, [[total]])

        branches = [kernel.region([], sum_up), kernel.region([], keep)]
        return [kernel.add(ct.IfOp, [positive], [[TileType(i32)]], branches)]

    return body


def test_body_with_control_flow_runs_element_by_element():
    data = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    (result,) = run_reduction([(i32, data)], 1, guarded_sum)
    assert result.tolist() == [10, 26]


def test_body_may_use_values_from_outside():
    def scaled(kernel: Kernel) -> Body:
        outside = kernel.constant(i32, 0)

        def body(a: Any, b: Any) -> list[Any]:
            partial = kernel.add(ct.AddIOp, [a, outside], TileType(i32), overflow=NO_OVERFLOW)
            return [kernel.add(ct.AddIOp, [partial, b], TileType(i32), overflow=NO_OVERFLOW)]

        return body

    (result,) = run_reduction([(i32, [1, 2, 3, 4])], 0, scaled)
    assert result == 10
