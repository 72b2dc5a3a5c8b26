"""What goes wrong while a program is interpreted, with the place in the program's source."""

from __future__ import annotations

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from tileiras.errors import SourceLocation, TileirasError


class InterpreterError(TileirasError):
    """A program did what it may not do, or asked for what the interpreter does not know."""

    exit_code = 1

    def __init__(self, message: str, op: Operation | None = None):
        location = None if op is None else source_location(op.location)
        super().__init__(message if op is None else f"{short_name(op)}: {message}", location)
        self.is_located = op is not None


def short_name(op: Operation) -> str:
    """The mnemonic without its dialect: `addf` for "cuda_tile.addf"."""
    return op.name.removeprefix("cuda_tile.")


def source_location(location: Attribute) -> SourceLocation | None:
    """The file position that a location attribute holds, the innermost of a call chain."""
    match location:
        case FileLineColLoc():
            return SourceLocation(
                location.filename.data, location.line.data, location.column.data
            )
        case CallSiteLoc():
            return source_location(location.callee)
        case FusedLoc():
            found = (source_location(inner) for inner in location.locations)
            return next((place for place in found if place is not None), None)
        case NameLoc():
            return source_location(location.location)
    return _scoped_location(location)


def _scoped_location(location: Attribute) -> SourceLocation | None:
    """The position inside a debug-info location, which wraps a plain one."""
    for name in ("loc", "location", "source"):
        inner = getattr(location, name, None)
        if isinstance(inner, Attribute):
            return source_location(inner)
    return None
