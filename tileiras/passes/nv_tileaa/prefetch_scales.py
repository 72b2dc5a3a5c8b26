"""The pass `tileaa-prefetch-scales`: scales of a product are loaded an iteration early.

    for %i { %s = tiled_load %v[%x, %i]; dot_scaled .. by %s .. }   ->
    %s0 = tiled_load %v[%x, %first]
    for %i iter(%s = %s0) {
      %n = tiled_load %v[%x, %i + %step]; dot_scaled .. by %s ..; continue %n }

Operands come through pipelines, scales go to registers: rows of a few bytes are too short for TMA.
So they are under way while the iteration before multiplies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.schedule import is_repeatable
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import replace_op, replace_op_by
from tileiras.planning.mma.block_scaled import is_scale_use
from tileiras.planning.strategy import drop_strategy


@dataclass(frozen=True)
class PrefetchScalesPass(IrPass):
    """Loads the scales of the next iteration's products in the iteration before.

    Before   for %i { %s = tiled_load %v[%x, %i]; %d = dot_scaled %a by %s, .. }
    After    %s0 = tiled_load %v[%x, %lower]; for %i iter(%s = %s0) {
             %n = tiled_load %v[%x, %i + %step]; %d = dot_scaled %a by %s, ..; continue %n }
    Requires nv_tileaa, with the loads that start several iterations early out of the way; a kernel
             that it changes loses its strategy
    Leaves   loads that others read or wait for, that wait for something in the loop, or whose
             indices are not computed from the induction variable alone
    """

    name = "tileaa-prefetch-scales"
    title: ClassVar[str] = "Load scales of products an iteration early"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Goes through the loops of all functions."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and _prefetch_in(func):
                drop_strategy(func)


def _prefetch_in(func: aa.FuncOp) -> bool:
    """Rebuilds the loops of a function; False if none has such loads."""
    done = False
    for loop in [inner for inner in func.walk() if isinstance(inner, aa.ForOp)]:
        loads = [load for load in loop.body.block.ops if _may_be_early(load, loop)]
        if loads:
            _prefetch(loop, [load for load in loads if isinstance(load, aa.TiledLoadOp)])
            done = True
    return done


def _may_be_early(load: Operation, loop: aa.ForOp) -> bool:
    """Whether a load brings scales and nothing of the loop has to happen before it."""
    if not isinstance(load, aa.TiledLoadOp) or load.ordering.data != MemoryOrdering.WEAK:
        return False
    uses = list(load.result.uses)
    is_scale = bool(uses) and all(map(is_scale_use, uses))
    if not is_scale or load.result_token.first_use is not None:
        return False
    if load.token is not None and not _is_unordered(load.token, loop):
        return False
    if _is_inside(load.view, loop):
        return False
    return all(_is_counted(index, loop) for index in load.indices)


def _is_unordered(token: SSAValue, loop: aa.ForOp) -> bool:
    """Whether a token says nothing of what happens in the loop."""
    return not _is_inside(token, loop) or isinstance(token.owner, aa.CreateMemTokenOp)


def _is_inside(value: SSAValue, loop: aa.ForOp) -> bool:
    owner = value.owner
    if isinstance(owner, Block):
        return owner is loop.body.block or loop.is_ancestor(owner)
    return loop.is_ancestor(owner)


def _is_counted(value: SSAValue, loop: aa.ForOp) -> bool:
    """Whether a value follows from the induction variable and what is outside the loop."""
    if not _is_inside(value, loop):
        return True
    if value is loop.body.block.args[0]:
        return True
    owner = value.owner
    return (
        isinstance(owner, Operation)
        and owner.parent_block() is loop.body.block
        and is_repeatable(owner)
        and all(_is_counted(operand, loop) for operand in owner.operands)
    )


def _prefetch(loop: aa.ForOp, loads: Sequence[aa.TiledLoadOp]) -> None:
    """Puts a loop in the place of one, with what the loads bring handed from turn to turn."""
    block = loop.body.block
    induction = block.args[0]
    before = ScalarBuilder()
    before.location = loop.location
    known: dict[SSAValue, SSAValue] = {induction: loop.lower_bound}
    firsts = [_load_at(before, load, loop, known) for load in loads]
    early = ScalarBuilder()
    early.location = loop.location
    known = {induction: early.binary(aa.AddIOp, induction, loop.step)}
    nexts = [_load_at(early, load, loop, known) for load in loads]
    first_op = block.first_op
    if first_op is not None:
        early.put_before(first_op)
    before.put_before(loop)
    for load in loads:
        argument = block.insert_arg(load.result.type, len(block.args))
        replace_op(load, [argument])
    last = block.last_op
    if last is not None:
        last.operands = [*last.operands, *nexts]
    _rebuild(loop, firsts)


def _load_at(
    builder: ScalarBuilder, load: aa.TiledLoadOp, loop: aa.ForOp, known: dict[SSAValue, SSAValue]
) -> SSAValue:
    """The load with other indices; it may lie out of bounds, behind the last iteration."""
    builder.location = load.location
    indices = [_repeated(builder, index, loop, known) for index in load.indices]
    token = None if load.token is None else _repeated_token(builder, load.token, loop)
    properties = dict(load.properties)
    properties["inbounds"] = DenseArrayBase.from_list(i1, [0] * len(load.inbounds))
    operands = [load.view, *indices, *([token] if token is not None else [])]
    types = [load.result.type, load.result_token.type]
    return builder.emit(aa.TiledLoadOp, operands, types, properties).results[0]


def _repeated_token(builder: ScalarBuilder, token: SSAValue, loop: aa.ForOp) -> SSAValue:
    """A token that says as much: one of the loop is a new one."""
    if not _is_inside(token, loop):
        return token
    return builder.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]


def _repeated(
    builder: ScalarBuilder, value: SSAValue, loop: aa.ForOp, known: dict[SSAValue, SSAValue]
) -> SSAValue:
    """A value for another turn of the loop."""
    if value in known or not _is_inside(value, loop):
        return known.get(value, value)
    op = value.owner
    if isinstance(op, Block):
        return value
    operands = [_repeated(builder, operand, loop, known) for operand in op.operands]
    types = [result.type for result in op.results]
    made = builder.emit(type(op), operands, types, op.properties)
    known.update(zip(op.results, made.results, strict=True))
    return known[value]


def _rebuild(loop: aa.ForOp, firsts: Sequence[SSAValue]) -> None:
    """The loop with more values carried."""
    block = loop.body.block
    loop.body.detach_block(block)
    new = aa.ForOp.create(
        operands=[*loop.operands, *firsts],
        result_types=[*(result.type for result in loop.results), *(v.type for v in firsts)],
        properties=dict(loop.properties),
        attributes=dict(loop.attributes),
        regions=[Region(block)],
        location=loop.location,
    )
    replace_op_by(loop, new)
