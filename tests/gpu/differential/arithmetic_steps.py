"""Steps of random programs: mathematical functions, roundings, integers, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, f64

from tests.kernels.exact_program import Held
from tests.kernels.kernel_builder import NO_OVERFLOW, SIGNED, UNIT, UNSIGNED, rounding
from tests.kernels.random_programs import INTEGERS, i1, i8, i32, i64
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.types import TileType as Tile

if TYPE_CHECKING:
    from tests.gpu.differential.programs import WideGenerator

LOOSE_ELEMENTS = 256
"""Of a tile whose expected elements travel to the GPU, and not a hash of them."""
DIRECTIONS = ("nearest_even", "zero", "negative_inf", "positive_inf")
NARROW_ULPS, DOUBLE_ULPS = 1.0, 2.0
"""Beside the bounds of docs/elementwise.md: f16 and bf16 round once what f32 has; the functions of
f64 in the interpreter are numpy's."""

FUNCTIONS: dict[str, tuple[Any, int, float, float]] = {
    "exp": (ct.ExpOp, 1, 2.5, 1),
    "exp2": (ct.Exp2Op, 1, 2.5, 1),
    "log": (ct.LogOp, 1, 1.5, 1),
    "log2": (ct.Log2Op, 1, 1.5, 2),
    "sin": (ct.SinOp, 1, 2.5, 2),
    "cos": (ct.CosOp, 1, 2.5, 2),
    "tan": (ct.TanOp, 1, 4.5, 2),
    "sinh": (ct.SinHOp, 1, 3.5, 2),
    "cosh": (ct.CosHOp, 1, 2.5, 2),
    "tanh": (ct.TanHOp, 1, 2.5, 1),
    "rsqrt": (ct.RsqrtOp, 1, 2.5, 1),
    "pow": (ct.FPowFOp, 2, 4.5, 2),
    "atan2": (ct.Atan2Op, 2, 3.5, 2),
}
"""Operation, operands, ulps for f32 and f64 (docs/elementwise.md and half an ulp)."""


def count_of(shape: tuple[int, ...]) -> int:
    """Elements of a tile."""
    return int(np.prod(shape, dtype=np.int64))


def _small_float(g: WideGenerator) -> Held | None:
    return g.pick(lambda tile: tile.is_float and count_of(tile.shape) <= LOOSE_ELEMENTS)


def fraction(g: WideGenerator, held: Held) -> Any:
    """The tile times a number that is no whole one: rounded once, the same everywhere."""
    factor = g.random.choice((0.3, -0.7, 1.1, 1 / 64, 3.75))
    scale = g.kernel.constant(held.element, factor, held.shape)
    return g.kernel.add(ct.MulFOp, [held.value, scale], held.value.type, rounding_mode=rounding())


def function(g: WideGenerator) -> None:
    """A mathematical function of a tile."""
    held = _small_float(g)
    if held is None:
        return
    name = g.random.choice((*FUNCTIONS, "fpowi"))
    source = fraction(g, held) if g.random.random() < 0.7 else held.value
    type_, properties = held.value.type, {}
    if name == "fpowi":
        exponent = g.kernel.constant(i32, g.random.choice((-3, 0, 2, 5)), held.shape)
        result, single, double = g.kernel.add(ct.FPowIOp, [source, exponent], type_), 4.5, 2.0
    else:
        op, arity, single, double = FUNCTIONS[name]
        if name in ("exp", "tanh"):
            properties["rounding_mode"] = rounding("full")
        operands = [source, fraction(g, g.like(held))] if arity == 2 else [source]
        result = g.kernel.add(op, operands, type_, **properties)
    ulps = {f32: single, f64: double + DOUBLE_ULPS}.get(held.element, NARROW_ULPS)  # pyright: ignore
    g.keep(result, ulps)


