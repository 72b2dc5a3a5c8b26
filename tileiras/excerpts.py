"""Shows the source line of an error with a caret under the place, where the source is text.

loc("k.mlir":3:8): error: unknown operation 'addff'
  3 |   %0 = addff %a, %b : tile<f32>
    |        ^^^^^ did you mean 'addf'?
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileiras.errors import SourceLocation, TileirasError

WIDTH = 80
"""Characters of a source line that are shown at most."""

_WORD = re.compile(r'[%#@!^]?[\w$.]+|"(?:[^"\\\n]|\\.)*"?|->|.', re.DOTALL)
_LONG = re.compile(rf"[^\s']{{{WIDTH + 1},}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def shown_input(text: str, limit: int = WIDTH) -> str:
    """A piece of the input as a message may repeat it: printable, and cut after `limit`."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return _CONTROL.sub("?", text)


def shortened(message: str) -> str:
    """A message in which no word, quoted or not, is longer than what may be repeated of input."""
    return _LONG.sub(lambda match: shown_input(match[0]), message)


def show_source(error: TileirasError, text: str, filename: str) -> None:
    """Gives the error, and all that it carries, the source lines of their places in the text."""
    lines = text.split("\n")
    error.in_text = True
    for one in error.every_mistake():
        if one.location is not None and one.location.filename == filename:
            one.excerpt = excerpt(lines, one.location, one.label)
        for place in one.related:
            if place.location.filename == filename:
                place.excerpt = excerpt(lines, place.location)


def excerpt(lines: Sequence[str], place: SourceLocation, label: str = "") -> str:
    """Two lines: the source, and carets under the word at the place with the label.

    Empty where the text has no such line. A long line is cut around the place.
    """
    if not 1 <= place.line <= len(lines):
        return ""
    line = lines[place.line - 1]
    column = min(max(place.column - 1, 0), len(line))
    word = _WORD.match(line, column)
    start = max(0, column - WIDTH // 2) if len(line) > WIDTH else 0
    shown = _CONTROL.sub(" ", line[start : start + WIDTH])
    length = max(1, min(word.end() if word else column + 1, start + WIDTH) - column)
    number = str(place.line)
    gutter = " " * (len(number) + 2)
    under = " " * (column - start) + "^" * length
    return f"  {number} | {shown.rstrip()}\n{gutter} | {under}{' ' + label if label else ''}"
