"""What token order says about loads that the producer does by itself, ahead of the consumers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue, Use

from tileiras.analysis.memory_hazards import ACQUIRES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.memory import (
    LoadBase,
    StoreBase,
    TiledLoadBase,
    TiledStoreBase,
)
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.planning.operands.tma import OperandLoad

WRITES = (StoreBase, TiledStoreBase, aa.AtomicCASOp, aa.AtomicRMWOp, aa.TiledAtomicRedOp)
"""Operations that write global memory."""


def follows_write(load: OperandLoad) -> bool:
    """Whether token order puts the load after a write of this kernel or what others wait for.

    Then it may not run ahead: it would miss what this or another tile block, or grid, has written.
    """
    pending: list[SSAValue] = [] if load.token is None else [load.token]
    seen: dict[SSAValue, None] = {}
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen[value] = None
        owner = value.owner
        if isinstance(owner, Operation):
            if _ends_running_ahead(owner):
                return True
            if isinstance(owner, aa.ForOp | aa.LoopOp | aa.IfOp):
                pending += _leaving_tokens(owner)
            pending += _tokens(owner)
        elif isinstance(loop := owner.parent_op(), aa.ForOp | aa.LoopOp):
            pending += [*_tokens(loop), *_leaving_tokens(loop)]
    return False


def _ends_running_ahead(op: Operation) -> bool:
    """Whether what follows an operation in token order must really come after it."""
    if isinstance(op, aa.GridDependencyOp):
        return op.kind.data == "wait"
    if isinstance(op, LoadBase | TiledLoadBase):
        return op.ordering.data in ACQUIRES
    return isinstance(op, WRITES)


def _tokens(op: Operation) -> list[SSAValue]:
    """The tokens that an operation takes."""
    return [value for value in op.operands if isinstance(value.type, aa.MemTokenType)]


def _leaving_tokens(op: Operation) -> list[SSAValue]:
    """Tokens that the terminators inside an operation hand on."""
    terminators = (aa.YieldOp, aa.ContinueOp, aa.BreakOp)
    return [
        token for inner in op.walk() if isinstance(inner, terminators) for token in _tokens(inner)
    ]


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
