"""Builds what `split-reductions` decides: a loop of all CTAs, and one of them that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, i1, i32
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

if TYPE_CHECKING:
    from tileiras.planning.part_loops import PartLoop
    from tileiras.planning.reduction_loops import DividedLoop, DividedSum

_EQUAL = compared(ComparisonPredicate.EQUAL)


def divide(found: DividedLoop, size: int) -> None:
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
        raise InternalError("a kernel does not end", where="split-reductions")
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


def divide_parts(found: PartLoop, size: int) -> None:
    """Every CTA has each `size`-th part; a CTA that has one does it without a loop."""
    loop = found.loop
    before = ScalarBuilder()
    before.location = loop.location
    rank = before.emit(aa.GetClusterRankOp, (), [i32]).results[0]
    if found.parts > size:
        step = before.integer(size, i32)
        before.put_before(loop)
        loop.operands[0], loop.operands[2] = rank, step
        return
    before.put_before(loop)
    block, body = loop.parent_block(), loop.body.block
    if block is None:
        raise InternalError("a loop stands in no block", where="split-reductions")
    body.args[0].replace_all_uses_with(rank)
    for op in list(body.ops)[:-1]:
        op.detach()
        block.insert_op_before(op, loop)
    loop.detach()
    loop.erase()


def _going_on(found: DividedLoop, sent: SSAValue, size: int) -> Block:
    """What the reader does: it combines what all have, and goes on as the kernel did."""
    inner = ScalarBuilder()
    inner.location = found.loop.location
    inner.emit(aa.AwaitSharedOp, [sent])
    for number, each in enumerate(found.sums):
        total = _combined(inner, each, sent, number, size)
        for use in list(each.combined.uses):
            if any(op.is_ancestor(use.operation) for op in found.following):
                use.operation.operands[use.index] = total
    for op in found.following:
        inner.block.add_op(op)
    inner.emit(aa.YieldOp)
    return inner.block


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


__all__ = ["divide", "divide_parts"]
