"""The pass `split-reductions`: the CTAs of a cluster divide a loop that adds up columns.

    %s = for %i in [0, %n) step 1      ->      %s = for %i in [%rank, %n) step 4
    %r = reduce %s dim 0                       %r = reduce %s dim 0
    store %r                                   %sent = share_tiles %r {reader = 3}
                                               if %rank == 3 {
                                                 await_shared %sent; store (%r_0 + %r_1) + ..
                                               } else { send_shared %sent }

A grid of tiles of columns may have fewer tile blocks than the GPU has SMs, each with a long loop.
What one tile block sums up is then the work of a cluster; one of its CTAs goes on with the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES, EXCHANGE
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.reduction_loops import DividedLoop, DividedSum

CTAS = 4
"""Policy: CTAs of a cluster. How many tile blocks there are is known at launch only: more CTAs gain
where there are few, and cost where many fill the GPU anyway (decision 0047 has a table)."""
MOST_BYTES = 64 * 1024
"""Policy: shared memory for what the CTAs of a cluster send to one of them."""
THREADS = 256
"""Policy: threads of a tile block that adds up columns, each of which sends whole cells."""
_EQUAL = compared(ComparisonPredicate.EQUAL)


@dataclass(frozen=True)
class SplitReductionsPass(IrPass):
    """Divides a loop that adds up the columns of large tiles among the CTAs of a cluster.

    Before   %s = for %i in [0, %n) step 1 { carried + load };  %r = reduce %s;  store %r
    After    %s = for %i in [%rank, %n) step 4 { carried + load };  %r = reduce %s
             %e = share_tiles %r;  if %rank == 3 { await_shared %e;  store (sum of all %r) }
             else { send_shared %e }
    Requires nv_tileaa, with the strategies of kernels; a target with clusters
    Leaves   kernels with another loop, or with effects before it; sums that the loop reads
             otherwise, or whose order the program fixes; those along contiguous dims, of which
             there are many tile blocks
    """

    name = "split-reductions"
    title: ClassVar[str] = "Divide reductions among the CTAs of a cluster"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions."""
        target = ctx.require_target()
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or func.cluster_size > 1 or not _has_loop(func):
                continue
            from tileiras.planning.reduction_loops import find_divided_loop

            found = find_divided_loop(func)
            size = _cluster_size(func, found, target) if found is not None else 1
            if found is not None and size > 1:
                _divide(found, size)
                func.properties["cluster"] = IntegerAttr(size, i32)
                _forget_strategy(func)
                ctx.remarks.add(_remark(func, size))


def _has_loop(func: aa.FuncOp) -> bool:
    return any(isinstance(op, aa.ForOp) for op in func.body.block.ops)


def _forget_strategy(func: aa.FuncOp) -> None:
    from tileiras.planning.strategy import drop_strategy

    drop_strategy(func)


def _remark(func: aa.FuncOp, size: int) -> Remark:
    return Remark(
        RemarkCategory.SCHEDULE,
        RemarkKind.PASSED,
        SplitReductionsPass.name,
        "SplitReductions",
        f"the {size} CTAs of a cluster divide the iterations of a loop, and add up their sums",
        func.sym_name.data,
        place_of(func),
    )


def _cluster_size(func: aa.FuncOp, found: DividedLoop, target: GpuTarget) -> int:
    """CTAs of a cluster: what the target launches, a hint allows, and shared memory holds."""
    from tileiras.planning.hints import integer_hint

    size = min(CTAS, target.max_cluster)
    most = integer_hint(func, "num_cta_in_cga") or target.max_cluster
    sent = sum(max(value_bytes(each.combined), THREADS * CELL_BYTES) for each in found.sums)
    while size > 1 and (size > most or size * sent > MOST_BYTES):
        size //= 2
    return size


def _divide(found: DividedLoop, size: int) -> None:
    """Every CTA runs each `size`-th iteration; one of them does what follows."""
    loop = found.loop
    before = ScalarBuilder()
    before.location = loop.location
    rank = before.emit(aa.GetClusterRankOp, (), [i32]).results[0]
    ahead = before.scaled(rank, found.step)
    lower = before.binary(aa.AddIOp, ahead, loop.lower_bound) if found.lower else ahead
    step = before.integer(found.step * size, i32)
    before.put_before(loop)
    loop.operands[0], loop.operands[2] = lower, step
    end = found.following[-1].next_op
    if end is None:
        raise InternalError("a kernel does not end", where=SplitReductionsPass.name)
    for op in found.following:
        op.detach()
    tail = ScalarBuilder()
    tail.location = loop.location
    tiles = [each.combined for each in found.sums]
    last = {"reader": IntAttr(size - 1)}
    sent = tail.emit(aa.ShareTilesOp, tiles, [EXCHANGE], last).results[0]
    reader = tail.integer(size - 1, i32)
    is_reader = tail.emit(aa.CmpIOp, [rank, reader], [i1], _EQUAL).results[0]
    then = _going_on(found, sent, size)
    others = ScalarBuilder()
    others.location = loop.location
    others.emit(aa.SendSharedOp, [sent])
    others.emit(aa.YieldOp)
    tail.emit(aa.IfOp, [is_reader], (), {}, [Region(then), Region(others.block)])
    tail.put_before(end)


def _going_on(found: DividedLoop, sent: SSAValue, size: int) -> Block:
    """What the reader does: it combines what all have, and goes on as the kernel did."""
    inner = ScalarBuilder()
    inner.location = found.loop.location
    inner.emit(aa.AwaitSharedOp, [sent])
    for number, each in enumerate(found.sums):
        total = _combined(inner, each, sent, number, size)
        for use in list(each.combined.uses):
            if use.operation in found.following or _is_inside(use.operation, found.following):
                use.operation.operands[use.index] = total
    for op in found.following:
        inner.block.add_op(op)
    inner.emit(aa.YieldOp)
    return inner.block


def _is_inside(op: Operation, outer: Sequence[Operation]) -> bool:
    """Whether an operation stands in a region of one of these."""
    parent = op.parent_op()
    while parent is not None and parent not in outer:
        parent = parent.parent_op()
    return parent is not None


def _combined(
    builder: ScalarBuilder, each: DividedSum, sent: SSAValue, number: int, size: int
) -> SSAValue:
    """The sum of what the CTAs have, in the order of their ranks."""
    type = each.combined.type
    parts: list[SSAValue] = []
    for rank in range(size):
        place = {"number": IntAttr(number), "rank": IntAttr(rank)}
        parts.append(builder.emit(aa.ReadSharedOp, [sent], [type], place).results[0])
    total = parts[0]
    for part in parts[1:]:
        total = builder.emit(each.function, [total, part], [type], each.properties).results[0]
    return total


__all__ = ["SplitReductionsPass"]
