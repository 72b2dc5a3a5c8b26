"""Which kernels two CTAs multiply for together (`tcgen05.mma.cta_group::2`), and why others not.

The CTAs of a cluster have neighbouring rows of a tile, and read the same columns of B. As a pair
each loads a half of these: an instruction multiplies the rows of both with the columns of both.
"""

from __future__ import annotations

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.codegen.atoms.tcgen05 import MOST_N, PAIR_ROWS
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.clusters import Multicast, find_multicast
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.tma import (
    FIRST_SCALE,
    SharedOperand,
    contiguous_axis,
    load_swizzle,
    tile_uses,
)

PAIR = 2
"""Fixed: CTAs of a pair (PTX ISA, `.cta_group::2`)."""
_RIGHT = 1
"""Fixed: the position of the right operand of a product."""


def halves_of(func: aa.FuncOp, plan: RolePlan) -> dict[aa.TiledLoadOp, int] | str:
    """The loads of right operands with the dims along which a pair of CTAs shares them, or why the
    CTAs of the kernel are no pair.
    """
    if func.clustered is not None:
        return "its CTAs have tile blocks that may read different columns"
    multicast, found = find_multicast(func, plan), dict[aa.TiledLoadOp, int]()
    for planned in plan.dots.values():
        if not isinstance(planned, Tcgen05Dot):
            return "a product does not go to tensor memory"
        dim = _half_of(planned, multicast)
        if isinstance(dim, str):
            return dim
        load = planned.rhs.load
        if isinstance(load, aa.TiledLoadOp):
            found[load] = dim
    return found


def _half_of(planned: Tcgen05Dot, multicast: Multicast) -> int | str:
    """The dim of the load of a right operand along its columns, or why nobody loads a half."""
    load, rows, columns = planned.rhs.load, planned.rows, planned.columns
    if planned.lhs is None or planned.is_lhs_resident:
        return "a left operand is computed, or stays in its stage throughout a loop"
    if rows % (PAIR_ROWS[0] // PAIR) or columns > MOST_N:
        return f"each CTA has {rows}x{columns} of a product"
    if not planned.kind.holds(PAIR_ROWS[0], columns, PAIR):
        return f"no instruction of two CTAs has {columns} columns"
    is_shared = multicast.loads.get(load) == () and not multicast.apart.get(load, 0) & 1
    if not isinstance(load, aa.TiledLoadOp) or not is_shared:
        return "the CTAs do not load the same right operand by TMA, in step"
    if any(use.index != _RIGHT for use in tile_uses(load) if use.index < FIRST_SCALE):
        return "a right operand is a left one, too"
    dim = _columns_dim(planned.rhs, load)
    return "a half of a right operand has other swizzles than all of it" if dim is None else dim


def _columns_dim(operand: SharedOperand, load: aa.TiledLoadOp) -> int | None:
    """The dim of the loaded tile along the columns, if half of it is of whole swizzle spans."""
    axis, shape = contiguous_axis(load), shape_of(load.result)
    if operand.major_axis == _RIGHT:
        if axis is None:
            return None
        size = storage_bytes(view_type_of(load.view).memref.element_type)
        return axis if widest_swizzle(shape[axis] // PAIR * size) == load_swizzle(load) else None
    others = [dim for dim, extent in enumerate(shape) if dim != axis and extent > 1]
    return others[0] if len(others) == 1 else None
