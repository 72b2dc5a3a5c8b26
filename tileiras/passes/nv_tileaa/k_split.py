"""Cuts matrix products along K: a loop over parts of K in place of one step of K.

%a = load : 128x256;  %b = load : 256x256;  %d = dot %a, %b, %c
-> %d = for %i in [0, 4) iter(%s = %c) { load : 128x64;  load : 64x256;  dot .., .., %s }

What the operands are made from is cut as `planning/tiling/slicing` says; loads move into the loop,
so nobody else may read what they bring, and nothing that memory order puts behind one may come
before the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType, shape_of
from tileiras.passes.nv_tileaa.part_builder import PartBuilder, ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.tiling.slicing import Cut

LOADS = (aa.LoadOp, aa.TiledLoadOp)


@dataclass(frozen=True)
class KSplit:
    """Products of one block, none of which reads another's sum, and what their operands are."""

    dots: tuple[aa.DotOp, ...]
    cut: Cut
    joins: tuple[Operation, ...]
    """Joins of tokens that move behind the loop."""

    @property
    def loads(self) -> list[Operation]:
        """The loads that move into the loop."""
        return [op for op in self.cut.ops if isinstance(op, LOADS)]


def find_k_split(dots: Sequence[aa.DotOp], parts: int) -> KSplit | None:
    """The cut of products of one block, None if it cannot be."""
    block = dots[0].parent_block()
    if block is None:
        return None
    cut = Cut(block, parts)
    for dot in dots:
        rank = len(shape_of(dot.lhs))
        if not cut.needs(dot.lhs, rank - 1) or not cut.needs(dot.rhs, rank - 2):
            return None
    place = {op: number for number, op in enumerate(block.ops)}
    last = max(dots, key=place.__getitem__)
    for op in cut.ops:
        if isinstance(op, LOADS) and not _is_movable(op, cut, dots):
            return None
    moved = dict.fromkeys([*cut.ops, *dots])
    if any(_users_before(dot.result, block, place, place[last]) for dot in dots):
        return None
    joins: dict[Operation, None] = {}
    pending = [op.result_token for op in cut.ops if isinstance(op, LOADS)]
    while pending:
        for user in _users_before(pending.pop(), block, place, place[last]):
            if user in moved or user in joins:
                continue
            if not isinstance(user, aa.JoinMemTokensOp):
                return None
            joins[user] = None
            pending += user.results
    loads = [op for op in moved if isinstance(op, LOADS)]
    if any(op.token is not None and op.token.owner in joins for op in loads):
        return None
    return KSplit(tuple(dots), cut, tuple(sorted(joins, key=place.__getitem__)))


def _is_movable(load: aa.LoadOp | aa.TiledLoadOp, cut: Cut, dots: Sequence[aa.DotOp]) -> bool:
    """Whether a load is in no order with others by itself, and brings something to these only."""
    inside = dict.fromkeys([*cut.ops, *dots])
    is_weak = load.ordering.data == MemoryOrdering.WEAK
    return is_weak and all(use.operation in inside for use in load.result.uses)


def _users_before(
    value: SSAValue, block: Block, place: dict[Operation, int], last: int
) -> list[Operation]:
    """The operations of the block up to number `last` that use a value, those around uses."""
    found: dict[Operation, None] = {}
    for use in value.uses:
        user: Operation | None = use.operation
        while user is not None and user.parent_block() is not block:
            user = user.parent_op()
        if user is not None and place[user] <= last:
            found[user] = None
    return list(found)


def build_k_loop(found: KSplit) -> aa.ForOp:
    """Puts the loop over the parts in place of the last product."""
    cut, dots = found.cut, found.dots
    order = list(cut.block.ops)
    last = max(dots, key=order.index)
    waited = [token for token in map(_token_of, found.loads) if _is_waited_for(token, found)]
    before = ScalarBuilder()
    before.location = last.location
    bounds = [before.integer(bound, i32) for bound in (0, cut.parts, 1)]
    initial: list[SSAValue] = [dot.acc for dot in dots]
    initial += [before.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0] for _ in waited]
    types = [value.type for value in initial]
    body = Block(arg_types=[i32, *types])
    builder = PartBuilder(cut.parts, body, body.args[0])
    for op in cut.ops:
        builder.add(op, next(cut.dims[result] for result in op.results if result in cut.dims))
    ends: list[SSAValue] = []
    for dot, before_part in zip(dots, body.args[1:], strict=False):
        builder.location = dot.location
        rank = len(shape_of(dot.lhs))
        operands = [builder.part_of(dot.lhs, rank - 1), builder.part_of(dot.rhs, rank - 2)]
        types_of = [dot.result.type]
        part = builder.emit(aa.DotOp, [*operands, before_part], types_of, dot.properties)
        ends.append(part.results[0])
    for token, old in zip(waited, body.args[1 + len(dots) :], strict=True):
        joined = builder.emit(aa.JoinMemTokensOp, [old, builder.values[token]], [MEM_TOKEN])
        ends.append(joined.results[0])
    builder.location = last.location
    builder.emit(aa.ContinueOp, ends)
    loop = aa.ForOp.create(
        operands=[*bounds, *initial],
        result_types=types,
        regions=[Region(body)],
        location=last.location,
    )
    before.block.add_op(loop)
    before.put_before(last)
    for join in reversed(found.joins):
        join.detach()
        cut.block.insert_op_after(join, loop)
    replaced = [*(dot.result for dot in dots), *waited]
    for value, result in zip(replaced, loop.results, strict=True):
        value.replace_all_uses_with(result)
    _erase(found)
    return loop


def _token_of(load: Operation) -> SSAValue:
    """The token that a load gives."""
    return next(result for result in load.results if isinstance(result.type, MemTokenType))


def _is_waited_for(token: SSAValue, found: KSplit) -> bool:
    """Whether anything but what moves into the loop uses a token."""
    return any(use.operation not in found.cut.ops for use in token.uses)


def _erase(found: KSplit) -> None:
    """Erases the products, and what nobody uses any more."""
    for op in reversed([*found.cut.ops, *found.dots]):
        pending = any(True for result in op.results for _ in result.uses)
        tensors = any(isinstance(result.type, TensorType) for result in op.results)
        if not pending and tensors and op.parent_block() is not None:
            erase_op(op)
