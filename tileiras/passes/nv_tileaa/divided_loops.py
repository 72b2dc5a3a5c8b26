"""Builds what `split-reductions` decides: a loop of all CTAs, and one of them that goes on.

Where the grid has `many` tile blocks, CTAs do not divide them: each CTA of every `size`-th cluster
has a tile block of its own, and the other clusters end at once. Where as many clusters would not
find room at once, but half of them do, each half of a cluster has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, Signedness
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
_BELOW = compared(ComparisonPredicate.LESS_THAN, Signedness.UNSIGNED)
LEAST_HALVED = 4
"""Policy: CTAs of a cluster whose halves may divide tile blocks: one CTA alone needs no cluster."""


def divide(found: DividedLoop, size: int, many: int, halves: range | None = None) -> None:
    """Every CTA runs each `size`-th iteration, and one of them does what follows; or, where there
    are `many` tile blocks, a CTA runs all iterations of one; and half of a cluster where their
    number is one of `halves`.
    """
    loop = found.loop
    taken = take_tile_blocks(loop, size, many, halves if size >= LEAST_HALVED else None)
    rank, alone, halved = taken.rank, taken.alone, taken.halved
    before = ScalarBuilder()
    before.location = loop.location
    first, step = rank, before.integer(found.step * size, i32)
    if halved is not None:
        last = before.integer(size // 2 - 1, i32)
        mine = before.emit(aa.AndIOp, [rank, last], [i32]).results[0]
        first = _select(before, halved, mine, first)
        step = _select(before, halved, before.integer(found.step * size // 2, i32), step)
    if alone is not None:
        first = _select(before, alone, before.integer(0, i32), first)
        step = _select(before, alone, before.integer(found.step, i32), step)
    ahead = before.scaled(first, found.step)
    lower = before.binary(aa.AddIOp, ahead, loop.lower_bound) if found.lower else ahead
    before.put_before(loop)
    loop.operands[0], loop.operands[2] = lower, step
    end = required(found.following[-1].next_op, "a kernel does not end", "split-reductions")
    kept = _copies(found) if alone is not None else Block()
    copies = list(_copies(found).ops)[:-1] if halved is not None else []
    for op in (*copies, *found.following):
        op.detach()
    tail = _send_or_read(found, found.following, rank, size)
    if halved is not None:
        half = _send_or_read(found, copies, rank, size // 2, is_group=True)
        tail = _branch(tail, halved, half.block)
    if alone is not None:
        tail = _branch(tail, alone, kept)
    tail.put_before(end)


def _branch(other: ScalarBuilder, condition: SSAValue, then: Block) -> ScalarBuilder:
    """What is in a block where a condition holds, else what is built."""
    made = ScalarBuilder()
    made.location = other.location
    for block in (then, other.block):
        if not isinstance(block.last_op, aa.YieldOp):
            block.add_op(aa.YieldOp.create(location=other.location))
    made.emit(aa.IfOp, [condition], (), {}, [Region(then), Region(other.block)])
    return made


@dataclass(frozen=True)
class TakenTileBlocks:
    """A CTA's rank, and who has its tile block: the CTA `alone` (i1), or half of the cluster."""

    rank: SSAValue
    alone: SSAValue | None
    halved: SSAValue | None


