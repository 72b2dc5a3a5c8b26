"""Steps of random programs: products of many types, insertions, repacking, reductions of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f16,
    f32,
    f64,
    tf32,
)

from tests.gpu.differential.arithmetic_steps import count_of
from tests.kernels.exact_program import EXACT_UP_TO, Held
from tests.kernels.kernel_builder import SIGNED, UNSIGNED, rounding
from tests.kernels.random_programs import INTEGERS, MAX_ELEMENTS, i1, i8, i32
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, ComparisonPredicateAttr
from tileiras.dialects.cuda_tile.types import TileType as Tile

if TYPE_CHECKING:
    from tests.gpu.differential.programs import WideGenerator

EXACT_PRODUCTS = {f8E4M3FN: 16, f8E5M2: 8, f16: 2**8, bf16: 2**8, tf32: 2**8, f64: 2**20}
"""Types of factors, and the whole numbers that they all hold and whose sums stay exact."""
MOST_K = 256


def _reshaped(g: WideGenerator, held: Held, dims: tuple[int, ...]) -> Any:
    if held.shape == dims:
        return held.value
    return g.kernel.add(ct.ReshapeOp, [held.value], Tile(held.element, dims))


def _matrix_shape(g: WideGenerator, count: int) -> tuple[int, int, int] | None:
    """Batch, rows and columns of so many elements."""
    if count < 8:
        return None
    bits = count.bit_length() - 1
    batch = g.random.choice((0, 0, 0, 1)) if bits > 5 else 0
    rows = g.random.randrange(1, bits - batch)
    return 1 << batch, 1 << rows, 1 << (bits - batch - rows)


def _transposed(g: WideGenerator, value: Any) -> Any:
    """The last two dims exchanged."""
    shape = value.type.shape
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    result = Tile(value.type.element_type, [shape[dim] for dim in order])
    permutation = DenseArrayBase.from_list(i32, order)
    return g.kernel.add(ct.PermuteOp, [value], result, permutation=permutation)


def float_product(g: WideGenerator) -> Held | None:
    """A product of a tile and its transpose, in any type of factors, perhaps batched."""
    held = g.pick(lambda tile: tile.is_float and tile.size <= 2**8 and count_of(tile.shape) >= 8)
    if held is None:
        return None
    dims = _matrix_shape(g, count_of(held.shape))
    fitting = [t for t, most in EXACT_PRODUCTS.items() if held.size <= most]
    if dims is None or dims[2] > MOST_K or not fitting or dims[1] ** 2 * dims[0] > MAX_ELEMENTS:
        return None
    factor = g.random.choice(fitting)
    total = f64 if factor == f64 else f16 if factor == f16 and g.random.random() < 0.3 else f32
    size = held.size**2 * dims[2]
    if size > EXACT_UP_TO[total]:
        return None
    batch, rows, _ = dims
    left = _reshaped(g, held, dims if batch > 1 else dims[1:])
    if held.element != factor:
        result = Tile(factor, left.type.shape)
        left = g.kernel.add(ct.FToFOp, [left], result, rounding_mode=rounding())
    shape = (batch, rows, rows) if batch > 1 else (rows, rows)
    zero = g.kernel.constant(total, 0, shape)
    return Held(g.kernel.add(ct.MmaFOp, [left, _transposed(g, left), zero], zero.type), size)


def integer_product(g: WideGenerator) -> Held | None:
    """A product of bytes, signed or not."""
    held = g.pick(lambda tile: tile.element == i8 and count_of(tile.shape) >= 8)
    if held is None:
        return None
    dims = _matrix_shape(g, count_of(held.shape))
    if dims is None or dims[1] ** 2 * dims[0] > MAX_ELEMENTS:
        return None
    batch, rows, _ = dims
    left = _reshaped(g, held, dims if batch > 1 else dims[1:])
    shape = (batch, rows, rows) if batch > 1 else (rows, rows)
    start = g.kernel.constant(i32, g.random.choice((0, -5)), shape)
    signs = {f"signedness_{side}": g.random.choice((SIGNED, UNSIGNED)) for side in ("lhs", "rhs")}
    operands = [left, _transposed(g, left), start]
    return Held(g.kernel.add(ct.MmaIOp, operands, start.type, **signs), 0)


def insertion(g: WideGenerator) -> Held | None:
    """A part of a tile replaced by another."""
    held = g.pick(lambda tile: len(tile.shape) > 0 and tile.element != i1)
    if held is None:
        return None
    dims = [dim for dim, size in enumerate(held.shape) if size > 1]
    if not dims:
        return None
    dim = g.random.choice(dims)
    shape = tuple(s // 2 if d == dim else s for d, s in enumerate(held.shape))
    index = [g.kernel.constant(i32, 0) for _ in shape]
    index[dim] = g.block_id
    part = g.kernel.constant(held.element, g.random.randint(0, 3), shape)
    value = g.kernel.add(ct.InsertOp, [part, held.value, index], held.value.type)
    return Held(value, max(held.size, 3 if held.is_float else 0))


def repacking(g: WideGenerator) -> Held | None:
    """The bytes of integers as other integers."""
    held = g.pick(lambda tile: tile.element in INTEGERS and tile.element != i8)
    if held is None:
        return None
    count, width = count_of(held.shape), held.element.width.data // 8  # pyright: ignore
    flat = _reshaped(g, held, (count,))
    if count * width > MAX_ELEMENTS:
        return None
    packed = g.kernel.add(ct.PackOp, [flat], Tile(i8, (count * width,)))
    if g.random.random() < 0.5:
        return Held(packed, 0)
    target = g.random.choice([t for t in INTEGERS if t != i8])
    size = target.width.data // 8
    if count * width < size:
        return None
    result = Tile(target, (count * width // size,))
    return Held(g.kernel.add(ct.UnpackOp, [packed], result), 0)


def extreme_with_index(g: WideGenerator) -> Held | None:
    """The largest number of each row together with where it stands."""
    held = g.pick(lambda tile: tile.element == i32 and len(tile.shape) > 0)
    if held is None:
        return None
    dim = g.random.randrange(len(held.shape))
    place = g.kernel.add(ct.IotaOp, [], Tile(i32, (held.shape[dim],)))
    ones = tuple(size if d == dim else 1 for d, size in enumerate(held.shape))
    place = g.kernel.add(ct.ReshapeOp, [place], Tile(i32, ones))
    place = g.kernel.add(ct.BroadcastOp, [place], Tile(i32, held.shape))
    rest = tuple(size for d, size in enumerate(held.shape) if d != dim)

    def body(a: Any, b: Any, at: Any, bt: Any) -> None:
        def compared(predicate: ComparisonPredicate, x: Any, y: Any) -> Any:
            return g.kernel.add(
                ct.CmpIOp,
                [x, y],
                Tile(i1),
                comparison_predicate=ComparisonPredicateAttr(predicate),
                signedness=SIGNED,
            )

        greater = compared(ComparisonPredicate.GREATER_THAN, a, b)
        same = compared(ComparisonPredicate.EQUAL, a, b)
        first = compared(ComparisonPredicate.LESS_THAN, at, bt)
        both = g.kernel.add(ct.AndIOp, [same, first], Tile(i1))
        take = g.kernel.add(ct.OrIOp, [greater, both], Tile(i1))
        value = g.kernel.add(ct.SelectOp, [take, a, b], Tile(i32))
        index = g.kernel.add(ct.SelectOp, [take, at, bt], Tile(i32))
        g.kernel.add(ct.YieldOp, [[value, index]])

    region = g.kernel.region([Tile(i32)] * 4, body)
    results = g.kernel.add(
        ct.ReduceOp,
        [[held.value, place]],
        [[Tile(i32, rest), Tile(i32, rest)]],
        [region],
        dim=IntegerAttr(dim, i32),
        identities=ArrayAttr([IntegerAttr(-(2**31), i32), IntegerAttr(2**31 - 1, i32)]),
    )
    g.live.append(Held(results[0], 0))
    return Held(results[1], 0)


STEPS: tuple[tuple[Callable[[Any], Held | None], int], ...] = (
    (float_product, 3),
    (integer_product, 2),
    (insertion, 2),
    (repacking, 2),
    (extreme_with_index, 2),
)
"""Steps and how often each is chosen."""
