"""Tokens of the text form, and the errors of reading it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NoReturn

from tileiras.errors import BytecodeError, RelatedPlace, SourceLocation
from tileiras.excerpts import shortened, shown_input
from tileiras.suggestions import did_you_mean

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_TOKEN = re.compile(
    r"""
    (?P<value>%(?:[0-9]+|[A-Za-z$._-][\w$.-]*))
  | (?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]|\\.)*"))
  | (?P<hash>\#[\w$.]+)
  | (?P<bang>![A-Za-z_][\w$.]*)
  | (?P<label>\^[\w$.-]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<hex>0x[0-9A-Fa-f]+)
  | (?P<float>[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?)
  | (?P<integer>[0-9]+)
  | (?P<word>[A-Za-z_][\w$.]*)
  | (?P<mark>->|[-(){}\[\]<>,:=?*+|])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


MAX_DIGITS = 64
"""Digits of an integer, and of a float's exponent and fraction times sixteen."""


class ParseError(BytecodeError):
    """The text is not Tile IR; the location is the place in the text, `start` its offset."""

    start = 0


@dataclass(frozen=True)
class Token:
    """A token: its kind (a group of the grammar above, or `end`), its text and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def shown(self) -> str:
        """The token as messages name it."""
        return "the end of the text" if self.kind == "end" else f"'{shown_input(self.text)}'"


def unquoted(text: str) -> str:
    """The characters of a string literal; two hexadecimal digits after a backslash are a byte."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    raw = bytearray()
    at = 0
    for match in _ESCAPE.finditer(body):
        raw += body[at : match.start()].encode()
        digits, char = match.groups()
        raw += bytes([int(digits, 16)]) if digits else _ESCAPED.get(char, char).encode()
        at = match.end()
    raw += body[at:].encode()
    return raw.decode("utf-8", "surrogateescape")


class Lexer:
    """Reads tokens one at a time, with one token of lookahead."""

    def __init__(self, text: str, filename: str):
        self.text = text
        self.filename = filename
        self._lines: list[int] | None = None
        self._position = 0
        self._next: Token | None = None
        self._end = 0

    # Places ----------------------------------------------------------------------------------

    def place(self, offset: int) -> SourceLocation:
        """The line and column of an offset in the text."""
        if self._lines is None:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        return SourceLocation(self.filename, line, offset - self._lines[line - 1] + 1)

    def fail(
        self,
        message: str,
        token: Token | None = None,
        label: str = "",
        related: tuple[str, Token] | None = None,
    ) -> NoReturn:
        """Raises a ParseError at a token, the next one by default.

        `label` stands under the source line; `related` is a note at another token.
        """
        start = (self.peek() if token is None else token).start
        error = self.error_at(message, start)
        error.label = label
        if related is not None:
            error.related.append(RelatedPlace(related[0], self.place(related[1].start)))
        raise error

    def error_at(self, message: str, start: int) -> ParseError:
        """The error at an offset of the text."""
        error = ParseError(shortened(message), self.place(start))
        error.start = start
        return error

    # Tokens ----------------------------------------------------------------------------------

    def peek(self) -> Token:
        """The next token, which is not taken."""
        if self._next is None:
            space = _SPACE.match(self.text, self._position)
            start = self._position if space is None else space.end()
            match = _TOKEN.match(self.text, start)
            if match is not None:
                self._next = Token(match.lastgroup or "", match[0], start)
                self._end = match.end()
            elif start >= len(self.text):
                self._next = Token("end", "", start)
                self._end = start
            else:
                char = self.text[start]
                quote = start + (char == "@")
                if self.text[quote : quote + 1] == '"':
                    raise self.error_at("string does not end on its line", quote)
                raise self.error_at(f"unexpected character {char!r}", start)
        return self._next

    def take(self) -> Token:
        """The next token, taken."""
        token = self.peek()
        self._position = self._end
        self._next = None
        return token

    def seek(self, position: int) -> None:
        """Goes on reading at an offset of the text."""
        self._position = position
        self._next = None

    def next_start(self) -> int:
        """The offset of the next token, which may be none."""
        space = _SPACE.match(self.text, self._position)
        return self._position if space is None else space.end()

    def tell(self) -> int:
        """The offset of the next token."""
        return self.peek().start

    def match_raw(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches a pattern where the next token starts, and takes what it matches."""
        match = pattern.match(self.text, self.tell())
        if match is not None:
            self.seek(match.end())
        return match

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this word or mark."""
        token = self.peek()
        if token.text != text or token.kind not in ("word", "mark"):
            return False
        self.take()
        return True

    def expect(self, text: str) -> Token:
        """Takes the next token, which must be this word or mark."""
        token = self.peek()
        if token.text != text or token.kind not in ("word", "mark"):
            self.fail(f"found {token.shown}, expected '{text}'")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Takes the next token, which must be of a kind."""
        token = self.peek()
        if token.kind != kind:
            self.fail(f"found {token.shown}, expected {what}")
        return self.take()

    # Literals --------------------------------------------------------------------------------

    def word(self, what: str) -> str:
        """A bare word."""
        return self.expect_kind("word", what).text

    def choice(self, words: tuple[str, ...], what: str) -> str:
        """One of these words."""
        token = self.peek()
        if token.kind != "word" or token.text not in words:
            label = did_you_mean(token.text, words) if token.kind == "word" else ""
            self.fail(f"found {token.shown}, expected {what}: {', '.join(words)}", label=label)
        return self.take().text

    def string(self, what: str) -> str:
        """A string literal."""
        return unquoted(self.expect_kind("string", what).text)

    def symbol(self, what: str) -> str:
        """A symbol name, without its @."""
        text = self.expect_kind("symbol", what).text[1:]
        return unquoted(text) if text.startswith('"') else text

    def integer(self, what: str) -> int:
        """An integer, decimal or hexadecimal, with an optional sign."""
        negative = self.accept("-")
        token = self.peek()
        if token.kind not in ("integer", "hex"):
            self.fail(f"found {token.shown}, expected {what}")
        self.take()
        value = self.number(token.text, token)
        return -value if negative else value

    def number(self, digits: str, token: Token) -> int:
        """The value of decimal digits or of `0x` and hexadecimal ones, of sensible length."""
        if len(digits) > MAX_DIGITS:
            self.fail(f"number has {len(digits)} digits, expected at most {MAX_DIGITS}", token)
        return int(digits, 16) if digits.startswith("0x") else int(digits)

    def listed(self, open_mark: str, close_mark: str, item: object) -> list[object]:
        """Items between two marks, separated by commas; `item` is called for each."""
        self.expect(open_mark)
        items: list[object] = []
        if self.accept(close_mark):
            return items
        while True:
            items.append(item())  # type: ignore[operator]
            if not self.accept(","):
                break
        self.expect(close_mark)
        return items
