"""Decides which matrix products are computed in parts, and in how many.

What counts is what is live with a product: accumulators of the products of its loop, carried
tiles, left operands that are computed. Operands that are loaded come through shared memory.

    256x256 f32                    65536 words   -> 2 parts of 128x256
    256x128 of attention, D = 128  65536         -> 2 parts of 128 rows
    128x256, 256x128 f32           32768         stays whole
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from tileiras.analysis.register_pressure import Live, live_at_products, tensor_words
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.planning.hints import integer_hint
from tileiras.planning.tiling.product_cut import ProductCut
from tileiras.planning.tiling.product_region import LOADS, ProductRegion, find_region
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.planning.model.dots import WgmmaDot

MAX_LIVE_WORDS = 176
"""Policy: registers of a thread for what is live with a product: of 255, or of 232 beside a
producer.
"""
MAX_ACCUMULATORS = 128
"""Policy: registers of a thread for one product's result."""
THREADS = 256
"""Policy: two warpgroups, or the eight warps among which the registers of an SM are divided."""
MAX_EXTENT = 256
"""Fixed: of a part: what one instruction and one bulk copy take."""
MAX_PARTS = 32
"""Policy: parts at most: each is written out, or a trip of a loop."""

CLUSTER_SIZES = (2, 4)
"""Policy: CTAs among which the parts of a tile may be divided."""
PAIRED_SIZES = (*CLUSTER_SIZES, 8, 16)
"""Policy: the same where they multiply in pairs, so that each gets half of what the others read."""
PRODUCT_WORDS = 8192
"""Policy: words of a product's result from which on it is looked at, with what is live beside it.
"""
SLICING = "tileas-slicing"
"""The pass that this is the work of, whoever asks for it."""


@dataclass(frozen=True)
class _Choice:
    """A region to be built; smaller `rank` is better."""

    rank: tuple[int, int, int]
    region: ProductRegion


def split_products(
    func: aa.FuncOp,
    ctas: int,
    max_extent: int | None = None,
    *,
    target: GpuTarget | None = None,
) -> list[str]:
    """Splits products until all fit, or those that do not cannot be split; says what was done.

    The CTAs of a cluster may share the parts: `ctas` is how many are asked for, 1 for none.
    With `max_extent` results with more rows or columns do not fit, either. `target` decides
    between parts that are as good otherwise.
    """
    done: list[str] = []
    settled: dict[aa.ProductOp, None] = {}
    while True:
        live = live_at_products(func.body.block)
        large = (d for d in live if _is_too_large(d, live) or is_longer(d, max_extent))
        product = next((d for d in large if d not in settled), None)
        if product is None:
            return done
        if ctas > func.cluster_size:
            from tileiras.passes.nv_tileaa.divide_products import divide_product

            by_columns = _reads_columns(product, target)
            quality = partial(_quality, live)
            divided = divide_product(func, product, ctas, quality, by_columns=by_columns)
            if divided is not None:
                done.append(divided)
                continue
        choice = _best(product, live)
        if choice is None:
            settled[product] = None
        else:
            from tileiras.passes.nv_tileaa.product_loops import build_part_loop

            done.append(_described(product, choice.region.cut))
            build_part_loop(choice.region)


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
            quality = None if region is None else _quality(live, [region.cut])
            if region is not None and quality is not None:
                found.append(_Choice((quality, parts, dim), region))
        parts *= 2
    return min(found, key=lambda choice: choice.rank, default=None)


