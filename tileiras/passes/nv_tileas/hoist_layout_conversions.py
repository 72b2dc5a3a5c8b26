"""The pass `tileas-hoist-layout-conversions`: changes of layout before others wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import replace_op

_USES_OF_STAGES = (*wg.CONSUMER_OPS, pl.FreePipelinesOp)


@dataclass(frozen=True)
class HoistLayoutConversionsPass(IrPass):
    """Converts once before a branch what both sides convert, and before a loop what waits for it.

    Before   loop { .. atomic_cas %lock .. };  if %c { %p = convert_layout %t; .. }
             else { %q = convert_layout %t; .. }
    After    %p = convert_layout %t;  loop { .. atomic_cas %lock .. };  if %c { .. } else { .. }
    Requires every tensor in its layout
    Leaves   conversions of values that are not known before the branch or the loop, and those
             whose pipelines are still in use: until then there is little memory to go through
    """

    name = "tileas-hoist-layout-conversions"
    title: ClassVar[str] = "Hoist layout conversions"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions of the module."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                _hoist(list(func.walk()))


def _hoist(ops: Sequence[Operation]) -> None:
    """Does so for all operations of a kernel, inner branches first."""
    for branch in reversed([op for op in ops if type(op) is aa.IfOp]):
        sides = [_conversions(region.block) for region in branch.regions if region.blocks]
        if len(sides) == 2:
            for first in sides[0]:
                _share(branch, first, [op for op in sides[1] if _are_equal(first, op)])
    for waiting in [op for op in ops if type(op) is aa.LoopOp and _waits(op)]:
        for conversion in list(_conversions_after(waiting)):
            _put_behind_source(conversion)


def _conversions(block: Block) -> list[tas.ConvertLayoutOp]:
    return [op for op in block.ops if isinstance(op, tas.ConvertLayoutOp)]


def _are_equal(first: tas.ConvertLayoutOp, second: tas.ConvertLayoutOp) -> bool:
    return first.source is second.source and first.result.type == second.result.type


def _share(branch: aa.IfOp, first: tas.ConvertLayoutOp, others: list[tas.ConvertLayoutOp]) -> None:
    """Puts a conversion in front of the branch; others like it are replaced."""
    block = branch.parent_block()
    if not others or block is None or branch.is_ancestor(first.source.owner):
        return
    first.detach()
    block.insert_op_before(first, branch)
    for other in others:
        replace_op(other, [first.result])


def _waits(op: Operation) -> bool:
    """Whether there is an atomic in a loop: it waits for another tile block."""
    atomics = (aa.AtomicCASOp, aa.AtomicRMWOp)
    return any(isinstance(inner, atomics) for inner in op.walk())


def _conversions_after(waiting: Operation) -> Iterator[tas.ConvertLayoutOp]:
    """Conversions behind a loop, in branches too, of values made before it in its block."""
    before: set[Operation] = set()
    op = waiting.prev_op
    while op is not None:
        before.add(op)
        op = op.prev_op
    op = waiting.next_op
    while op is not None:
        inside = op.walk() if isinstance(op, aa.IfOp) else (op,)
        for inner in list(inside):
            if isinstance(inner, tas.ConvertLayoutOp) and inner.source.owner in before:
                yield inner
        op = op.next_op


def _put_behind_source(conversion: tas.ConvertLayoutOp) -> None:
    """Behind the last use of a stage, though: until then there is little memory to go through."""
    source = conversion.source
    if not isinstance(source, OpResult) or (block := source.op.parent_block()) is None:
        return
    place: Operation = source.op
    op = place.next_op
    while op is not None and not op.is_ancestor(conversion):
        if any(isinstance(inner, _USES_OF_STAGES) for inner in op.walk()):
            place = op
        op = op.next_op
    conversion.detach()
    block.insert_op_after(conversion, place)
