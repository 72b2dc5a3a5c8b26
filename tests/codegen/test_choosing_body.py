"""Bodies of reductions that choose an element: taken in any order only where that is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i1, i32

from tests.kernels.combining import Body, BodyMaker, combining_kernel
from tests.kernels.kernel_builder import SIGNED, Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import TileType

BOOL, INT, FLOAT = TileType(i1), TileType(i32), TileType(f32)
SHAPE = (4, 4096)
QUICK = 2 * 5
"""Shuffles of two operands over 32 lanes, once for all that a thread has of a row."""


class Asked:
    """Operations of a body, by short names."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    def floats(self, predicate: str, a: Any, b: Any, ordering: str = "ordered") -> Any:
        """A comparison of floats."""
        return self.kernel.add(
            ct.CmpFOp,
            [a, b],
            BOOL,
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate(predicate)),
            comparison_ordering=ComparisonOrderingAttr(ComparisonOrdering(ordering)),
        )

    def integers(self, predicate: str, a: Any, b: Any, sign: SignednessAttr = SIGNED) -> Any:
        """A comparison of integers."""
        attribute = ComparisonPredicateAttr(ComparisonPredicate(predicate))
        return self.kernel.add(
            ct.CmpIOp, [a, b], BOOL, comparison_predicate=attribute, signedness=sign
        )

    def both(self, a: Any, b: Any) -> Any:
        """`a and b`."""
        return self.kernel.add(ct.AndIOp, [a, b], BOOL)

    def either(self, a: Any, b: Any) -> Any:
        """`a or b`."""
        return self.kernel.add(ct.OrIOp, [a, b], BOOL)

    def choice(self, takes: Any, a: Any, b: Any) -> Any:
        """`a if takes else b`."""
        return self.kernel.add(ct.SelectOp, [takes, a, b], a.type)


def choosing(condition: Callable[[Asked, Any, Any, Any, Any], Any]) -> BodyMaker:
    """A body that yields the first value and number where a condition on both pairs holds."""

    def maker(kernel: Kernel) -> Body:
        asked = Asked(kernel)

        def body(a: Any, b: Any, m: Any, n: Any) -> Sequence[Any]:
            takes = condition(asked, a, b, m, n)
            return [asked.choice(takes, a, b), asked.choice(takes, m, n)]

        return body

    return maker


def first_largest(asked: Asked, a: Any, b: Any, m: Any, n: Any) -> Any:
    """Numbers before NaNs, the largest of them, of equal ones the first: as clients write it."""
    larger = asked.floats("greater_than", a, b)
    only_b_nan = asked.both(
        asked.floats("equal", a, a), asked.floats("not_equal", b, b, "unordered")
    )
    both_nan = asked.both(
        asked.floats("not_equal", a, a, "unordered"), asked.floats("not_equal", b, b, "unordered")
    )
    same = asked.either(asked.floats("equal", a, b), both_nan)
    tie = asked.both(same, asked.integers("less_than", m, n))
    return asked.either(asked.either(larger, only_b_nan), tie)


def first_largest_number(asked: Asked, a: Any, b: Any, m: Any, n: Any) -> Any:
    """As above, but NaNs are not asked about: beside one, the second operand wins."""
    tie = asked.both(asked.floats("equal", a, b), asked.integers("less_than", m, n))
    return asked.either(asked.floats("greater_than", a, b), tie)


def some_largest(asked: Asked, a: Any, b: Any, m: Any, n: Any) -> Any:
    """Of equal values the second."""
    return asked.floats("greater_than", a, b)


def last_number(asked: Asked, a: Any, b: Any, m: Any, n: Any) -> Any:
    """The element with the largest number: nobody says that no two have the same."""
    return asked.integers("greater_than", m, n)


def last_number_either_way(asked: Asked, a: Any, b: Any, m: Any, n: Any) -> Any:
    """Signed and unsigned order at once: what that says of a pair is not followed."""
    unsigned = SignednessAttr(Signedness.UNSIGNED)
    return asked.both(
        asked.integers("greater_than", m, n), asked.integers("greater_than", m, n, unsigned)
    )


def shuffles(condition: Callable[[Asked, Any, Any, Any, Any], Any], data: np.ndarray) -> int:
    """How many a reduction takes, whose result the interpreter confirms."""
    kernel = combining_kernel(SHAPE, 1, [f32, i32], choosing(condition), None)
    count = np.arange(SHAPE[1], dtype=np.int32)
    inputs = [data, np.broadcast_to(count, SHAPE).copy()]
    wanted = [np.zeros(SHAPE[0], array.dtype) for array in inputs]
    kernel.run(*[array.copy() for array in inputs], *wanted)
    module = lower_to_llvm(kernel.module)
    found = [np.full(SHAPE[0], -1, array.dtype) for array in inputs]
    run_lowered(module, [*[array.copy() for array in inputs], *found])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return str(module).count("nvvm.shfl")


def values(*, nan: bool) -> np.ndarray:
    """Many ties, zeros of both signs, and NaNs: a row of nothing else."""
    data = np.random.default_rng(5).integers(-3, 4, SHAPE).astype(np.float32)
    data[0] = -data[0] * 0
    if nan:
        data[1, ::3] = np.nan
        data[2] = np.nan
    return data


@pytest.mark.parametrize("nan", [False, True])
def test_largest_element_and_its_number_are_found_in_any_order(nan):
    assert shuffles(first_largest, values(nan=nan)) == QUICK


@pytest.mark.parametrize(
    "condition", [first_largest_number, some_largest, last_number, last_number_either_way]
)
def test_body_whose_choice_depends_on_the_order_keeps_it(condition):
    assert shuffles(condition, values(nan=False)) > QUICK
