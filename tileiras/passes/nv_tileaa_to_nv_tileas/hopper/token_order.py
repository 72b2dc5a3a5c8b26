"""What token order says about loads that the producer repeats for itself."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue, Use

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.memory import StoreBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.operands import OperandLoad

WRITES = (
    StoreBase,
    TiledStoreBase,
    aa.AtomicCASOp,
    aa.AtomicRMWOp,
    aa.MultimemReduceOp,
    aa.MultimemStoreOp,
    aa.TiledAtomicRedOp,
)


def precedes_write(load: OperandLoad) -> bool:
    """Whether a write of this kernel must wait for the load.

    The consumers, who write, do not wait for what the producer loads for itself: it might find
    what they have written.
    """
    pending: list[SSAValue] = [load.result_token]
    seen: dict[SSAValue, None] = {}
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen[value] = None
        for use in value.uses:
            if isinstance(use.operation, WRITES):
                return True
            pending += _handed_to(use)
    return False


def _handed_to(use: Use) -> Sequence[SSAValue]:
    """The tokens that come out of where a token goes."""
    op, index = use.operation, use.index
    match op:
        case aa.ForOp():
            return [op.body.block.args[index - 2], op.results[index - 3]]
        case aa.LoopOp():
            return [op.body.block.args[index]]
        case aa.ContinueOp():
            loop = enclosing(op, aa.ForOp, aa.LoopOp)
            if isinstance(loop, aa.ForOp):
                return [loop.body.block.args[index + 1], loop.results[index]]
            return [loop.regions[0].block.args[index]]
        case aa.BreakOp():
            return [enclosing(op, aa.LoopOp).results[index]]
        case aa.YieldOp():
            parent = op.parent_op()
            return [parent.results[index]] if isinstance(parent, Operation) else []
        case _:
            return [result for result in op.results if isinstance(result.type, aa.MemTokenType)]
