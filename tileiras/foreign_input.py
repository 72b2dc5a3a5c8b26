"""Says what is wrong with an input that is neither bytecode nor text of a stage.

Text is told its place, like every mistake in text; all else in the words that clients look for.
"""

from __future__ import annotations

import re

from tileiras.errors import BytecodeError, SourceLocation
from tileiras.excerpts import show_source, shown_input

NOT_TILE_IR = "input does not correspond to Tile IR bytecode"
"""What clients look for when an input is rejected."""

_LOOKED_AT = 1 << 16
"""Bytes of an input that are looked at for its first word."""
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
"""Bytes that no text has."""
_SKIPPED = re.compile(r"(?:\s|//[^\n]*)*")
_WORD = re.compile(r"[\w$.]+|\S")
_ENCODING = "utf-8-sig"
_LANGUAGES = {
    "PTX": re.compile(r"^\s*\.version\s+\d", re.MULTILINE),
    "LLVM IR": re.compile(r"^(?:target (?:datalayout|triple) =|define [^\n]*@)", re.MULTILINE),
}
"""Later forms of a kernel, which the compiler writes and does not read, and how to know them."""


def later_form(text: str, filename: str) -> BytecodeError | None:
    """The error for PTX or LLVM IR, in place of what Tile IR's parser makes of it; else None."""
    for language, pattern in _LANGUAGES.items():
        if (found := pattern.search(text)) is not None:
            at = found.start() + len(found[0]) - len(found[0].lstrip())
            message = f"found {language}, expected Tile IR or text of a stage up to llvm-dialect"
            return _located(message, text, at, filename)
    return None


def without_a_word(source: bytes, filename: str) -> BytecodeError:
    """The error for an input in which no word of Tile IR stands."""
    head = source[:_LOOKED_AT]
    try:
        text = head.decode(_ENCODING)
    except UnicodeDecodeError as error:
        if len(source) == len(head) or error.start < len(head) - 4:
            return not_decoded(source, error.start, filename)
        text = head[: error.start].decode(_ENCODING)  # a character was cut in two
    if not text or _BINARY.search(source) is not None:
        return BytecodeError(NOT_TILE_IR)
    skipped = _SKIPPED.match(text)
    start = 0 if skipped is None else skipped.end()
    word = _WORD.match(text, start)
    what = "the end of the text" if word is None else f"'{shown_input(word[0])}'"
    found = f"found {what}, expected Tile IR: a module, an entry or a global"
    return _located(found, text, start, filename)


def not_decoded(source: bytes, start: int, filename: str) -> BytecodeError:
    """The error for an input that is no UTF-8 at byte `start`."""
    if _BINARY.search(source) is not None:
        return BytecodeError(NOT_TILE_IR)
    found = f"byte {source[start]:#04x} is no part of UTF-8, the encoding of text"
    before = len(source[:start].decode(_ENCODING))
    return _located(found, source.decode(_ENCODING, errors="replace"), before, filename)


def _located(message: str, text: str, at: int, filename: str) -> BytecodeError:
    """An error at an offset of the text, with its line."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    error = BytecodeError(message, SourceLocation(filename, line, column))
    show_source(error, text, filename)
    return error
