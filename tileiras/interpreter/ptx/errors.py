"""What can go wrong with PTX text or while it runs, with the line of the text."""

from __future__ import annotations

from tileiras.errors import SourceLocation, TileirasError


class PtxError(TileirasError):
    """PTX that cannot be read, or a program that did what it may not do.

    `line` counts from 1; the location is filled in by whoever knows the file's name.
    """

    exit_code = 1

    def __init__(self, message: str, line: int | None = None, filename: str = "ptx"):
        location = None if line is None else SourceLocation(filename, line, 1)
        super().__init__(message, location)
        self.line = line

    def in_file(self, filename: str) -> PtxError:
        """The same error with the file's name in its location."""
        if self.line is not None:
            self.location = SourceLocation(filename, self.line, 1)
        return self


class PtxSyntaxError(PtxError):
    """Text that is not PTX, or an instruction that the machine does not know."""


class PtxRuntimeError(PtxError):
    """A program that faulted: bad address, race, read of unfinished work, deadlock, budget."""
