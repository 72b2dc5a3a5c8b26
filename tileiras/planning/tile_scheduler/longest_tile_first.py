"""Which tile blocks start first where some take longer: the long ones, so that none ends alone.

A causal kernel's block of rows loops over all keys up to its last row. CTAs start in the order of
their numbers, and the work of a block often rises with its number: then the longest blocks start
last, and at the end few SMs are busy. So the grid is turned around: along the axis that the length
of loops depends on, blocks run from the longest to the shortest, each time for a group of blocks
along the other axes. A group is small, so that its operands stay in L2.

Causal attention, 64 blocks of rows, 16 heads, 132 SMs: 491 us by the formula (a list schedule of
blocks of 5 + 1.52 * length us), and measured so; 428 us longest first, where 427 us is the mean.
"""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.nv_tileas.warp_roles import TILE_ORDER
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.tile_scheduler.communication import may_communicate

GROUP = 8
"""Policy: blocks along the other axes that go from the longest to the shortest together."""
AXES = 3
"""Fixed: axes of a grid."""

Slopes = dict[SSAValue, int | None]


def longest_tile_first(func: aa.FuncOp) -> tuple[int, int, int] | None:
    """The axis, whether the work rises along it, and the size of groups; None to leave the order.

    Tile blocks that wait for each other may count on lower numbers being started first. Of those
    that take over others it was asked before they did, and stands on the kernel.
    """
    if func.dynamic_tile_scheduler is not None or func.tile_queue is not None:
        return written_order(func)
    operations = list(func.walk())
    if any(may_communicate(op) or isinstance(op, aa.GetNumProgramsOp) for op in operations):
        return None
    loops = [op for op in operations if isinstance(op, aa.ForOp) and _multiplies(op)]
    for axis in range(AXES):
        slopes = [_slope_of_length(loop, axis) for loop in loops]
        if 1 in slopes and -1 not in slopes:
            return axis, 1, GROUP
        if -1 in slopes and 1 not in slopes:
            return axis, 0, GROUP
    return None


def written_order(func: aa.FuncOp) -> tuple[int, int, int] | None:
    """The order of tile blocks that stands on a kernel. Raises CompileError for a malformed one."""
    order = func.attributes.get(TILE_ORDER)
    if not isinstance(order, IntTupleAttr):
        return None
    if len(order.data) != AXES:
        raise contradiction(func, f"has a '{TILE_ORDER}' that is no axis, direction and group")
    axis, rises, group = order.data
    return axis, rises, group


def _multiplies(loop: aa.ForOp) -> bool:
    """Whether most of a block's time goes into the loop."""
    return any(isinstance(op, aa.ProductOp) for op in loop.walk())


def _slope_of_length(loop: aa.ForOp, axis: int) -> int | None:
    """Whether the loop gets longer (1), shorter (-1) or neither (0) along an axis of the grid."""
    known: Slopes = {}
    lower = _slope(loop.lower_bound, axis, known)
    return _sum(_slope(loop.upper_bound, axis, known), _negated(lower))


def _sum(first: int | None, second: int | None) -> int | None:
    """The slope of a sum, a minimum or a maximum; None if it is not known."""
    if first is None or second is None or first * second < 0:
        return None
    return first or second


def _negated(slope: int | None) -> int | None:
    return None if slope is None else -slope


def _slope(value: SSAValue, axis: int, known: Slopes) -> int | None:
    """How an integer changes with the block's index along an axis, None if it is not known."""
    if not isinstance(value, OpResult):
        return 0 if isinstance(value.owner.parent_op(), aa.FuncOp) else None
    if value not in known:
        known[value] = _slope_of_result(value.op, axis, known)
    return known[value]


def _slope_of_result(op: Operation, axis: int, known: Slopes) -> int | None:
    """How what an operation makes changes."""
    slopes = [_slope(operand, axis, known) for operand in op.operands]
    match op:
        case aa.GetProgramIdOp():
            return int(op.axis.value.data == axis)
        case aa.AddIOp() | aa.MinIOp() | aa.MaxIOp():
            return _sum(*slopes)
        case aa.SubIOp():
            return _sum(slopes[0], _negated(slopes[1]))
        case aa.ExtIOp() | aa.TruncIOp():
            return slopes[0]
        case aa.SelectOp():
            # All of a loop, or nothing of it: the condition may change where nothing is left.
            return _sum(*slopes[1:])
        case aa.MulIOp() | aa.DivIOp() if any(slopes):
            factors = [op.operands[1]] if isinstance(op, aa.DivIOp) else list(op.operands)
            constants = [number for value in factors if (number := _integer(value)) is not None]
            slope = next((slope for slope in slopes if slope != 0), None)
            return slope if constants and constants[0] > 0 else None
        case _:
            return None if any(slope != 0 for slope in slopes) or op.regions else 0


def _integer(value: SSAValue) -> int | None:
    """A constant scalar."""
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return None
    constant = value.op.value
    if not isinstance(constant, DenseAttr):
        return None
    return int.from_bytes(constant.raw.data, "little", signed=True)
