"""Addresses of what a lock guards are computed before the wait for the lock.

    cond_br %first, ^wait, ^after              %p = gep ..; %m = icmp ..
  ^after: barrier                        ->    cond_br %first, ^wait, ^after
    %p = gep ..; %m = icmp ..                ^after: barrier
    load %p if %m                              load %p if %m

The thread that waits would compute them while all others wait for it, lock in hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from tileiras.dialects.llvm.memory import LoadOp, StoreOp
from tileiras.dialects.llvm.types import SHARED, bit_width, pointer_type
from tileiras.dialects.nvvm.access import GuardedLoadOp, GuardedStoreOp
from tileiras.errors import required

MOST_WORDS = 64
"""Registers that what is computed early may take while a thread waits: more would be spilled."""


def compute_addresses_early(before: Block, after: Block) -> None:
    """Moves what the accesses in `after` need for addresses and guards to the end of `before`.

    `before` dominates `after`; what stays is what follows from something that happens there.
    """
    last = required(before.last_op, "a block without a terminator", "lowering")
    needed = _needed(after)
    if _words(after, needed) > MOST_WORDS:
        return
    moved: set[Operation] = set()
    for op in list(after.ops):
        if op not in needed or not op.has_trait(Pure):
            continue
        owners = [value.owner for value in op.operands]
        if all(_is_known(owner, after, moved) for owner in owners):
            op.detach()
            before.insert_op_before(op, last)
            moved.add(op)


def _words(block: Block, needed: set[Operation]) -> int:
    """Registers of a thread for the addresses and guards of a block's accesses."""
    places = dict.fromkeys(value for op in block.ops for value in _places(op))
    return sum(-(-bit_width(value.type) // 32) for value in places if value.owner in needed)


def _is_known(owner: Operation | Block, after: Block, moved: set[Operation]) -> bool:
    """Whether what makes a value is not, or no longer, in the block `after`."""
    if isinstance(owner, Block):
        return owner is not after
    return owner in moved or owner.parent_block() is not after


def _needed(block: Block) -> set[Operation]:
    """The operations of a block that addresses and guards of its accesses follow from."""
    found: set[Operation] = set()
    pending = [value for op in block.ops for value in _places(op)]
    while pending:
        value = pending.pop()
        if not isinstance(value, OpResult) or value.op in found:
            continue
        if value.op.parent_block() is block:
            found.add(value.op)
            pending += value.op.operands
    return found


def _places(op: Operation) -> Iterator[SSAValue]:
    """Address and guard of an access to memory that others see, whose addresses take long."""
    match op:
        case GuardedLoadOp() | GuardedStoreOp():
            yield op.pointers
            if op.predicate is not None:
                yield op.predicate
        case LoadOp() | StoreOp() if op.pointer.type != pointer_type(SHARED):
            yield op.pointer
        case _:
            pass
