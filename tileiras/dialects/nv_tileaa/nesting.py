"""Looking outwards through structured control flow."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.errors import InternalError


def enclosing(op: Operation, *classes: type[Operation]) -> Operation:
    """The nearest operation around `op` of one of the classes."""
    current = op.parent_op()
    while current is not None and not isinstance(current, classes):
        current = current.parent_op()
    if current is None:
        raise InternalError(f"'{op.name}' stands outside of what it belongs to")
    return current
