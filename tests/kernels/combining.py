"""Reductions and scans with any body, and operands for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, f32, i1, i32

from tests.kernels.kernel_builder import SIGNED, Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
)
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType

INT = TileType(i32)
NO_OVERFLOW = IntegerOverflowAttr(IntegerOverflow.NONE)


IDENTITY = {f32: FloatBitsAttr(0, f32), i32: IntegerAttr(0, i32)}


Body = Callable[..., Sequence[Any]]


BodyMaker = Callable[[Kernel], Body]


def combining_kernel(
    shape: Sequence[int],
    dim: int,
    types: Sequence[Any],
    body: BodyMaker,
    reverse: bool | None,
    identities: Sequence[Any] = (),
) -> Kernel:
    """Loads the operands, reduces (or scans, unless `reverse` is None), stores the results.

    Without `identities` all are zeros, at which nobody looks while a tile is not cut.
    """
    kernel = Kernel(*(PointerType(type_) for type_ in [*types, *types]))
    loaded = [kernel.load(arg, shape) for arg in kernel.args[: len(types)]]
    fill = body(kernel)

    def region(*arguments: Any) -> None:
        kernel.add(ct.YieldOp, [list(fill(*arguments))])

    properties: dict[str, Any] = {
        "dim": IntegerAttr(dim, i32),
        "identities": ArrayAttr(identities or [IDENTITY[type_] for type_ in types]),
    }
    result_shape = list(shape)
    if reverse is None:
        del result_shape[dim]
    else:
        properties["reverse"] = IntegerAttr(int(reverse), i1)
    results = kernel.add(
        ct.ReduceOp if reverse is None else ct.ScanOp,
        [loaded],
        [[TileType(type_, result_shape) for type_ in types]],
        [kernel.region([TileType(type_) for type_ in types for _ in (0, 1)], region)],
        **properties,
    )
    results = results if isinstance(results, list) else [results]
    for pointer, result in zip(kernel.args[len(types) :], results, strict=True):
        kernel.store(pointer, result)
    return kernel


def matrix_product(kernel: Kernel) -> Body:
    """Composition of affine maps modulo 2**32: associative, and far from commutative."""

    def body(later_a: Any, early_a: Any, later_b: Any, early_b: Any) -> Sequence[Any]:
        scale = kernel.add(ct.MulIOp, [later_a, early_a], INT, overflow=NO_OVERFLOW)
        moved = kernel.add(ct.MulIOp, [later_a, early_b], INT, overflow=NO_OVERFLOW)
        return [scale, kernel.add(ct.AddIOp, [moved, later_b], INT, overflow=NO_OVERFLOW)]

    return body


def integer_sum(kernel: Kernel) -> Body:
    """Adds integers."""
    return lambda a, b: [kernel.add(ct.AddIOp, [a, b], INT, overflow=NO_OVERFLOW)]


def numbers(shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Random odd integers."""
    generator = np.random.default_rng(seed)
    return generator.integers(-(2**30), 2**30, shape, dtype=np.int32) | 1


def argmax(kernel: Kernel) -> Body:
    """The larger value and its index; of equal ones the smaller index."""

    def compare(predicate: str, a: Any, b: Any) -> Any:
        return kernel.add(
            ct.CmpFOp,
            [a, b],
            TileType(i1),
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate(predicate)),
            comparison_ordering=ComparisonOrderingAttr(ComparisonOrdering.ORDERED),
        )

    def body(value: Any, best: Any, index: Any, best_index: Any) -> Sequence[Any]:
        larger, equal = compare("greater_than", value, best), compare("equal", value, best)
        lower = kernel.add(
            ct.CmpIOp,
            [index, best_index],
            TileType(i1),
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            signedness=SIGNED,
        )
        tie = kernel.add(ct.AndIOp, [equal, lower], TileType(i1))
        takes = kernel.add(ct.OrIOp, [larger, tie], TileType(i1))
        kept = kernel.add(ct.SelectOp, [takes, value, best], value.type)
        return [kept, kernel.add(ct.SelectOp, [takes, index, best_index], index.type)]

    return body
