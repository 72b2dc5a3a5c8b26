"""Steps of random programs: loops that are left from within, nested loops with conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kernels.exact_program import Held
from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED
from tests.kernels.random_programs import INTEGERS, i1, i32
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, ComparisonPredicateAttr
from tileiras.dialects.cuda_tile.types import TileType as Tile

if TYPE_CHECKING:
    from tests.gpu.differential.programs import WideGenerator

INT = Tile(i32)


def _compared(g: WideGenerator, predicate: str, a: Any, b: Any) -> Any:
    return g.kernel.add(
        ct.CmpIOp,
        [a, b],
        Tile(i1),
        comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate(predicate)),
        signedness=SIGNED,
    )


def _next(g: WideGenerator, step: Any) -> Any:
    one = g.kernel.constant(i32, 1)
    return g.kernel.add(ct.AddIOp, [step, one], INT, overflow=NO_OVERFLOW)


def left_loop(g: WideGenerator) -> Held | None:
    """A loop without bounds, left after a number of rounds that depends on the block."""
    held = g.pick(lambda tile: tile.element in INTEGERS)
    if held is None:
        return None
    type_, rounds = held.value.type, g.kernel.constant(i32, g.random.randrange(4))
    end = g.kernel.add(ct.AddIOp, [rounds, g.block_id], INT, overflow=NO_OVERFLOW)
    skips = g.random.random() < 0.5

    def body(step: Any, carried: Any) -> None:
        outside = list(g.live)
        done = _compared(g, "greater_than_or_equal", step, end)
        leave = g.kernel.region([], lambda: g.kernel.add(ct.BreakOp, [[carried, step]]))
        g.kernel.add(ct.IfOp, [done], [[]], [leave, g.kernel.region([], None)])
        following = _next(g, step)
        if skips:
            one = g.kernel.constant(i32, 1)
            odd = g.kernel.add(ct.AndIOp, [step, one], INT)
            is_odd = _compared(g, "equal", odd, one)
            skip = g.kernel.region([], lambda: g.kernel.add(ct.ContinueOp, [[following, carried]]))
            g.kernel.add(ct.IfOp, [is_odd], [[]], [skip, g.kernel.region([], None)])
        inside = Held(carried, 0)
        g.live.append(inside)
        result = g.combined(inside, g.like(inside)).value
        g.live = outside
        g.kernel.add(ct.ContinueOp, [[following, result]])

    zero = g.kernel.constant(i32, 0)
    region = g.kernel.region([INT, type_], body)
    results = g.kernel.add(ct.LoopOp, [[zero, held.value]], [[type_, INT]], [region])
    g.live.append(Held(results[1], 0))
    return Held(results[0], 0)


def nested_loop(g: WideGenerator) -> Held | None:
    """A loop in a loop, with a condition in the inner one; two tiles are carried."""
    held = g.pick(lambda tile: tile.element in INTEGERS)
    if held is None:
        return None
    other, type_ = g.like(held), held.value.type
    first, one = g.kernel.constant(i32, g.random.randrange(-2, 1)), g.kernel.constant(i32, 1)
    outer_end, inner_end = g.kernel.constant(i32, 2), g.block_id

    def combined(a: Any, b: Any) -> Any:
        return g.combined(Held(a, 0), Held(b, 0)).value

    def inner(index: Any, carried: Any) -> None:
        outside = list(g.live)
        then = g.kernel.region(
            [], lambda: g.kernel.add(ct.YieldOp, [[combined(carried, held.value)]])
        )
        otherwise = g.kernel.region([], lambda: g.kernel.add(ct.YieldOp, [[carried]]))
        is_first = _compared(g, "equal", index, first)
        result = g.kernel.add(ct.IfOp, [is_first], [[type_]], [then, otherwise])
        g.live = outside
        g.kernel.add(ct.ContinueOp, [[result]])

    def outer(index: Any, a: Any, b: Any) -> None:
        region = g.kernel.region([INT, type_], inner)
        found = g.kernel.add(ct.ForOp, [first, inner_end, one, [a]], [[type_]], [region])
        g.kernel.add(ct.ContinueOp, [[b, combined(found, b)]])

    region = g.kernel.region([INT, type_, type_], outer)
    bounds = [first, outer_end, one]
    results = g.kernel.add(
        ct.ForOp, [*bounds, [held.value, other.value]], [[type_, type_]], [region]
    )
    g.live.append(Held(results[0], 0))
    return Held(results[1], 0)


STEPS: tuple[tuple[Callable[[Any], Held | None], int], ...] = ((left_loop, 2), (nested_loop, 2))
"""Steps and how often each is chosen."""
