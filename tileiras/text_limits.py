"""Looks over the text of a later stage before xDSL reads it: strings, numbers, nesting.

xDSL's lexer takes exponential time on a string that does not end, and Python's stack bounds its
parser. One linear walk finds both, with their places.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from tileiras.errors import BytecodeError, SourceLocation

MAX_DIGITS = 128
"""Digits of a number; 64-bit ones have 20."""
MAX_NESTING = 512
"""Brackets that are open at once: four for a region, and those of attributes."""

_PIECE = re.compile(
    r"""
    (?P<string>"(?:[^"\\\n\f\v\r]|\\(?:[nt"\\]|[0-9A-Fa-f]{2}))*+(?P<end>"?))
  | //[^\n]*
  | ->
  | (?P<open>[(\[{<])
  | (?P<close>[)\]}>])
  | (?P<number>(?<![\w$.])[0-9][0-9A-Za-z]*)
  | (?<![\w$.%@\#!^])[A-Za-z]+(?P<width>[0-9]{129,})
    """,
    re.VERBOSE | re.ASCII,
)


def place_in(text: str, offset: int, filename: str) -> SourceLocation:
    """The line and column of a character offset."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    line = bisect_right(starts, offset)
    return SourceLocation(filename, line, offset - starts[line - 1] + 1)


def check_text(text: str, filename: str) -> None:
    """Raises BytecodeError, with its place, for a text that is not worth reading."""
    depth = 0
    for piece in _PIECE.finditer(text):
        match piece.lastgroup:
            case "end" | "string" if not piece["end"]:
                raise BytecodeError(_string_mistake(text, piece.end()), _at(text, piece, filename))
            case "number" | "width" if (length := len(piece[piece.lastgroup])) > MAX_DIGITS:
                found = f"number has {length} digits, expected at most {MAX_DIGITS}"
                raise BytecodeError(found, _at(text, piece, filename))
            case "open":
                depth += 1
                if depth > MAX_NESTING:
                    raise BytecodeError("text is nested too deeply", _at(text, piece, filename))
            case "close":
                depth -= 1


def _at(text: str, piece: re.Match[str], filename: str) -> SourceLocation:
    return place_in(text, piece.start(), filename)


def _string_mistake(text: str, end: int) -> str:
    """What keeps a string from going on where it stops."""
    if text[end : end + 1] == "\\":
        return (
            'string has an unknown escape, expected \\n, \\t, \\\\, \\" or two hexadecimal digits'
        )
    return "string does not end on its line"
