"""Which tile blocks end at once: the branch that leaves before warps are sent to their programs.

Setting up mbarriers, registers and tensor maps takes a microsecond or two; a CTA that leaves at its
first instructions takes nanoseconds.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa

_PLACES = (aa.GetProgramIdOp, aa.GetNumProgramsOp, aa.GetGridSizeOp)


def early_exit(block: Block) -> aa.IfOp | None:
    """The branch that ends the kernel, if all before it are scalars that cost nothing."""
    for op in block.ops:
        if isinstance(op, aa.IfOp):
            then, other = op.then_region.first_block, op.else_region.first_block
            ends = then is not None and isinstance(then.first_op, aa.ReturnOp)
            goes_on = other is None or len(other.ops) <= 1
            return op if ends and goes_on and not op.results else None
        if op.regions or not (op.has_trait(Pure) or isinstance(op, _PLACES)):
            return None
    return None


def with_condition(exit: aa.IfOp) -> list[Operation]:
    """What its condition is made of, and the exit itself, in order."""
    block = exit.parent_block()
    wanted: dict[Operation, None] = {exit: None}
    pending: list[Operation] = [exit]
    while pending:
        for value in pending.pop().operands:
            owner = value.owner
            if isinstance(owner, Operation) and owner not in wanted:
                wanted[owner] = None
                pending.append(owner)
    return [op for op in block.ops if op in wanted] if block is not None else []
