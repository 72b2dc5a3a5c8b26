"""Looking outwards through structured control flow."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from tileiras.errors import InternalError


def op_block(op: Operation) -> Block:
    """The block of an operation, which is in one; InternalError else."""
    block = op.parent_block()
    if block is None:
        raise InternalError(f"'{op.name}' is in no block")
    return block


def enclosing(op: Operation, *classes: type[Operation]) -> Operation:
    """The nearest operation around `op` of one of the classes."""
    current = op.parent_op()
    while current is not None and not isinstance(current, classes):
        current = current.parent_op()
    if current is None:
        raise InternalError(f"'{op.name}' stands outside of what it belongs to")
    return current
