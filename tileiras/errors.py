"""Every error the compiler reports, sorted by whose fault it is.

A message is lower case, has no full stop, and says what was found and what was expected. The
location comes first when printed, in the form that clients parse:
`loc("kernel.py":12:8): error: message`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class SourceLocation:
    """A place in the user's source: file name, 1-based line and column."""

    filename: str
    line: int
    column: int

    def __str__(self) -> str:
        """The form that clients parse, `loc("file":line:column)`."""
        return f'loc("{self.filename}":{self.line}:{self.column})'


class TileirasError(Exception):
    """Base of all errors that end a compilation; `exit_code` is the process's exit status."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, location: SourceLocation | None = None):
        super().__init__(message)
        self.message = message
        self.location = location
        self.notes: list[str] = []

    def render(self) -> str:
        """The diagnostic as printed on stderr, without a final newline."""
        prefix = f"{self.location}: " if self.location is not None else ""
        lines = [f"{prefix}error: {self.message}", *(f"note: {note}" for note in self.notes)]
        return "\n".join(lines)


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
