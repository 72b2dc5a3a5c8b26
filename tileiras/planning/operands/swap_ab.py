"""Which products the instructions compute transposed, both operands being in shared memory.

An instruction reads 64 rows of its left operand and all columns of the right one, up to 256. So
products of fewer rows than 64 have to be transposed (`warp_roles/plan`). And for what it computes
it reads the less the fewer rows and the more columns there are: 256x128 is better computed as
128x256 (f16 8192^3 on one H100: 1500 instead of 1560 us; 4096^3 of tf32 366 instead of 417, int8
109 instead of 118; but f8, whose sums are added up in parts, 108 instead of 102). And two products
with an operand in common are one instruction (`fused_products`) if that is the left one.

Of products that a kernel with two tiles per CTA computes at once only their indices tell which
operand they have in common, while it runs. Neighbours agree mostly in what is a quotient of the
number of the tile, or looked up in a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.operands.tma import OperandLoad
from tileiras.planning.operands.tma_stores import is_in_loop
from tileiras.planning.operands.uniform import differing_indices, may_be_uniform
from tileiras.planning.resources.cta import MOST_WARPGROUPS, ROWS_PER_WARPGROUP
from tileiras.planning.resources.stage_groups import stage_groups

if TYPE_CHECKING:
    from tileiras.planning.model.dots import WgmmaDot

WORD_BYTES = 4
"""Fixed: bytes of a register."""
MAX_N = 256
"""Fixed: columns of the widest instruction (PTX ISA, "wgmma.mma_async", shapes)."""


def oriented(
    func: aa.FuncOp, loops: Mapping[Operation | None, list[WgmmaDot]]
) -> dict[Operation | None, list[WgmmaDot]]:
    """The products of each loop, those transposed that are better computed so.

    Where a CTA computes two tiles, sums of one tile and of two have the same registers. Where they
    leave by TMA, as 32-bit elements, none is: a warpgroup's 64 columns are two spans then. None is
    where two tiles are rows of one; the warpgroups that have half of its rows each have half of
    the columns of a tile alone.
    """
    if func.two_tiles is not None and func.two_tiles.data == "rows":
        return {
            loop: [replace(d, by_columns=d.may_be_by_columns) for d in dots]
            for loop, dots in loops.items()
        }
    groups = [group for dots in loops.values() for group in stage_groups(dots)]
    swapped = [group for group in groups if _is_better_transposed(group)]
    if not swapped or any(stores_words(op) and is_in_loop(op) for op in func.walk()):
        return dict(loops)
    if func.two_tiles is not None:
        swapped = [group for group in groups if all(map(is_wide_transposed, group))]
    dots = {planned.dot for group in swapped for planned in group}
    return {
        loop: [replace(d, transposed=True) if d.dot in dots else d for d in products]
        for loop, products in loops.items()
    }


def stores_words(op: Operation) -> bool:
    """Whether it stores tiles of 32-bit elements, or reduces with them."""
    if not isinstance(op, aa.TiledStoreOp | aa.TiledAtomicRedOp):
        return False
    return storage_bytes(view_type_of(op.view).memref.element_type) == WORD_BYTES


def _is_better_transposed(group: Sequence[WgmmaDot]) -> bool:
    """Whether the products of a stage are."""
    if not all(map(is_wide_transposed, group)) or not reads_less(group[0], len(group)):
        return False
    return len(group) == 1 or _common_is_right(*group)


def is_wide_transposed(planned: WgmmaDot) -> bool:
    """Whether a product may be computed transposed, by as many warpgroups as otherwise."""
    # What is summed up by itself first has the more of it the narrower instructions are.
    if planned.is_two_level or not may_be_transposed(planned):
        return False
    rows, columns = shape_of(planned.dot.result)
    is_legal = columns % ROWS_PER_WARPGROUP == 0 and rows in planned.family.sizes_n
    return is_legal and columns >= min(rows, MOST_WARPGROUPS * ROWS_PER_WARPGROUP)


def may_be_transposed(planned: WgmmaDot) -> bool:
    """Whether instructions can read the operands in the other order, both in shared memory."""
    if planned.fragments is not None or planned.lhs is None or planned.is_lhs_resident:
        return False
    return isinstance(planned.dot.acc, BlockArgument)


def reads_less(planned: WgmmaDot, count: int) -> bool:
    """Whether instructions for `count` such products, transposed, read less shared memory."""
    rows, columns = shape_of(planned.dot.result)
    rows *= count
    return columns * (ROWS_PER_WARPGROUP + rows) < rows * (ROWS_PER_WARPGROUP + columns)


def _common_is_right(first: WgmmaDot, second: WgmmaDot, *others: WgmmaDot) -> bool:
    """Whether two products mostly share the right operand, and become one if transposed."""
    if others or first.lhs is None or second.lhs is None:
        return False
    if not may_continue(first):
        return False
    left, right = (first.lhs.load, second.lhs.load), (first.rhs.load, second.rhs.load)
    if left[0] is left[1] or right[0] is right[1]:
        return right[0] is right[1]
    return may_be_uniform(*right) and variation_rate(*right) < variation_rate(*left)


def may_continue(planned: WgmmaDot) -> bool:
    """Whether the left operand of a second such product, right behind this one's, continues it."""
    shape, element = shape_of(planned.dot.lhs), element_of(planned.dot.lhs)
    if planned.lhs is None:
        return False
    return continues_behind(shape, element, 0, planned.lhs.major_axis, SWIZZLE_BYTES)