def approximation(g: WideGenerator) -> None:
    """The quick forms that f32 has."""
    held = g.pick(lambda tile: tile.element == f32 and count_of(tile.shape) <= LOOSE_ELEMENTS)
    if held is None:
        return
    source, type_ = fraction(g, held), held.value.type
    flush = UNIT if g.random.random() < 0.4 else None
    match g.random.randrange(5):
        case 0:
            result = g.kernel.add(ct.ExpOp, [source], type_, rounding_mode=rounding("approx"))
            g.keep(result, 66.5)
        case 1:
            result = g.kernel.add(ct.TanHOp, [source], type_, rounding_mode=rounding("approx"))
            g.keep(result, 2.0**13)
        case 2:
            mode = rounding("approx")
            squared = g.kernel.add(ct.AbsFOp, [source], type_)
            g.keep(
                g.kernel.add(ct.SqrtOp, [squared], type_, rounding_mode=mode, flush_to_zero=flush),
                1.5,
            )
        case 3:
            g.keep(g.kernel.add(ct.Exp2Op, [source], type_, flush_to_zero=flush), 2.5)
        case _:
            divisor = g.kernel.constant(f32, g.random.choice((3, -7, 0.1)), held.shape)
            mode = rounding(g.random.choice(("approx", "full")))
            g.keep(
                g.kernel.add(
                    ct.DivFOp, [source, divisor], type_, rounding_mode=mode, flush_to_zero=flush
                ),
                2.5,
            )


def rounded(g: WideGenerator) -> None:
    """An operation that rounds once, in any direction, perhaps of zeros, infinities and NaNs."""
    held = g.pick(lambda tile: tile.is_float)
    if held is None:
        return
    add, type_ = g.kernel.add, held.value.type
    a, b = fraction(g, held), special(g, held) if g.random.random() < 0.5 else g.like(held).value
    is_single = held.element == f32
    flush = UNIT if is_single and g.random.random() < 0.3 else None
    mode = rounding(g.random.choice(DIRECTIONS))
    properties = {"rounding_mode": mode, "flush_to_zero": flush}
    match g.random.randrange(8):
        case 0:
            result = add(ct.AddFOp, [special(g, held), b], type_, **properties)
        case 1:
            result = add(ct.SubFOp, [special(g, held), b], type_, **properties)
        case 2:
            result = add(ct.MulFOp, [a, b], type_, **properties)
        case 3:
            result = add(ct.DivFOp, [a, b], type_, **properties)
        case 4:
            result = add(ct.FmaOp, [a, b, g.like(held).value], type_, **properties)
        case 5:
            result = add(ct.SqrtOp, [a], type_, **properties)
        case 6:
            result = add(ct.RemFOp, [a, b], type_)
        case _:
            op = g.random.choice((ct.MinFOp, ct.MaxFOp))
            nan = UNIT if g.random.random() < 0.5 else None
            result = add(op, [a, b], type_, propagate_nan=nan, flush_to_zero=flush)
    g.keep(result)


def special(g: WideGenerator, held: Held) -> Any:
    """The tile with zeros of both signs, infinities, NaNs and subnormals among its elements."""
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -6e-8, 1.0])
    count = count_of(held.shape)
    chosen = np.resize(g.random.sample(list(values), len(values)), count).reshape(held.shape)
    tile = g.kernel.constant(held.element, chosen, held.shape)
    number = np.resize([1, 0, 0], count).reshape(held.shape)
    where = g.kernel.constant(i1, number, held.shape)
    return g.kernel.add(ct.SelectOp, [where, tile, held.value], held.value.type)


def whole_part(g: WideGenerator) -> None:
    """Ceilings, floors, signs of special numbers too."""
    held = g.pick(lambda tile: tile.is_float)
    if held is None:
        return
    source = fraction(g, held) if g.random.random() < 0.6 else special(g, held)
    op = g.random.choice((ct.CeilOp, ct.FloorOp, ct.AbsFOp, ct.NegFOp))
    g.keep(g.kernel.add(op, [source], held.value.type))


def compare_specials(g: WideGenerator) -> Held | None:
    """Any predicate, ordered or not, where NaNs meet numbers."""
    held = g.pick(lambda tile: tile.is_float)
    if held is None:
        return None
    predicate = ComparisonPredicateAttr(g.random.choice(tuple(ComparisonPredicate)))
    ordering = ComparisonOrderingAttr(g.random.choice(tuple(ComparisonOrdering)))
    result = g.kernel.add(
        ct.CmpFOp,
        [special(g, held), g.like(held).value],
        Tile(i1, held.shape),
        comparison_predicate=predicate,
        comparison_ordering=ordering,
    )
    return Held(result, 0)


