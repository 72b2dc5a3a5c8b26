"""Decides which matrix products are computed in parts, and in how many.

What counts is what is live with a product: accumulators of the products of its loop, carried
tiles, left operands that are computed. Operands that are loaded come through shared memory.

    256x256 f32                    65536 words   -> 2 parts of 128x256
    256x128 of attention, D = 128  65536         -> 2 parts of 128 rows
    128x256, 256x128 f32           32768         stays whole
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.analysis.register_pressure import Live, live_at_products
from tileiras.passes.nv_tileaa.part_loops import can_combine
from tileiras.passes.nv_tileaa.product_cut import CannotCutError, ProductCut, Seed
from tileiras.passes.nv_tileaa.product_loops import build_part_loop
from tileiras.passes.nv_tileaa.product_region import ProductRegion, region_of
from tileiras.passes.nv_tileaa.slicing import shape_of

MAX_LIVE_WORDS = 176
"""Registers of a thread for what is live with a product: of 255, or of 232 beside a producer."""
MAX_ACCUMULATORS = 128
"""Registers of a thread for one product's result."""
THREADS = 256
"""Two warpgroups, or the eight warps among which the registers of an SM are divided."""
ROWS = 128
"""Rows of a part that keep two warpgroups of 64 rows busy."""
MAX_EXTENT = 256
"""Of a part: what one instruction and one bulk copy take."""
MAX_PARTS = 32


@dataclass(frozen=True)
class _Choice:
    """A region to be built; smaller `rank` is better."""

    rank: tuple[int, int, int]
    region: ProductRegion


def split_products(func: aa.FuncOp) -> None:
    """Splits products until all fit, or those that do not cannot be split."""
    settled: dict[aa.DotOp, None] = {}
    while True:
        live = live_at_products(func.body.block)
        product = next((d for d in live if d not in settled and _is_too_large(d, live)), None)
        if product is None:
            return
        choice = min(_choices(product, live), key=lambda choice: choice.rank, default=None)
        if choice is None:
            settled[product] = None
        else:
            build_part_loop(choice.region)


def _is_too_large(product: aa.DotOp, live: dict[aa.DotOp, Live]) -> bool:
    """Whether the registers of an SM do not hold what is live."""
    return sum(live[product].values()) > MAX_LIVE_WORDS * THREADS


def _choices(product: aa.DotOp, live: dict[aa.DotOp, Live]) -> Iterator[_Choice]:
    """The cuts that help, fewest parts first, along the rows rather than the columns."""
    rank = len(shape_of(product.result))
    parts = 2
    while parts <= MAX_PARTS:
        for dim in range(rank):
            region = _try(product, dim, parts)
            if region is None:
                continue
            if (quality := _quality(region.cut, live)) is not None:
                yield _Choice((quality, parts, dim), region)
        parts *= 2


def _quality(cut: ProductCut, live: dict[aa.DotOp, Live]) -> int | None:
    """0 where everything fits; 1 where it is at least cut to whole warpgroups; else None."""
    best = 0
    for value in cut.flowing:
        if not isinstance(value.owner, aa.DotOp):
            continue
        product, shape = value.owner, list(shape_of(value))
        shape[cut.dims[value][0]] //= cut.parts
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


def _try(product: aa.DotOp, dim: int, parts: int) -> ProductRegion | None:
    """The region of a cut, in the innermost block in which it is possible."""
    block = product.parent_block()
    while block is not None and not isinstance(block.parent_op(), aa.ReduceOp | aa.ScanOp):
        region = _region(block, [(product.result, dim)], parts)
        if region is not None:
            return region
        parent = block.parent_op()
        block = None if parent is None else parent.parent_block()
        if parent is None or isinstance(parent, aa.FuncOp):
            return None
    return None


def _region(block: Block, seeds: list[Seed], parts: int) -> ProductRegion | None:
    """The region of a cut of one block; products beside the first are cut, too."""
    cut = ProductCut(block, parts, can_combine)
    try:
        cut.cut(seeds)
        uncut = _uncut_product(cut)
        if uncut is None:
            return region_of(cut)
    except CannotCutError:
        return None
    others = (0, 1) if seeds[0][1] == 0 else (1, 0)
    for dim in others:
        region = _region(block, [*seeds, (uncut, dim)], parts)
        if region is not None:
            return region
    return None


def _uncut_product(cut: ProductCut) -> SSAValue | None:
    """A product that all parts would compute, were it not cut."""
    for op in cut.block.ops:
        if op.regions and cut.has_cut(op):
            for inner in op.walk():
                if isinstance(inner, aa.DotOp) and inner.result not in cut.dims:
                    return inner.result
    return None
