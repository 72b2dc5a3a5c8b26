"""Formats of prints: which text and which arguments go into which call of the device's printf.

A call takes at most 32 arguments (CUDA C++ Programming Guide, "Formatted Output"), and only the
text of one call stays together when several tile blocks print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_ARGUMENTS = 32
"""Arguments of one call; the device ignores more."""

_CONVERSION = re.compile(r"%%|%[-+ #0]*\d*(?:\.\d*)?(?:ll)?[a-zA-Z]")


def split_format(format: str) -> Iterator[tuple[str, str | None]]:
    """Pieces (text before, conversion); the last one has no conversion. `%%` counts as text."""
    text, place = "", 0
    for match in _CONVERSION.finditer(format):
        text += format[place : match.start()]
        place = match.end()
        if match.group() == "%%":
            text += "%%"
            continue
        yield text, match.group()
        text = ""
    yield text + format[place:], None


def escaped(text: str) -> str:
    """Text that a format prints as it is."""
    return text.replace("%", "%%")


@dataclass(frozen=True)
class Brackets:
    """The text between the elements of a tile, as nested lists: `[[1, 2], [3, 4]]`."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """Elements of a list of each depth but the outermost, largest first."""
        sizes: list[int] = []
        size = 1
        for dim in reversed(self.shape[1:]):
            size *= dim
            sizes.append(size)
        return tuple(reversed(sizes))

    @property
    def opening(self) -> str:
        """Before the first element."""
        return "[" * len(self.shape)

    @property
    def closing(self) -> str:
        """After the last one."""
        return "]" * len(self.shape)

    def between(self, index: int) -> str:
        """Before the element with this number, which is not 0."""
        depth = sum(index % size == 0 for size in self.row_sizes)
        return "]" * depth + ", " + "[" * depth

    def row(self, conversion: str, count: int) -> str:
        """`count` elements, a power of two of them, from any multiple of `count` on."""
        parts = [conversion]
        for index in range(1, count):
            parts += (self.between(index), conversion)
        return "".join(parts)

    def chunk_starts(self, count: int) -> Sequence[tuple[int, str]]:
        """The text before chunk number c > 0 of `count` elements, as cases.

        The last row (divisor, text) whose divisor divides c holds; divisors rise and are powers
        of two, the first is 1.
        """
        divisors = sorted({1, *(size // count for size in self.row_sizes if size > count)})
        return [(divisor, self.between(divisor * count)) for divisor in divisors]
