"""Decides which matrix products are computed in parts, and in how many.

What counts is what is live with a product: accumulators of the products of its loop, carried
tiles, left operands that are computed. Operands that are loaded come through shared memory.

    256x256 f32                    65536 words   -> 2 parts of 128x256
    256x128 of attention, D = 128  65536         -> 2 parts of 128 rows
    128x256, 256x128 f32           32768         stays whole
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, SSAValue

from tileiras.analysis.register_pressure import Live, live_at_products
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MemTokenType, shape_of
from tileiras.passes.nv_tileaa.product_loops import build_part_loop, divide_parts
from tileiras.planning.tiling.product_cut import ProductCut
from tileiras.planning.tiling.product_region import LOADS, ProductRegion, find_region, has_no_effect

Load = aa.LoadOp | aa.TiledLoadOp
MAX_LIVE_WORDS = 176
"""Policy: registers of a thread for what is live with a product: of 255, or of 232 beside a
producer.
"""
MAX_ACCUMULATORS = 128
"""Policy: registers of a thread for one product's result."""
THREADS = 256
"""Policy: two warpgroups, or the eight warps among which the registers of an SM are divided."""
ROWS = 128
"""Policy: rows of a part that keep two warpgroups of 64 rows busy."""
MAX_EXTENT = 256
"""Fixed: of a part: what one instruction and one bulk copy take."""
MAX_PARTS = 32
"""Policy: parts at most: each is written out, or a trip of a loop."""


@dataclass(frozen=True)
class _Choice:
    """A region to be built; smaller `rank` is better."""

    rank: tuple[int, int, int]
    region: ProductRegion


def split_products(func: aa.FuncOp, ctas: int, max_extent: int | None = None) -> list[str]:
    """Splits products until all fit, or those that do not cannot be split; says what was done.

    The CTAs of a cluster may share the parts: `ctas` is how many are asked for, 1 for none.
    With `max_extent` results with more rows or columns do not fit, either.
    """
    done: list[str] = []
    settled: dict[aa.ProductOp, None] = {}
    while True:
        live = live_at_products(func.body.block)
        large = (d for d in live if _is_too_large(d, live) or is_longer(d, max_extent))
        product = next((d for d in large if d not in settled), None)
        if product is None:
            return done
        if ctas > func.cluster_size and (divided := _divide(func, product, live, ctas)) is not None:
            done.append(divided)
            continue
        choice = _best(product, live)
        if choice is None:
            settled[product] = None
        else:
            done.append(_described(product, choice.region.cut))
            build_part_loop(choice.region)


def _divide(
    func: aa.FuncOp, product: aa.ProductOp, live: dict[aa.ProductOp, Live], ctas: int
) -> str | None:
    """Divides a product among the CTAs of a cluster, if all that is stored comes from it."""
    found: list[_Choice] = []
    for dim in range(len(shape_of(product.result))):
        region = find_region(product.result, dim, ctas)
        quality = None if region is None else _quality(region.cut, live)
        if region is not None and quality is not None and _is_all_divided(func, region):
            found.append(_Choice((quality, _odd_rows(region), dim), region))
    if not found:
        return None
    region = min(found, key=lambda choice: choice.rank).region
    text = f"{_described(product, region.cut)}, one for each CTA of a cluster"
    divide_parts(region, ctas)
    func.properties["cluster"] = IntegerAttr(ctas, i32)
    return text


def _odd_rows(region: ProductRegion) -> int:
    """0 where the parts of products keep two warpgroups busy."""
    cut = region.cut
    dots = [value for value in cut.flowing if isinstance(value.owner, aa.ProductOp)]
    return int(any(_part_shape(cut, value)[-2] % ROWS for value in dots))


def _part_shape(cut: ProductCut, value: SSAValue) -> list[int]:
    """The shape of a part of a value."""
    shape = list(shape_of(value))
    shape[cut.dims[value][0]] //= cut.parts
    return shape


