"""Divides a product among the CTAs of a cluster, along its rows, its columns, or both.

    1024x256, 8 CTAs   8 rows of CTAs      128x256 each; all read the same right operand
    512x512, 8 CTAs    4 rows, 2 columns   128x256 each; two read the same left operand

Together CTAs read rows + columns for each step of K, so that a square tile reads least of all. CTA
`rank` has row `rank % rows`: neighbours, which may multiply as a pair, have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MemTokenType, shape_of
from tileiras.errors import InternalError
from tileiras.planning.tiling.product_cut import ProductCut
from tileiras.planning.tiling.product_region import LOADS, ProductRegion, find_region, has_no_effect

if TYPE_CHECKING:
    from tileiras.passes.nv_tileaa.product_loops import Ranks

Load = aa.LoadOp | aa.TiledLoadOp
Quality = Callable[[Sequence[ProductCut]], int | None]
"""How well parts fit: smaller is better, 0 where all do; None where they must not be taken."""
ROWS = 128
"""Policy: rows of a part that keep two warpgroups of 64 rows busy."""


@dataclass(frozen=True)
class Division:
    """Dims of a product with the number of CTAs along each, the ones next to each other first."""

    ctas: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """CTAs of the cluster."""
        size = 1
        for _, count in self.ctas:
            size *= count
        return size

    def ranks(self, number: int) -> Ranks:
        """Where CTAs stand along the dim of this number."""
        from tileiras.passes.nv_tileaa.product_loops import Ranks

        stride = 1
        for _, count in self.ctas[:number]:
            stride *= count
        return Ranks(self.ctas[number][1], stride, self.size)


def divide_product(
    func: aa.FuncOp, product: aa.ProductOp, ctas: int, quality: Quality, *, by_columns: bool = False
) -> str | None:
    """Divides a product if all that is stored comes from it; says what was done, if anything.

    `by_columns`: rather along columns than along rows, where both are as good otherwise.
    """
    found: list[tuple[tuple[int, int, int, int], Division]] = []
    for division in _divisions(product, ctas):
        regions = _regions(func, product, division)
        if regions is None:
            continue
        cuts = [region.cut for region in regions]
        if not _go_together(cuts):
            continue
        fits = quality(cuts)
        if fits is not None:
            found.append((_rank(product, division, cuts, fits, by_columns), division))
    if not found:
        return None
    _, division = min(found, key=lambda item: item[0])
    whole = "x".join(map(str, shape_of(product.result)))
    part = _divide(func, product, division)
    func.properties["cluster"] = IntegerAttr(ctas, i32)
    shape = "x".join(map(str, shape_of(part.result)))
    return f"product of {whole} in {ctas} parts of {shape}, one for each CTA of a cluster"


def _divisions(product: aa.ProductOp, ctas: int) -> list[Division]:
    """Along one dim; along rows and columns."""
    rank = len(shape_of(product.result))
    found = [Division(((dim, ctas),)) for dim in range(rank)]
    rows = ctas // 2
    while rows > 1:
        found.append(Division(((rank - 2, rows), (rank - 1, ctas // rows))))
        rows //= 2
    return found


def _rank(
    product: aa.ProductOp,
    division: Division,
    cuts: Sequence[ProductCut],
    fits: int,
    by_columns: bool,
) -> tuple[int, int, int, int]:
    """What fits comes first, then what keeps two warpgroups busy; then what a product reads least
    of for its flops, with most rows of CTAs, or most columns.
    """
    dots = [value for value in cuts[0].flowing if isinstance(value.owner, aa.ProductOp)]
    has_odd = any(part_shape(cuts, value)[-2] % ROWS for value in dots)
    edges = sum(part_shape(cuts, product.result)[-2:])
    dim = division.ctas[0][0]
    return fits, int(has_odd), edges, -dim if by_columns else dim


def part_shape(cuts: Sequence[ProductCut], value: object) -> list[int]:
    """The shape of a part of a value that is cut in some ways at once."""
    known = next((found for cut in cuts for found in cut.dims if found is value), None)
    if known is None:
        raise InternalError("a value is not cut", where="tileas-slicing")
    shape = list(shape_of(known))
    for cut in cuts:
        for dim in cut.dims.get(known, ())[:1]:
            shape[dim] //= cut.parts
    return shape


def _regions(
    func: aa.FuncOp, product: aa.ProductOp, division: Division
) -> list[ProductRegion] | None:
    """What is cut along each dim; None if it cannot be."""
    found: list[ProductRegion] = []
    for dim, count in division.ctas:
        region = find_region(product.result, dim, count)
        if region is None or not _is_all_divided(func, region):
            return None
        found.append(region)
    return found


def _go_together(cuts: Sequence[ProductCut]) -> bool:
    """Whether what has been cut in one way can be cut in the others: all elements are in parts.

    Cutting changes shapes, and nothing else that a cut looks at.
    """
    for value in dict.fromkeys(value for cut in cuts for value in cut.dims):
        for dim, extent in enumerate(shape_of(value)):
            parts = prod(cut.parts for cut in cuts if dim in cut.dims.get(value, ()))
            if extent % parts:
                return False
    return True


def _divide(func: aa.FuncOp, product: aa.ProductOp, division: Division) -> aa.ProductOp:
    """Cuts along one dim after the other; the product of a part.

    Products keep their order, as all are in the region that is cut. Raises InternalError for cuts
    that do not go together.
    """
    from tileiras.passes.nv_tileaa.product_loops import divide_parts

    number = _products(func).index(product)
    for position, (dim, count) in enumerate(division.ctas):
        region = find_region(_products(func)[number].result, dim, count)
        if region is None or not _is_all_divided(func, region):
            raise InternalError("a product that can be divided was not", where="tileas-slicing")
        divide_parts(region, division.ranks(position))
    return _products(func)[number]


def _products(func: aa.FuncOp) -> list[aa.ProductOp]:
    return [op for op in func.walk() if isinstance(op, aa.ProductOp)]


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
