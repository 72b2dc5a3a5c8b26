"""Every error the compiler reports, sorted by whose fault it is.

A message is lower case, has no full stop, and says what was found and what was expected. The
location comes first when printed, in the form that clients parse:
`loc("kernel.py":12:8): error: message`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

_Error = TypeVar("_Error", bound="TileirasError")
_Needed = TypeVar("_Needed")


@dataclass(frozen=True)
class SourceLocation:
    """A place in the user's source: file name, 1-based line and column."""

    filename: str
    line: int
    column: int

    def __str__(self) -> str:
        """The form that clients parse, `loc("file":line:column)`."""
        return f'loc("{self.filename}":{self.line}:{self.column})'


@dataclass
class RelatedPlace:
    """A place that explains an error, such as where a value was defined, and what is there."""

    message: str
    location: SourceLocation
    excerpt: str = ""


class TileirasError(Exception):
    """Base of all errors that end a compilation; `exit_code` is the process's exit status.

    `label` stands beside the caret under the source line, `excerpt` is that line with the caret
    (filled where the source is text, as `in_text` says), `others` are the further mistakes of the
    same input.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, location: SourceLocation | None = None, label: str = ""):
        super().__init__(message)
        self.message = message
        self.location = location
        self.label = label
        self.excerpt = ""
        self.in_text = False
        self.notes: list[str] = []
        self.related: list[RelatedPlace] = []
        self.others: list[TileirasError] = []

    def every_mistake(self) -> list[TileirasError]:
        """This error and the further ones, in the order in which they are printed."""
        return [self, *self.others]

    def render(self) -> str:
        """The diagnostics as printed on stderr, without a final newline."""
        return "\n".join(error.render_alone() for error in self.every_mistake())

    def render_alone(self) -> str:
        """This diagnostic without the further ones."""
        prefix = f"{self.location}: " if self.location is not None else ""
        lines = [f"{prefix}error: {self.message}"]
        if self.excerpt:
            lines.append(self.excerpt)
        elif self.label:
            lines.append(f"note: {self.label}")
        for place in self.related:
            lines.append(f"{place.location}: note: {place.message}")
            lines.extend([place.excerpt] if place.excerpt else [])
        lines.extend(f"note: {note}" for note in self.notes)
        return "\n".join(lines)


def note_origin(error: Exception, operation: object) -> None:
    """Remembers at which operation an exception arose, unless something nearer has done so."""
    if not hasattr(error, _ORIGIN):
        setattr(error, _ORIGIN, operation)


def origin_of(error: Exception) -> object:
    """What `note_origin` remembered, None if nothing did."""
    return getattr(error, _ORIGIN, None)


_ORIGIN = "tileiras_origin"


def joined(errors: Sequence[_Error]) -> _Error:
    """The first of several errors, which carries the others and is what to raise."""
    first, *others = errors
    first.others = [error for other in others for error in other.every_mistake()]
    return first


class UsageError(TileirasError):
    """The command line or the input file's path is wrong."""

    exit_code = 1


class TargetError(TileirasError):
    """The target is unknown or cannot be compiled for with these options."""

    exit_code = 2


class BytecodeError(TileirasError):
    """The input is not readable Tile IR, or does not verify.

    `offset` is the byte offset in the file at which reading failed, if known.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        offset: int | None = None,
    ):
        if offset is not None:
            message = f"error at offset {offset}: {message}"
        super().__init__(message, location)
        self.offset = offset


class CompileError(TileirasError):
    """A valid program that cannot be compiled for this target, or not yet."""

    exit_code = 5


class InternalError(TileirasError):
    """Our fault: a pass broke an invariant. Names the pass; the commands keep a reproducer."""

    exit_code = 5

    def __init__(self, message: str, location: SourceLocation | None = None, where: str = ""):
        context = f" in {where}" if where else ""
        super().__init__(f"internal error{context}: {message}", location)
        self.notes.append(
            "this is a bug in tileiras; --print-before-all shows the IR before each pass"
        )


def required(value: _Needed | None, message: str, where: str = "") -> _Needed:
    """The value; raises InternalError where there is none, with what that would be."""
    if value is None:
        raise InternalError(message, where=where)
    return value