def _quality(live: dict[aa.ProductOp, Live], cuts: Sequence[ProductCut]) -> int | None:
    """0 where everything fits; 1 where it is at least cut to whole warpgroups; else None."""
    from tileiras.passes.nv_tileaa.divide_products import ROWS, part_shape

    best = 0
    for value in cuts[0].flowing:
        if not isinstance(value.owner, aa.ProductOp):
            continue
        product, shape = value.owner, part_shape(cuts, value)
        rows, columns = shape[-2:]
        whole_rows = shape_of(value)[-2]
        if rows != whole_rows and rows % (ROWS // 2):
            return None
        threads = THREADS if rows % ROWS == 0 or len(shape) > 2 else THREADS // 2
        words = sum(
            size // prod(cut.parts for cut in cuts if held in cut.dims)
            for held, size in live[product].items()
        )
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
    from tileiras.passes.nv_tileaa.divide_products import part_shape

    whole, part = shape_of(product.result), part_shape([cut], product.result)
    texts = ["x".join(map(str, shape)) for shape in (whole, part)]
    return f"product of {texts[0]} in {cut.parts} parts of {texts[1]}"


def has_large_product(func: Operation) -> bool:
    """Whether any product may be worth splitting, alone or with others."""
    results = [op.result for op in func.walk() if isinstance(op, aa.ProductOp)]
    return any(tensor_words(result.type) >= PRODUCT_WORDS for result in results)


def asked_ctas(func: aa.FuncOp, target: GpuTarget | None) -> int:
    """CTAs of a cluster that may divide a tile; 1 where there are no clusters.

    As many as the author wants; in pairs no more than every launch allows, unless this one does
    (`TILEIR_LARGE_CLUSTERS`). Where he does not say, the two of a pair that multiplies together, in
    a kernel of one product: loops over parts load operands of tcgen05 once for each; of wgmma two,
    where `is_divided_unasked`.
    """
    asked = integer_hint(func, "num_cta_in_cga")
    if target is None or not target.has(Feature.CLUSTER_LAUNCH):
        return 1
    if asked is None and target.has(Feature.TCGEN05):
        products = sum(isinstance(op, aa.ProductOp) for op in func.walk())
        return CLUSTER_SIZES[0] if products == 1 else 1
    sizes = CLUSTER_SIZES
    if asked is not None and target.has(Feature.TCGEN05):
        sizes, asked = PAIRED_SIZES, min(asked, target.max_cluster)
    if asked in (None, 1) and is_divided_unasked(func, target):
        return CLUSTER_SIZES[0]
    if asked is None or asked not in sizes:
        return 1
    return asked


def is_divided_unasked(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether a cluster of two divides the tile of a kernel that has not asked for it, or for one.

    One tile a tile block, of one product of wgmma, for which a CTA has no registers and two have.
    In parts one after the other a CTA takes twice as long for it; whoever says 1 says so for a CTA
    that holds the tile. Such clusters go through the tiles of the grid (`form-clusters`), so that
    large grids lose nothing.
    """
    if not target.has(Feature.WGMMA) or not target.has(Feature.TMA):
        return False
    products = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    if len(products) != 1 or func.cluster_size > 1:
        return False
    live = sum(live_at_products(func.body.block)[products[0]].values())
    most = MAX_LIVE_WORDS * THREADS
    if not most < live <= CLUSTER_SIZES[0] * most:
        return False
    from tileiras.planning.operands.tma import is_by_tma
    from tileiras.planning.tile_scheduler.communication import may_communicate
    from tileiras.planning.tile_scheduler.joinable import (
        is_plain,
        is_repeatable,
        may_loop_over_tiles,
    )

    planned = _planned(products[0])
    if planned is None or not is_plain(planned) or not may_loop_over_tiles(func):
        return False
    loads = [op for op in func.walk() if isinstance(op, LOADS)]
    if not all(isinstance(op, aa.TiledLoadOp) and is_by_tma(op) for op in loads):
        return False
    return all(is_repeatable(op) and not may_communicate(op) for op in func.walk())


def _reads_columns(product: aa.ProductOp, target: GpuTarget | None) -> bool:
    """Whether threads read the columns of a product to be the rows of instructions.

    With half of the columns, and all rows, each fragment that they read serves all rows.
    """
    if target is None or not target.has(Feature.WGMMA):
        return False
    planned = _planned(product)
    return planned is not None and planned.fragments == "rhs"


def _planned(product: aa.ProductOp) -> WgmmaDot | None:
    """How wgmma computes a product, None if it does not."""
    from tileiras.planning.mma.wgmma_dots import wgmma_dot

    planned = wgmma_dot(product) if isinstance(product, aa.DotOp) else ""
    return None if isinstance(planned, str) else planned


def tiling_remark(func: aa.FuncOp, text: str) -> Remark:
    """What became of a product or loop."""
    return remark_about(func, SLICING, "Tiling", text)