def integers(g: WideGenerator) -> Held | None:
    """Division in every direction, products' high halves, shifts, absolute values."""
    held = g.pick(lambda tile: tile.element in INTEGERS)
    if held is None:
        return None
    add, type_, width = g.kernel.add, held.value.type, held.element.width.data  # pyright: ignore
    sign = g.random.choice((SIGNED, UNSIGNED))
    other = g.like(held).value
    match g.random.randrange(6):
        case 0 | 1:
            one = g.kernel.constant(held.element, 1, held.shape)
            seven = g.kernel.constant(held.element, 127, held.shape)
            low = add(ct.AndIOp, [other, seven], type_)
            divisor = add(ct.OrIOp, [low, one], type_)  # 1 to 127: no zero, no -1
            if g.random.random() < 0.3:
                result = add(ct.RemIOp, [held.value, divisor], type_, signedness=sign)
            else:
                mode = rounding(g.random.choice(("zero", "negative_inf", "positive_inf")))
                if sign == UNSIGNED and mode == rounding("negative_inf"):
                    mode = rounding("zero")
                result = add(
                    ct.DivIOp, [held.value, divisor], type_, signedness=sign, rounding=mode
                )
        case 2:
            result = add(ct.MulhiIOp, [held.value, other], type_)
        case 3:
            result = add(ct.AbsIOp, [held.value], type_)
        case _:
            most = g.kernel.constant(held.element, width - 1, held.shape)
            amount = add(ct.AndIOp, [other, most], type_)
            if g.random.random() < 0.5:
                result = add(ct.ShLIOp, [held.value, amount], type_, overflow=NO_OVERFLOW)
            else:
                result = add(ct.ShRIOp, [held.value, amount], type_, signedness=sign)
    return Held(result, 0)


def compare_integers(g: WideGenerator) -> Held | None:
    """Any predicate of integers."""
    held = g.pick(lambda tile: tile.element in INTEGERS)
    if held is None:
        return None
    result = g.kernel.add(
        ct.CmpIOp,
        [held.value, g.like(held).value],
        Tile(i1, held.shape),
        comparison_predicate=ComparisonPredicateAttr(g.random.choice(tuple(ComparisonPredicate))),
        signedness=g.random.choice((SIGNED, UNSIGNED)),
    )
    return Held(result, 0)


def conversion(g: WideGenerator) -> Held | None:
    """Conversions that round, saturate or keep bits."""
    held = g.pick(lambda tile: tile.element != i1)
    if held is None:
        return None
    add, shape = g.kernel.add, held.shape
    if held.is_float:
        source = fraction(g, held)
        if g.random.random() < 0.5 and held.size < 2**20:
            result = Tile(g.random.choice((i8, i32, i64) if held.size < 30 else (i32, i64)), shape)
            mode = rounding("nearest_int_to_zero")
            value = add(ct.FToIOp, [source], result, signedness=SIGNED, rounding_mode=mode)
            return Held(value, 0)
        others = [t for t in (f16, bf16, f32, f64, f8E4M3FN, f8E5M2) if t != held.element]
        target = g.random.choice(others)
        g.keep(add(ct.FToFOp, [source], Tile(target, shape), rounding_mode=rounding()))
        return None
    if g.random.random() < 0.4:
        same = {8: (f8E4M3FN,), 16: (f16, bf16), 32: (f32,), 64: (f64,)}
        width = held.element.width.data  # pyright: ignore
        through = Tile(g.random.choice(same[width]), shape)
        moved = add(ct.BitcastOp, [held.value], through)
        return Held(add(ct.BitcastOp, [moved], held.value.type), 0)
    target = g.random.choice((bf16, f16, f32, f64))
    sign = g.random.choice((SIGNED, UNSIGNED))
    properties = {"signedness": sign, "rounding_mode": rounding()}
    g.keep(add(ct.IToFOp, [held.value], Tile(target, shape), **properties))
    return None


STEPS: tuple[tuple[Callable[[Any], Held | None], int], ...] = (
    (function, 5),
    (approximation, 2),
    (rounded, 5),
    (whole_part, 2),
    (compare_specials, 2),
    (integers, 4),
    (compare_integers, 1),
    (conversion, 3),
)
"""Steps and how often each is chosen."""
