"""Looking outwards through structured control flow."""

from __future__ import annotations

from collections.abc import Iterator

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


def comes_before(first: Operation, second: Operation) -> bool:
    """Whether the first is done before the second, which may run in the same pass of a block."""
    around = {id(block): place for block, place in _places(first)}
    for block, place in _places(second):
        other = around.get(id(block))
        if other is not None:
            return other is not place and block.get_operation_index(other) < (
                block.get_operation_index(place)
            )
    return False


def _places(op: Operation) -> Iterator[tuple[Block, Operation]]:
    """The blocks around an operation, inner ones first, and what stands there for it."""
    current: Operation | None = op
    while current is not None and (block := current.parent_block()) is not None:
        yield block, current
        current = block.parent_op()