def _is_all_divided(func: aa.FuncOp, region: ProductRegion) -> bool:
    """Whether nothing beside the parts has an effect, and the parts only store."""
    if any(isinstance(op, aa.ReduceOp) and op in region.cut.sinks for op in region.moved):
        return False
    inside = {inner: None for op in region.moved for inner in op.walk()}
    if not all(op in inside or has_no_effect(op) for op in func.walk()):
        return False
    loads = [op for op in func.walk() if isinstance(op, LOADS)]
    return not any(_needs_other_parts(load, load in inside, region) for load in loads)


def _needs_other_parts(load: Load, inside: bool, region: ProductRegion) -> bool:
    """Whether token order ties a load to stores that another CTA may make: nothing waits for it.

    Within one run of the parts they are in order; where loops carry tokens there may be others.
    """
    from tileiras.planning.memory_order import follows_write, precedes_write

    if follows_write(load):
        return True
    is_one_run = inside and not _tokens_are_carried(region.cut.block)
    return not is_one_run and precedes_write(load)


def _tokens_are_carried(block: Block) -> bool:
    """Whether a loop around a block hands tokens on from one iteration to the next."""
    parent = block.parent_op()
    while parent is not None:
        carried = parent.init_values if isinstance(parent, aa.ForOp | aa.LoopOp) else ()
        if any(isinstance(value.type, MemTokenType) for value in carried):
            return True
        parent = parent.parent_op()
    return False


def has_too_large(func: aa.FuncOp) -> bool:
    """Whether what is live with a product of the function is more than the registers hold."""
    live = live_at_products(func.body.block)
    return any(_is_too_large(product, live) for product in live)


def _is_too_large(product: aa.ProductOp, live: dict[aa.ProductOp, Live]) -> bool:
    """Whether the registers of an SM do not hold what is live."""
    return sum(live[product].values()) > MAX_LIVE_WORDS * THREADS


def is_longer(product: aa.ProductOp, extent: int | None) -> bool:
    """Whether a product's result has more rows or columns than `extent`, if that is given."""
    return extent is not None and max(shape_of(product.result)[-2:]) > extent


def _best(product: aa.ProductOp, live: dict[aa.ProductOp, Live]) -> _Choice | None:
    """The cut that makes all fit with the fewest parts; failing that, one that helps."""
    found: list[_Choice] = []
    parts = 2
    while parts <= MAX_PARTS and not any(choice.rank[0] == 0 for choice in found):
        for dim in range(len(shape_of(product.result))):
            region = find_region(product.result, dim, parts)
            quality = None if region is None else _quality(region.cut, live)
            if region is not None and quality is not None:
                found.append(_Choice((quality, parts, dim), region))
        parts *= 2
    return min(found, key=lambda choice: choice.rank, default=None)


def _quality(cut: ProductCut, live: dict[aa.ProductOp, Live]) -> int | None:
    """0 where everything fits; 1 where it is at least cut to whole warpgroups; else None."""
    best = 0
    for value in cut.flowing:
        if not isinstance(value.owner, aa.ProductOp):
            continue
        product, shape = value.owner, _part_shape(cut, value)
        rows, columns = shape[-2:]
        whole_rows = shape_of(value)[-2]
        if rows != whole_rows and rows % (ROWS // 2):
            return None
        threads = THREADS if rows % ROWS == 0 or len(shape) > 2 else THREADS // 2
        words = sum(w // (cut.parts if v in cut.dims else 1) for v, w in live[product].items())
        accumulators = rows * columns * (shape[0] if len(shape) > 2 else 1)
        fits = words <= MAX_LIVE_WORDS * threads and accumulators <= MAX_ACCUMULATORS * threads
        if fits and max(rows, columns) <= MAX_EXTENT:
            continue
        if rows % ROWS:
            return None
        best = 1
    return best


def _described(product: aa.ProductOp, cut: ProductCut) -> str:
    """The product and its parts, for a remark."""
    whole, part = shape_of(product.result), _part_shape(cut, product.result)
    texts = ["x".join(map(str, shape)) for shape in (whole, part)]
    return f"product of {texts[0]} in {cut.parts} parts of {texts[1]}"
