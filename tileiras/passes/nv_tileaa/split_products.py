"""Decides which matrix products are computed in parts, and in how many.

What counts is what is live with a product: accumulators of the products of its loop, carried
tiles, left operands that are computed. Operands that are loaded come through shared memory.

    256x256 f32                    65536 words   -> 2 parts of 128x256
    256x128 of attention, D = 128  65536         -> 2 parts of 128 rows
    128x256, 256x128 f32           32768         stays whole
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.analysis.register_pressure import Live, live_at_products
from tileiras.passes.nv_tileaa.product_cut import ProductCut
from tileiras.passes.nv_tileaa.product_loops import build_part_loop
from tileiras.passes.nv_tileaa.product_region import ProductRegion, find_region
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


def split_products(func: aa.FuncOp) -> list[str]:
    """Splits products until all fit, or those that do not cannot be split; says what was done."""
    done: list[str] = []
    settled: dict[aa.DotOp, None] = {}
    while True:
        live = live_at_products(func.body.block)
        product = next((d for d in live if d not in settled and _is_too_large(d, live)), None)
        if product is None:
            return done
        choice = _best(product, live)
        if choice is None:
            settled[product] = None
        else:
            done.append(_described(product, choice.region.cut))
            build_part_loop(choice.region)


def _is_too_large(product: aa.DotOp, live: dict[aa.DotOp, Live]) -> bool:
    """Whether the registers of an SM do not hold what is live."""
    return sum(live[product].values()) > MAX_LIVE_WORDS * THREADS


def _best(product: aa.DotOp, live: dict[aa.DotOp, Live]) -> _Choice | None:
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


def _described(product: aa.DotOp, cut: ProductCut) -> str:
    """The product and its parts, for a remark."""
    whole = shape_of(product.result)
    part = list(whole)
    part[cut.dims[product.result][0]] //= cut.parts
    texts = ["x".join(map(str, shape)) for shape in (whole, part)]
    return f"product of {texts[0]} in {cut.parts} parts of {texts[1]}"
