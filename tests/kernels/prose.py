"""Prose of the documentation: lines that are too long, lists that are misread, and wrapping."""

from __future__ import annotations

import re
from collections.abc import Iterator

LIMIT = 100
"""Columns of a line of prose. Listings, headings and lone links may be longer."""

ROW_LIMIT = 140
"""Columns of a row of a table. What needs more is prose: a list."""

ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*] |\d+\. )(?P<text>.*)")


def _kinds(text: str) -> Iterator[tuple[str, str]]:
    """Each line with what it is: prose, item, row, blank, "other" (listings, headings)."""
    fence = False
    listing_indent = 4
    before = "blank"
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        item = ITEM.match(line)
        if line.lstrip().startswith("```"):
            fence = not fence
            kind = "other"
        elif not fence and line.startswith("|"):
            kind = "row"
        elif fence or line.startswith(("#", "<", "!", "[")) or line.lstrip().startswith("|"):
            kind = "other"
            if line.startswith("#") and not fence:
                listing_indent = 4
        elif not line.strip():
            kind = "blank"
        elif before in {"blank", "listing"} and indent >= listing_indent:
            kind = "listing"
        elif item:
            kind = "item"
            listing_indent = indent + len(item["mark"]) + 4
        else:
            kind = "prose"
            if indent == 0:
                listing_indent = 4
        if kind != "blank" or before != "listing":
            before = kind
        yield ("other" if kind == "listing" else kind), line


def long_lines(text: str) -> list[str]:
    """The lines of prose over the limit that could be broken at a space."""
    return [
        line
        for kind, line in _kinds(text)
        if kind in {"prose", "item"} and len(line) > LIMIT and " " in line.strip()
    ]


def long_rows(text: str) -> list[str]:
    """The rows of tables over their limit."""
    return [line for kind, line in _kinds(text) if kind == "row" and len(line) > ROW_LIMIT]


def misread_lists(text: str) -> list[str]:
    """Lines that the site's Markdown takes for something else than GitHub's does.

    Items of a list in a list, and paragraphs and listings of an item, are indented by four spaces;
    a list begins behind an empty line.
    """
    found: list[str] = []
    fence = in_list = False
    before = ""
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        item = ITEM.fullmatch(line) is not None
        if line.lstrip().startswith("```"):
            fence = not fence
        if not fence and line.strip():
            begins = item and not in_list and indent == 0 and before.strip()
            nested = in_list and indent % 4 and (item or not before)
            if begins or nested:
                found.append(line)
            in_list = item or (in_list and indent > 0)
        before = line
    return found


def _words(text: str) -> list[str]:
    """What wrapping keeps together: words, and code between backquotes with its spaces."""
    return re.findall(r"(?:`[^`]*`|[^\s`])+|`", text)


def _fill(words: list[str], first: str, rest: str) -> list[str]:
    """Lines of the words, the first behind `first`, the others behind `rest`."""
    lines, line = [], first
    for word in words:
        fits = len(line) + len(word) + 1 <= LIMIT
        # A word that would open a list item, a heading or a table is kept behind another one.
        opens = re.fullmatch(r"[-*+#|>]+|\d+\.", word) is not None
        if line in {first, rest}:
            line += word
        elif fits or opens:
            line += " " + word
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line]


def wrapped(text: str) -> str:
    """The text with each paragraph that has a line over the limit filled again; others stay."""
    result: list[str] = []
    paragraph: list[str] = []

    def flush() -> None:
        if any(len(line) > LIMIT for line in paragraph):
            item = ITEM.match(paragraph[0])
            indent = paragraph[0][: len(paragraph[0]) - len(paragraph[0].lstrip())]
            mark = item["mark"] if item else ""
            body = " ".join(line.strip() for line in paragraph)[len(mark) :]
            result.extend(_fill(_words(body), indent + mark, indent + " " * len(mark)))
        else:
            result.extend(paragraph)
        paragraph.clear()

    for kind, line in _kinds(text):
        if kind != "prose":
            flush()
        if kind in {"prose", "item"}:
            paragraph.append(line)
        else:
            result.append(line)
    flush()
    return "\n".join(result) + "\n"
