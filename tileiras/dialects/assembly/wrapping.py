"""Breaks long lines of text between tokens: readers of text take any space as one."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 140
"""Columns of a line at most."""
CONTINUATION = "    "
KEYWORD = " attributes"
"""Stands before a dictionary, on the same line."""
WORST = 6
"""The rank of a break anywhere between words."""


def wrapped(line: str, indent: str) -> list[str]:
    """The lines of one operation; those after the first are indented further.

    A string stays whole: a line that is one long string is longer.
    """
    lines: list[str] = []
    rest, prefix, depth = line, indent, 0
    while len(prefix) + len(rest) > WIDTH:
        found = _last_break(rest, WIDTH - len(prefix), depth)
        if found is None:
            break
        cut, depth = found
        lines.append(prefix + rest[:cut].rstrip())
        rest, prefix = rest[cut + 1 :], indent + CONTINUATION
    return [*lines, (prefix + rest).rstrip()]


def _last_break(text: str, room: int, opened: int) -> tuple[int, int] | None:
    """The space to break at, and the brackets around it; `opened` are open where the text begins.

    In front of a type, a dictionary or an arrow, else behind a comma, else anywhere outside of
    strings; a break in the second half of the line is better than one in the first. Where each
    leaves too long a line, the first one.
    """
    best: dict[int, tuple[int, int]] = {}
    for position, depth in _spaces(text, opened):
        if position > room:
            return best[min(best)] if best else (position, depth)
        rank = _rank(text, position, depth)
        best[rank + (WORST if position <= room // 2 else 0)] = (position, depth)
    return best[min(best)] if best else None


def _rank(text: str, position: int, depth: int) -> int:
    """How well a line ends at a space within so many brackets: 0 is best."""
    if text.endswith(KEYWORD, 0, position):
        return WORST
    if depth == 0 and text.startswith((" : ", " {", KEYWORD), position):
        return 0
    if depth == 0 and text.startswith(" -> ", position):
        return 1
    if text[position - 1] == ",":
        return min(depth + 2, WORST - 1)
    return WORST


def _spaces(text: str, depth: int) -> Iterator[tuple[int, int]]:
    """The places of the spaces outside of strings, and how many brackets are around them."""
    in_string = False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and in_string:
            position += 1
        elif char == '"':
            in_string = not in_string
        elif in_string:
            pass
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == " " and text[position - 1] != ":":
            yield position, depth
        position += 1
