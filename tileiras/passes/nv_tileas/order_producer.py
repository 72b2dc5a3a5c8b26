"""The pass `tileas-order-producer`: what takes a trip to memory goes first.

Loads of indices and the making of tensor maps take a microsecond each. A warp waits at the first
use of what it loads, so everything that does not need the loaded values is moved before what does:
the loads are under way while the maps are made. In a stage that is also gathered into, one thread
issues what TMA brings before all threads compute addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp
from tileiras.ir_pass import CompileContext, IrPass

_LOADS = (tas.LoadOp, tas.TiledLoadOp)


@dataclass(frozen=True)
class OrderProducerPass(IrPass):
    """Puts loads, tensor maps and copies by TMA in the order in which the producer issues them.

    Before   agent_switch producer { %x = load %p;  %i = muli %x, %c;  %m = make_tiled_tma_desc %v;
             producer_acquire %q;  gather_load %q, ..;  tiled_tma_load %q, %m, .. }
    After    agent_switch producer { %x = load %p;  %m = make_tiled_tma_desc %v;  %i = muli %x, %c;
             producer_acquire %q;  tiled_tma_load %q, %m, ..;  gather_load %q, .. }
    Requires nv_tileas with the programs of warp roles
    Leaves   loads and maps behind the first loop, branch or use of a pipeline; maps of views whose
             sizes are loaded; copies by TMA whose indices are computed within their stage
    """

    name = "tileas-order-producer"
    title: ClassVar[str] = "Order what the producer issues"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Orders the producers of all functions of the module."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                for switch in pl.switches_of(func):
                    put_loads_first(switch.producer.block)
                    put_tma_before_gathers(switch.producer.block)


def put_loads_first(block: Block) -> None:
    """Reorders a block up to its first loop, branch or wait: loads, tensor maps, uses of loads."""
    start = _straight_line(block)
    if not any(isinstance(op, _LOADS) for op in start):
        return
    late: dict[Operation, None] = {}
    for op in start:
        owners = [value.owner for value in op.operands]
        if any(owner in late or isinstance(owner, _LOADS) for owner in owners):
            late[op] = None
    makers = [op for op in start if isinstance(op, pl.MakeTensorMapOp) and op not in late]
    behind = start[-1].next_op
    for op in [*makers, *(op for op in late if op not in makers)]:
        op.detach()
        if behind is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, behind)


def put_tma_before_gathers(block: Block) -> None:
    """Issues copies by TMA right after their stage has been acquired, if nothing is in the way."""
    acquired: dict[SSAValue, Operation] = {}
    gathers: set[SSAValue] = set()
    for op in list(block.ops):
        match op:
            case pl.ProducerAcquireOp():
                acquired[op.pipeline] = op
                gathers.discard(op.pipeline)
            case pl.GatherLoadOp() | pl.CopyLoadOp() | ScalesLoadOp():
                gathers.add(op.pipeline)
            case pl.TmaLoadOp() if op.pipeline in gathers and op.pipeline in acquired:
                place = acquired[op.pipeline]
                if not any(_is_behind(value, place) for value in op.operands):
                    op.detach()
                    block.insert_op_after(op, place)
                    acquired[op.pipeline] = op
            case _:
                for region in op.regions:
                    for inner in region.blocks:
                        put_tma_before_gathers(inner)


def _is_behind(value: SSAValue, place: Operation) -> bool:
    """Whether an operation of the block behind `place` makes the value."""
    op = place.next_op
    while op is not None:
        if op is value.owner:
            return True
        op = op.next_op
    return False


def _straight_line(block: Block) -> list[Operation]:
    """The operations before the first loop, branch or use of a pipeline."""
    result: list[Operation] = []
    for op in block.ops:
        if op.regions or (
            isinstance(op, tas.WARP_ROLE_OPS) and not isinstance(op, pl.MakeTensorMapOp)
        ):
            break
        result.append(op)
    return result
