"""argmax and argmin, extremes first, then places: compiled as the interpreter has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, f16, f32, i1, i32

from tests.kernels.kernel_builder import SIGNED, Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.constants import FloatBitsAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType

BOOL = TileType(i1)
LESS, GREATER = ComparisonPredicate.LESS_THAN, ComparisonPredicate.GREATER_THAN
EQUAL = ComparisonPredicate.EQUAL
NUMPY = {f32: np.float32, f16: np.float16, i32: np.int32}


def compare(kernel: Kernel, predicate: ComparisonPredicate, lhs: Any, rhs: Any, type: Any) -> Any:
    """A comparison, ordered for floats and signed for integers."""
    asked = ComparisonPredicateAttr(predicate)
    if type == i32:
        return kernel.add(
            ct.CmpIOp, [lhs, rhs], BOOL, comparison_predicate=asked, signedness=SIGNED
        )
    order = ComparisonOrderingAttr(ComparisonOrdering.ORDERED)
    return kernel.add(
        ct.CmpFOp, [lhs, rhs], BOOL, comparison_predicate=asked, comparison_ordering=order
    )


def argument_kernel(
    type: Any, shape: tuple[int, ...], dim: int, wanted: ComparisonPredicate, last: bool = False
) -> Kernel:
    """Places of extremes, as cuTile Python writes them: numbers win over NaNs, then lower places.

    `last`: the higher place of equal numbers.
    """
    kernel = Kernel(PointerType(type), PointerType(i32))
    tile = kernel.load(kernel.args[0], shape)
    places = kernel.add(ct.IotaOp, [], TileType(i32, (shape[dim],)))
    spread = [1] * len(shape)
    spread[dim] = shape[dim]
    places = kernel.add(ct.ReshapeOp, [places], TileType(i32, tuple(spread)))
    places = kernel.add(ct.BroadcastOp, [places], TileType(i32, shape))

    def body(a: Any, b: Any, i: Any, j: Any) -> None:
        both = [compare(kernel, EQUAL, a, b, type), compare(kernel, wanted, a, b, type)]
        order = compare(kernel, GREATER if last else LESS, i, j, i32)
        same, takes = both
        if type != i32:
            a_is, b_is = (compare(kernel, EQUAL, each, each, type) for each in (a, b))
            true = kernel.constant(i1, 1)
            a_nan, b_nan = (kernel.add(ct.XOrIOp, [each, true], BOOL) for each in (a_is, b_is))
            alone = kernel.add(ct.AndIOp, [a_is, b_nan], BOOL)
            takes = kernel.add(ct.OrIOp, [takes, alone], BOOL)
            same = kernel.add(ct.OrIOp, [same, kernel.add(ct.AndIOp, [a_nan, b_nan], BOOL)], BOOL)
        takes = kernel.add(ct.OrIOp, [takes, kernel.add(ct.AndIOp, [same, order], BOOL)], BOOL)
        chosen = kernel.add(ct.SelectOp, [takes, a, b], TileType(type))
        place = kernel.add(ct.SelectOp, [takes, i, j], TileType(i32))
        kernel.add(ct.YieldOp, [[chosen, place]])

    kinds = [TileType(type)] * 2 + [TileType(i32)] * 2
    identity = IntegerAttr(0, i32) if type == i32 else FloatBitsAttr(0, type)
    left = shape[:dim] + shape[dim + 1 :]
    results = kernel.add(
        ct.ReduceOp,
        [[tile, places]],
        [[TileType(type, left), TileType(i32, left)]],
        [kernel.region(kinds, body)],
        dim=IntegerAttr(dim, i32),
        identities=ArrayAttr([identity, IntegerAttr(0, i32)]),
    )
    kernel.store(kernel.args[1], results[1])
    return kernel


def awkward(type: Any, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Few different numbers, zeros of both signs, NaNs; the first row has NaNs only."""
    generator = np.random.default_rng(3)
    data = generator.integers(-3, 4, shape).astype(NUMPY[type])
    if type == i32:
        return data
    data = np.where(data == 3, np.nan, data)
    data = np.where((data == 0) & (generator.random(shape) < 0.5), -0.0, data).astype(NUMPY[type])
    rows = np.moveaxis(data, dim, 0).reshape(shape[dim], -1)
    rows[:, 0] = np.nan
    rows[:, -1] = np.where(np.arange(shape[dim]) % 2, 0.0, -0.0)
    back = rows.reshape(shape[dim], *(s for d, s in enumerate(shape) if d != dim))
    return np.ascontiguousarray(np.moveaxis(back, 0, dim))


def check(kernel: Kernel, data: np.ndarray, dim: int) -> str:
    """Simulation and interpreter agree; the text of the lowered module."""
    left = tuple(size for d, size in enumerate(data.shape) if d != dim)
    wanted, found = np.zeros(left, np.int32), np.full(left, -1, np.int32)
    kernel.run(data.copy(), wanted)
    module = lower_to_llvm(kernel.module)
    run_lowered(module, [data.copy(), found])
    np.testing.assert_array_equal(found, wanted)
    return str(module)


SHAPES = [((2048,), 0), ((4, 1024), 1), ((64, 64), 0), ((64, 64), 1), ((4, 8, 64), 2), ((8, 4), 1)]


@pytest.mark.parametrize("wanted", [GREATER, LESS])
@pytest.mark.parametrize("type", [f32, f16, i32])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_first_place_of_the_extreme(shape, dim, type, wanted):
    check(argument_kernel(type, shape, dim, wanted), awkward(type, shape, dim), dim)


@pytest.mark.parametrize("type", [f32, f16])
@pytest.mark.parametrize(
    "numbers", [{}, {12345: 1.0}, {7: -np.inf, 9: -np.inf}, {0: 0.0, 300: -0.0}]
)
def test_many_elements_of_a_thread_are_read_once(numbers, type):
    """Of NaNs alone the first place is taken; any number wins over them."""
    data = np.full(32768, np.nan, NUMPY[type])
    for place, number in numbers.items():
        data[place] = number
    check(argument_kernel(type, data.shape, 0, GREATER), data, 0)


@pytest.mark.parametrize(
    ("type", "size", "steps"),
    [(f32, 32768, 15), (i32, 32768, 15), (f16, 16384, 7), (f32, 16384, 0), (i32, 2048, 0)],
)
def test_few_words_are_there_at_once(type, size, steps):
    """Others are compared with what the lanes have so far, step by step."""
    text = check(argument_kernel(type, (size,), 0, LESS), awkward(type, (size,), 0), 0)
    assert text.count('predicate = "ne"' if type == i32 else 'predicate = "une"') == steps


@pytest.mark.parametrize(
    ("type", "wanted", "name"),
    [(f32, GREATER, "maxnum"), (f16, LESS, "minnum"), (i32, GREATER, "smax")],
)
def test_threads_find_the_extreme_by_one_instruction_each(type, wanted, name):
    text = check(argument_kernel(type, (2048,), 0, wanted), awkward(type, (2048,), 0), 0)
    assert f"llvm.{name}" in text


def test_the_last_place_is_found_by_the_body():
    """Only a body that takes the lower of two places has what is found first from below."""
    kernel = argument_kernel(f32, (2048,), 0, GREATER, last=True)
    assert "llvm.maxnum" not in check(kernel, awkward(f32, (2048,), 0), 0)
