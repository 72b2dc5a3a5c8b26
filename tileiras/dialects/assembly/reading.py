"""Reads a whole text: whatever goes wrong is an error at a place in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError

from tileiras.dialects.assembly.parser import AssemblyParser
from tileiras.dialects.assembly.structured_readers import READERS
from tileiras.errors import BytecodeError, SourceLocation, TileirasError
from tileiras.excerpts import shown_input

MESSAGE_WIDTH = 200
"""Characters of a message of xDSL's, which may repeat the input, that are kept."""


@dataclass(frozen=True)
class ParsedModule:
    """A module and where its operations stand in the text."""

    module: ModuleOp
    places: Mapping[Operation, SourceLocation]


def read_module(context: Context, text: str, filename: str) -> ParsedModule:
    """The module of a text.

    Constructors of attributes and of xDSL raise exceptions of many kinds for values that they do
    not take; all of them mean that the text is wrong at the place that has been reached. Raises
    BytecodeError.
    """
    lines = LineStarts(text, filename)
    try:
        parser = AssemblyParser(context, text, filename, READERS)
    except ParseError as error:
        raise _located(error, lines) from error
    try:
        module = parser.parse_module()
    except ParseError as error:
        raise _located(error, lines) from error
    except RecursionError as error:
        raise BytecodeError("regions are nested too deeply", lines.place(parser.pos)) from error
    except TileirasError as error:
        raise BytecodeError(error.message, lines.place(parser.pos)) from error
    except Exception as error:
        raise BytecodeError(_one_line(str(error)), lines.place(parser.pos)) from error
    places = {op: lines.place(offset) for op, offset in parser.places.items()}
    return ParsedModule(module, places)


def _located(error: ParseError, lines: LineStarts) -> BytecodeError:
    return BytecodeError(_one_line(error.msg), lines.place(error.span.start))


def _one_line(text: str) -> str:
    """A message as ours are: one line, lower case, no full stop."""
    message = shown_input(" ".join(text.split()).rstrip(".!"), MESSAGE_WIDTH) or "cannot be parsed"
    return message[:1].lower() + message[1:]


class LineStarts:
    """Lines and columns of offsets in a text."""

    def __init__(self, text: str, filename: str):
        self._filename = filename
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def place(self, offset: int) -> SourceLocation:
        """The 1-based line and column of a character."""
        from bisect import bisect_right

        line = bisect_right(self._starts, offset)
        return SourceLocation(self._filename, line, offset - self._starts[line - 1] + 1)
