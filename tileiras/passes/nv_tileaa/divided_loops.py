"""Builds what `split-reductions` decides: a loop of all CTAs, and one of them that goes on.

Where the grid has `many` tile blocks, CTAs do not divide them: each CTA of every `size`-th cluster
has a tile block of its own, and the other clusters end at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, i1, i32
from xdsl.ir import Block, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa.cluster_blocks import compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

if TYPE_CHECKING:
    from tileiras.planning.part_loops import PartLoop
    from tileiras.planning.reduction_loops import DividedLoop, DividedSum

_EQUAL = compared(ComparisonPredicate.EQUAL)
_NOT_EQUAL = compared(ComparisonPredicate.NOT_EQUAL)
_NOT_LESS = compared(ComparisonPredicate.GREATER_THAN_OR_EQUAL)


def divide(found: DividedLoop, size: int, many: int) -> None:
    """Every CTA runs each `size`-th iteration, and one of them does what follows; or, where there
    are `many` tile blocks, a CTA runs all iterations of one.
    """
    loop = found.loop
    rank, alone = take_tile_blocks(loop, size, many)
    before = ScalarBuilder()
    before.location = loop.location
    first, step = rank, before.integer(found.step * size, i32)
    if alone is not None:
        first = _select(before, alone, before.integer(0, i32), rank)
        step = _select(before, alone, before.integer(found.step, i32), step)
    ahead = before.scaled(first, found.step)
    lower = before.binary(aa.AddIOp, ahead, loop.lower_bound) if found.lower else ahead
    before.put_before(loop)
    loop.operands[0], loop.operands[2] = lower, step
    end = required(found.following[-1].next_op, "a kernel does not end", "split-reductions")
    kept = _copies(found) if alone is not None else Block()
    for op in found.following:
        op.detach()
    tail = _send_or_read(found, rank, size)
    if alone is not None:
        tail.emit(aa.YieldOp)
        shared, tail = tail.block, ScalarBuilder()
        tail.location = loop.location
        tail.emit(aa.IfOp, [alone], (), {}, [Region(kept), Region(shared)])
    tail.put_before(end)


def take_tile_blocks(loop: aa.ForOp, size: int, many: int) -> tuple[SSAValue, SSAValue | None]:
    """A CTA's rank, and whether (i1) CTAs have tile blocks of their own; those without one end.

    Tile blocks are counted along the first axis of which the kernel asks for its place. Where it
    asks for none, the second value is None.
    """
    func = loop.parent_op()
    if not isinstance(func, aa.FuncOp) or (start := func.body.block.first_op) is None:
        raise InternalError("a loop stands in no kernel", where="split-reductions")
    ids = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp)]
    builder = ScalarBuilder()
    builder.location = loop.location
    rank, alone = builder.emit(aa.GetClusterRankOp, (), [i32]).results[0], None
    if ids:
        axis = min(op.axis.value.data for op in ids)
        count = builder.place(aa.GetNumProgramsOp, axis)
        operands = [count, builder.integer(many, i32)]
        alone = builder.emit(aa.CmpIOp, operands, [i1], _NOT_LESS).results[0]
        number = _own_tile_block(builder, axis, count, rank, alone, size)
        for op in ids:
            if op.axis.value.data == axis:
                op.result.replace_all_uses_with(number)
                op.detach()
                op.erase()
        start = func.body.block.first_op
    if start is None:
        raise InternalError("a kernel without a loop", where="split-reductions")
    builder.put_before(start)
    return rank, alone


def _own_tile_block(
    builder: ScalarBuilder,
    axis: int,
    count: SSAValue,
    rank: SSAValue,
    alone: SSAValue,
    size: int,
) -> SSAValue:
    """The number of a CTA's tile block along an axis of `count`; where CTAs are `alone` they end if
    they have none.
    """
    cluster = builder.place(aa.GetProgramIdOp, axis)
    zero, last = builder.integer(0, i32), builder.integer(size - 1, i32)
    number = builder.binary(aa.AddIOp, cluster, _select(builder, alone, rank, zero))
    place = builder.emit(aa.AndIOp, [cluster, last], [i32]).results[0]
    is_other = builder.emit(aa.CmpIOp, [place, zero], [i1], _NOT_EQUAL).results[0]
    is_beyond = builder.emit(aa.CmpIOp, [number, count], [i1], _NOT_LESS).results[0]
    without = builder.emit(aa.OrIOp, [is_other, is_beyond], [i1]).results[0]
    leaves = builder.emit(aa.AndIOp, [alone, without], [i1]).results[0]
    builder.only_if(leaves, Block([aa.ReturnOp.create(location=builder.location)]))
    return number


def _select(
    builder: ScalarBuilder, condition: SSAValue, first: SSAValue, second: SSAValue
) -> SSAValue:
    """One of two scalars."""
    return builder.emit(aa.SelectOp, [condition, first, second], [first.type]).results[0]


def _copies(found: DividedLoop) -> Block:
    """What follows a loop, once more, for CTAs that have the whole sum."""
    block, values = Block(), dict[SSAValue, SSAValue]()
    for op in found.following:
        block.add_op(copy := op.clone(values))
        values.update(zip(op.results, copy.results, strict=True))
    block.add_op(aa.YieldOp.create(location=found.loop.location))
    return block


def _send_or_read(found: DividedLoop, rank: SSAValue, size: int) -> ScalarBuilder:
    """Sums of CTAs go to the last one of a cluster, which goes on."""
    tail = ScalarBuilder()
    tail.location = found.loop.location
    tiles = [each.combined for each in found.sums]
    last = {"reader": IntAttr(size - 1)}
    sent = tail.emit(aa.ShareTilesOp, tiles, [EXCHANGE], last).results[0]
    reader = tail.integer(size - 1, i32)
    is_reader = tail.emit(aa.CmpIOp, [rank, reader], [i1], _EQUAL).results[0]
    then = _going_on(found, sent, size)
    others = ScalarBuilder()
    others.location = found.loop.location
    others.emit(aa.SendSharedOp, [sent])
    others.emit(aa.YieldOp)
    tail.emit(aa.IfOp, [is_reader], (), {}, [Region(then), Region(others.block)])
    return tail


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


__all__ = ["divide", "divide_parts", "take_tile_blocks"]
