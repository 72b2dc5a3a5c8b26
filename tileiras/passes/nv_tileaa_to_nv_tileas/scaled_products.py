"""The scales of block-scaled products, which are placed alike wherever the operands lie."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.passes.nv_tileaa_to_nv_tileas.placer import Placer
from tileiras.planning.mma.dots import scale_layouts


def placed_scales(placer: Placer, op: aa.DotScaledOp, warps: tuple[int, int]) -> list[SSAValue]:
    """The scales of a product where its instructions read them."""
    pairs = zip((op.lhs_scale, op.rhs_scale), scale_layouts(op, warps), strict=True)
    return [placer.in_layout(value, layout) for value, layout in pairs]