def take_tile_blocks(
    loop: aa.ForOp, size: int, many: int, halves: range | None = None
) -> TakenTileBlocks:
    """Gives CTAs their tile blocks: one to each of `many`, to half of a cluster those of as many as
    `halves` has, else to the cluster. CTAs without one end.

    Tile blocks are counted along the first axis of which the kernel asks for its place. Where it
    asks for none, all are the cluster's.
    """
    func = loop.parent_op()
    if not isinstance(func, aa.FuncOp) or (start := func.body.block.first_op) is None:
        raise InternalError("a loop stands in no kernel", where="split-reductions")
    ids = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp)]
    builder = ScalarBuilder()
    builder.location = loop.location
    rank = builder.emit(aa.GetClusterRankOp, (), [i32]).results[0]
    taken = TakenTileBlocks(rank, None, None)
    if ids:
        axis = min(op.axis.value.data for op in ids)
        count = builder.place(aa.GetNumProgramsOp, axis)
        operands = [count, builder.integer(many, i32)]
        alone, halved = builder.emit(aa.CmpIOp, operands, [i1], _NOT_LESS).results[0], None
        if halves is not None:
            beyond = builder.binary(aa.SubIOp, count, builder.integer(halves.start, i32))
            operands = [beyond, builder.integer(len(halves), i32)]
            halved = builder.emit(aa.CmpIOp, operands, [i1], _BELOW).results[0]
        taken = TakenTileBlocks(rank, alone, halved)
        number = _own_tile_block(builder, axis, count, taken, size)
        for op in ids:
            if op.axis.value.data == axis:
                op.result.replace_all_uses_with(number)
                op.detach()
                op.erase()
        start = func.body.block.first_op
    if start is None:
        raise InternalError("a kernel without a loop", where="split-reductions")
    builder.put_before(start)
    return taken


def _own_tile_block(
    builder: ScalarBuilder, axis: int, count: SSAValue, taken: TakenTileBlocks, size: int
) -> SSAValue:
    """The number of a CTA's tile block along an axis of `count`; CTAs without one end."""
    if taken.alone is None:
        raise InternalError("tile blocks of no CTA", where="split-reductions")
    cluster = builder.place(aa.GetProgramIdOp, axis)
    zero, divides = builder.integer(0, i32), taken.alone
    own, last = taken.rank, builder.integer(size - 1, i32)
    if taken.halved is not None:
        half = builder.integer(size // 2, i32)
        is_second = builder.emit(aa.CmpIOp, [taken.rank, half], [i1], _NOT_LESS).results[0]
        one = builder.integer(1, i32)
        second = _select(builder, is_second, one, zero)
        own = _select(builder, taken.halved, second, own)
        last = _select(builder, taken.halved, one, last)
        divides = builder.emit(aa.OrIOp, [divides, taken.halved], [i1]).results[0]
    number = builder.binary(aa.AddIOp, cluster, _select(builder, divides, own, zero))
    place = builder.emit(aa.AndIOp, [cluster, last], [i32]).results[0]
    is_other = builder.emit(aa.CmpIOp, [place, zero], [i1], _NOT_EQUAL).results[0]
    is_beyond = builder.emit(aa.CmpIOp, [number, count], [i1], _NOT_LESS).results[0]
    without = builder.emit(aa.OrIOp, [is_other, is_beyond], [i1]).results[0]
    leaves = builder.emit(aa.AndIOp, [divides, without], [i1]).results[0]
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


def _send_or_read(
    found: DividedLoop,
    following: Sequence[Operation],
    rank: SSAValue,
    size: int,
    is_group: bool = False,
) -> ScalarBuilder:
    """Sums of CTAs go to the last one of a cluster, or of a group of them, which goes on."""
    tail = ScalarBuilder()
    tail.location = found.loop.location
    tiles = [each.combined for each in found.sums]
    last = {"reader": IntAttr(size - 1)} | ({"group": IntAttr(size)} if is_group else {})
    sent = tail.emit(aa.ShareTilesOp, tiles, [EXCHANGE], last).results[0]
    reader = tail.integer(size - 1, i32)
    if is_group:
        rank = tail.emit(aa.AndIOp, [rank, reader], [i32]).results[0]
    is_reader = tail.emit(aa.CmpIOp, [rank, reader], [i1], _EQUAL).results[0]
    then = _going_on(found, following, sent, size)
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


def _going_on(
    found: DividedLoop, following: Sequence[Operation], sent: SSAValue, size: int
) -> Block:
    """What the reader does: it combines what all have, and goes on as the kernel did."""
    inner = ScalarBuilder()
    inner.location = found.loop.location
    inner.emit(aa.AwaitSharedOp, [sent])
    for number, each in enumerate(found.sums):
        total = _combined(inner, each, sent, number, size)
        for use in list(each.combined.uses):
            if any(op.is_ancestor(use.operation) for op in following):
                use.operation.operands[use.index] = total
    for op in following:
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


__all__ = ["TakenTileBlocks", "divide", "divide_parts", "take_tile_blocks"]
