"""Where an operation came from, for messages."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.errors import SourceLocation


def place_of(op: Operation) -> SourceLocation | None:
    """The source place of the operation, or of its nearest enclosing operation that has one."""
    current: Operation | None = op
    while current is not None:
        if (place := source_location(current.location)) is not None:
            return place
        current = current.parent_op()
    return None