def continues_behind(
    shape: Sequence[int], element: Attribute, axis: int, major: int, panel_bytes: int
) -> bool:
    """Whether a second tile right behind such a one continues it along `axis`, the other one of K.

    Then one descriptor says where both lie. Where K is contiguous, and longer than a panel, panels
    alternate. No instruction has more columns than MAX_N.
    """
    depth = shape[1 - axis] * storage_bytes(element)
    return (major == axis or depth <= panel_bytes) and 2 * shape[axis] <= MAX_N


class VariationRate(IntEnum):
    """How often a value changes from a tile to the next one."""

    NEVER = 0
    SELDOM = 1
    OFTEN = 2


def variation_rate(first: OperandLoad, second: OperandLoad) -> VariationRate:
    """How often neighbouring tiles load different tiles."""
    if not isinstance(first, aa.TiledLoadOp) or not isinstance(second, aa.TiledLoadOp):
        return VariationRate.OFTEN
    return rate_of([index for index, _ in differing_indices(first, second)])


def rate_of(
    values: Sequence[SSAValue], rates: Mapping[SSAValue, VariationRate] | None = None
) -> VariationRate:
    """How often one of several scalars changes; `rates` has those of some that are known."""
    known = dict(rates or {})
    return max((_rate_of(value, known) for value in values), default=VariationRate.NEVER)


def _rate_of(value: SSAValue, known: dict[SSAValue, VariationRate]) -> VariationRate:
    """How often a scalar changes: the number of the tile always, a quotient of it seldom.

    So does what is loaded for a tile: the group that it is of.
    """
    if value in known:
        return known[value]
    known[value] = VariationRate.NEVER
    if not isinstance(value, OpResult):
        is_counter = isinstance(value, BlockArgument) and isinstance(
            value.owner.parent_op(), aa.ForOp | aa.LoopOp
        )
        known[value] = VariationRate.OFTEN if is_counter else VariationRate.NEVER
        return known[value]
    match value.op:
        case aa.GetProgramIdOp() as op:
            rate = VariationRate.NEVER if op.axis.value.data else VariationRate.OFTEN
        case aa.RemIOp() as op if _is_one(op.operands[1]):
            rate = VariationRate.NEVER
        case aa.DivIOp() as op if _is_one(op.operands[1]):
            rate = _rate_of(op.operands[0], known)
        case aa.DivIOp() | aa.ShRIOp() as op:
            rate = min(_rate_of(op.operands[0], known), VariationRate.SELDOM)
        case aa.LoadOp() | aa.TiledLoadOp() as op:
            rate = min(_most(op.operands, known), VariationRate.SELDOM)
        case aa.SelectOp() as op:
            rate = _most(op.operands[1:], known)
        case op:
            rate = _most(op.operands, known)
    known[value] = rate
    return rate


def _is_one(value: SSAValue) -> bool:
    """Whether a divisor is one: rows of tiles that are taken one at a time, at most."""
    from tileiras.planning.critical_sections import constant_scalar

    owner = value.owner
    if isinstance(owner, aa.MinIOp):
        return any(constant_scalar(operand) == 1 for operand in owner.operands)
    return constant_scalar(value) == 1


def _most(values: Sequence[SSAValue], known: dict[SSAValue, VariationRate]) -> VariationRate:
    """How often one of several values changes."""
    return max((_rate_of(value, known) for value in values), default=VariationRate.NEVER)
