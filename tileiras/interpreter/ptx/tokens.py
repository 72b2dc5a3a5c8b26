"""Splits PTX text into tokens (PTX ISA, "Syntax")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileiras.interpreter.ptx.errors import PtxSyntaxError

_PATTERN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+|//[^\n]*)
  | (?P<newline>\n)
  | (?P<comment>/\*.*?\*/)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<bits>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})
  | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<name>[%$_a-zA-Z][\w$]*(?:(?:\.|::)\w[\w$]*)*)
  | (?P<directive>\.[a-zA-Z_]\w*(?:::\w+)*)
  | (?P<mark>@!|[{}()\[\]<>,;:=+\-*!|@~&])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text: its kind (`name`, `integer`, `mark`, ...), text and line."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """All tokens, closed by one of kind `end`; PtxSyntaxError for a character of no token."""
    tokens: list[Token] = []
    line, position, size = 1, 0, len(text)
    match = _PATTERN.match
    while position < size:
        found = match(text, position)
        if found is None:
            raise PtxSyntaxError(f"'{text[position]}' begins no token of PTX", line)
        position = found.end()
        kind = found.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += found.group().count("\n")
        elif kind != "space":
            tokens.append(Token(kind, found.group(), line))
    tokens.append(Token("end", "", line))
    return tokens
