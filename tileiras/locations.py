"""From xDSL's location attributes to the file, line and column that a user is shown."""

from __future__ import annotations

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from tileiras.errors import SourceLocation


def resolve_location(location: Attribute) -> SourceLocation | None:
    """The source place that the location stands for, None if it stands for none.

    Of a fused location the first part that has a place counts, of a call site the callee.
    """
    match location:
        case FileLineColLoc():
            return SourceLocation(
                location.filename.data, location.line.data, location.column.data
            )
        case NameLoc():
            return resolve_location(location.location)
        case FusedLoc():
            places = (resolve_location(part) for part in getattr(location.locations, "data", ()))
            return next((place for place in places if place is not None), None)
        case CallSiteLoc():
            return resolve_location(location.callee) or resolve_location(location.caller)
        case _:
            return None


def source_location(op: Operation) -> SourceLocation | None:
    """Where the operation came from; its nearest enclosing operation with a place otherwise."""
    current: Operation | None = op
    while current is not None:
        if (place := resolve_location(current.location)) is not None:
            return place
        current = current.parent_op()
    return None
