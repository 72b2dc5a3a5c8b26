"""What goes wrong while a program is interpreted, with the place in the program's source."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.errors import TileirasError


class InterpreterError(TileirasError):
    """A program did what it may not do, or asked for what the interpreter does not know."""

    exit_code = 1

    def __init__(self, message: str, op: Operation | None = None):
        location = None if op is None else source_location(op.location)
        super().__init__(message if op is None else f"{short_name(op)}: {message}", location)
        self.is_located = op is not None

    def located(self, op: Operation) -> InterpreterError:
        """The error with the op's name and location, unless an inner op gave its own."""
        return self if self.is_located else type(self)(self.message, op)


class UnknownOperationError(InterpreterError):
    """An operation, a function or a text that the interpreter has no rule for."""


def short_name(op: Operation) -> str:
    """The mnemonic without its dialect: `addf` for "cuda_tile.addf"."""
    return op.name.removeprefix("cuda_tile.")
