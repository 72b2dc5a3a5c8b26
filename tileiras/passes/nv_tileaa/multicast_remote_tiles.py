"""The pass `multicast-remote-tiles`: a tile that may lie on another GPU is read once a cluster.

    %p = load table[program_id 0]                   cluster = 4, in rows of up to 4 along axis 1
    %a = memref %p; %b = memref %argument           %y = 4 * program_id 1 + place in the row
    for %k { tiled_load %a[.., %k];           ->    for %k { tiled_load %a[.., %k] once for a row;
             tiled_load %b[%k, program_id 1] }               tiled_load %b[%k, %y] }
    store [.., program_id 1]                        if %y exists { store [.., %y] }

Whose address a kernel looks up by the number of its tile block may be another GPU's memory: an
array that several GPUs have a part of each is such a table. L2 keeps nothing of another GPU's
memory. So each CTA that reads a tile of it has it brought through the link between the GPUs, a
tenth as fast as memory; the other operand, an argument of the kernel, is this GPU's.

Where there are fewer tiles along a row, which the kernel finds out, a cluster has several rows.
Neighbouring clusters take rows of both halves of the grid in turn: a part of the memory is this
GPU's, and what comes through the link should come all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i1, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.memory import LoadBase, TiledLoadBase
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.cluster_blocks import LESS, compared, only_if
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.hints import integer_hint
from tileiras.planning.tiling.product_region import STORES
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.dots import PlannedDot

CTAS = 4
"""Policy: CTAs of a cluster, each of which may have two tiles of a row. Eight keep in step with
more of each other, and fewer SMs have room for them (decision 0063 has the times)."""


@dataclass(frozen=True)
class MulticastRemoteTilesPass(IrPass):
    """Runs tile blocks as clusters that read an operand from a looked-up address once for all.

    Before   %x, %y = program_id 0, 1;  %p = load table[%x]
             for { dot (tiled_load %p[..]), (tiled_load %argument[.., %y]) };  store [%x, %y]
    After    func {cluster = 4, clustered, in_rows = 1}: %row, %place = get_cluster_place %size
             %x = 4 / %size * program_id 0 + %row;  %y = %size * program_id 1 + %place
             or 0 if there is no such tile block, which then stores nothing
    Requires nv_tileaa, with the strategies of kernels; a target with clusters and multicast TMA
    Leaves   kernels of more than one tile a tile block, and those that may communicate; operands
             that are both looked up, or neither; tiles that depend on all axes of the grid
    """

    name = "multicast-remote-tiles"
    title: ClassVar[str] = "Read remote tiles once a cluster"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or not _is_candidate(func):
                continue
            changed = _clustered(func, target)
            if changed is not None:
                op.body.block.insert_op_before(changed, func)
                func.detach()
                ctx.remarks.add(_remark(changed))


def _remark(func: aa.FuncOp) -> Remark:
    return remark_about(
        func,
        MulticastRemoteTilesPass.name,
        "MulticastRemoteTiles",
        f"{func.cluster_size} tile blocks are a cluster of CTAs: an operand whose address is "
        "looked up, which may be another GPU's memory, is read once for all",
    )


def _is_candidate(func: aa.FuncOp) -> bool:
    """Whether it has products of one tile, and it does not matter which CTA computes a tile."""
    if func.cluster_size > 1 or integer_hint(func, "num_cta_in_cga") is not None:
        return False
    if not any(isinstance(op, aa.ProductOp) for op in func.walk()):
        return False
    from tileiras.planning.tile_scheduler.communication import may_communicate
    from tileiras.planning.tile_scheduler.joinable import is_repeatable, product_loop

    if product_loop(func.body.block) is None:
        return False
    operations = list(func.walk())
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return False
    if any(isinstance(op, aa.GetNumProgramsOp) for op in operations):
        return False
    return sum(isinstance(op, aa.ReturnOp) for op in operations) == 1


def _clustered(func: aa.FuncOp, target: GpuTarget) -> aa.FuncOp | None:
    """A copy that is a cluster's along the axis in which remote tiles are the same; None if none
    are."""
    from tileiras.planning.clusters import find_multicast
    from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise

    plan = strategy_of(func, target)
    if plan is None or plan.is_in_tmem or plan.shape.ctas > 1 or len(plan.dots) != 1:
        return None
    [planned] = plan.dots.values()
    axes = _axes(planned)
    if axes is None:
        return None
    changed = without_strategy(func)
    _renumber(changed, *axes, min(CTAS, target.max_cluster))
    again = would_specialise(changed, target)
    if again is None or again.is_in_tmem:
        return None
    return changed if find_multicast(changed, again).loads else None


def _axes(planned: PlannedDot) -> tuple[int, int] | None:
    """The axis of the grid along which the tile of an operand that is looked up is the same, and
    that of the other operand is not; and one along which it is not the same. None if there is no
    such axis.
    """
    operands = (planned.lhs, planned.rhs)
    loads = [operand.load for operand in operands if operand is not None]
    if len(loads) != len(operands) or not all(isinstance(op, aa.TiledLoadOp) for op in loads):
        return None
    slices = [_Slice.of(load) for load in loads]
    remote = [each for each in slices if each.is_looked_up]
    local = [each for each in slices if not each.is_looked_up]
    if len(remote) != 1:
        return None
    shared = sorted(local[0].axes - remote[0].axes)
    return (shared[0], min(remote[0].axes)) if len(shared) == 1 else None


@dataclass(frozen=True)
class _Slice:
    """What a tile depends on: axes of the grid; whether its address is looked up by one of them."""

    axes: frozenset[int]
    is_looked_up: bool

    @staticmethod
    def of(load: Operation) -> _Slice:
        """Follows all that a load of a tile is made from."""
        seen: dict[Operation, None] = {}
        pending: list[SSAValue] = list(load.operands)
        while pending:
            owner = pending.pop().owner
            op = owner.parent_op() if isinstance(owner, Block) else owner
            if op is None or op in seen or isinstance(op, aa.FuncOp):
                continue
            seen[op] = None
            pending += op.operands
        axes = {op.axis.value.data for op in seen if isinstance(op, aa.GetProgramIdOp)}
        loads = [op for op in seen if isinstance(op, LoadBase | TiledLoadBase)]
        addresses = any(isinstance(op, aa.IntToPtrOp) for op in seen)
        return _Slice(frozenset(axes), bool(loads) and addresses and bool(axes))


@dataclass(frozen=True)
class _Axis:
    """A CTA's number along an axis of the grid: `base` is the cluster's first one, `own` its own.

    That is 0 where no such tile block `exists` (i1).
    """

    base: SSAValue
    count: SSAValue
    exists: SSAValue
    own: SSAValue

    @staticmethod
    def along(
        builder: ScalarBuilder, axis: int, size: SSAValue, place: SSAValue, is_mixed: bool
    ) -> _Axis:
        """Where a cluster has `size` CTAs along the axis, and this one is at `place`.

        `is_mixed`: clusters go to both halves of the axis in turn.
        """
        count = builder.place(aa.GetNumProgramsOp, axis)
        cluster = builder.place(aa.GetProgramIdOp, axis)
        base = builder.binary(aa.MulIOp, cluster, size)
        first = base
        if is_mixed:
            first = builder.binary(aa.MulIOp, _mixed(builder, cluster, count, size), size)
        number = builder.binary(aa.AddIOp, first, place)
        exists = builder.emit(aa.CmpIOp, [number, count], [i1], LESS).results[0]
        operands = [exists, number, builder.integer(0, i32)]
        own = builder.emit(aa.SelectOp, operands, [i32]).results[0]
        return _Axis(base, count, exists, own)

    def is_beyond(self, builder: ScalarBuilder) -> SSAValue:
        """i1: whether the cluster has no tile block along the axis."""
        return builder.emit(aa.CmpIOp, [self.base, self.count], [i1], _NOT_LESS).results[0]


def _renumber(func: aa.FuncOp, shared: int, other: int, size: int) -> None:
    """Numbers of tile blocks in place of those of clusters, in rows along the shared axis; stores
    only where there is a tile block. Clusters beyond the grid leave at once.
    """
    first = func.body.block.first_op
    if first is None:
        return
    builder = ScalarBuilder()
    builder.location = first.location
    columns, rows = _shape(builder, builder.place(aa.GetNumProgramsOp, shared), size)
    place = builder.emit(aa.GetClusterPlaceOp, [columns], [i32, i32])
    axes = {
        shared: _Axis.along(builder, shared, columns, place.results[1], is_mixed=False),
        other: _Axis.along(builder, other, rows, place.results[0], is_mixed=True),
    }
    beyond = [axis.is_beyond(builder) for axis in axes.values()]
    leaves = builder.emit(aa.OrIOp, beyond, [i1]).results[0]
    builder.only_if(leaves, Block([aa.ReturnOp.create(location=first.location)]))
    both = [axis.exists for axis in axes.values()]
    exists = builder.emit(aa.AndIOp, both, [i1]).results[0]
    made = builder.put_before(first)
    for op in list(func.walk()):
        if isinstance(op, aa.GetProgramIdOp) and op not in made and op.axis.value.data in axes:
            op.result.replace_all_uses_with(axes[op.axis.value.data].own)
            op.detach()
            op.erase()
    for op in list(func.walk()):
        if isinstance(op, STORES):
            only_if(op, exists)
    func.properties["cluster"] = IntegerAttr(size, i32)
    func.properties["clustered"] = UnitAttr()
    func.properties["in_rows"] = IntegerAttr(shared, i32)


def _mixed(builder: ScalarBuilder, cluster: SSAValue, count: SSAValue, size: SSAValue) -> SSAValue:
    """The number of a cluster among those of an axis, even ones in the first half and odd ones in
    the second: tiles that come through the link and those that do not are read at the same time.
    """
    two = builder.integer(2, i32)
    clusters = builder.emit(aa.DivIOp, [count, size], [i32], _UP).results[0]
    middle = builder.emit(aa.DivIOp, [clusters, two], [i32], _UP).results[0]
    number = builder.emit(aa.DivIOp, [cluster, two], [i32], _DOWN).results[0]
    doubled = builder.binary(aa.MulIOp, number, two)
    is_even = builder.emit(aa.CmpIOp, [doubled, cluster], [i1], _EQUAL).results[0]
    second = builder.binary(aa.AddIOp, middle, number)
    return builder.emit(aa.SelectOp, [is_even, number, second], [i32]).results[0]


def _shape(builder: ScalarBuilder, count: SSAValue, size: int) -> tuple[SSAValue, SSAValue]:
    """CTAs of a row, as many as there are tile blocks along it, rounded up to a power of two; and
    rows of a cluster.
    """
    columns, rows, wide = builder.integer(1, i32), builder.integer(size, i32), 2
    while wide <= size:
        half = builder.integer(wide // 2, i32)
        is_wide = builder.emit(aa.CmpIOp, [half, count], [i1], LESS).results[0]
        more = (builder.integer(wide, i32), builder.integer(size // wide, i32))
        columns = builder.emit(aa.SelectOp, [is_wide, more[0], columns], [i32]).results[0]
        rows = builder.emit(aa.SelectOp, [is_wide, more[1], rows], [i32]).results[0]
        wide *= 2
    return columns, rows


_NOT_LESS = compared(ComparisonPredicate.GREATER_THAN_OR_EQUAL)
_EQUAL = compared(ComparisonPredicate.EQUAL)
_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)
_UP = {"rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF), "signedness": _UNSIGNED}
_DOWN = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": _UNSIGNED}


__all__ = ["MulticastRemoteTilesPass"]
