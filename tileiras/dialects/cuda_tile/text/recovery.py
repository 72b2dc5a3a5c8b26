"""Goes on after a mistake, so that one run tells all mistakes of a text.

An operation that cannot be read is left out up to the line on which the next one begins. Its
results are known as broken: what uses them is left out without a word, as it may well be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.text.lexer import ParseError
from tileiras.dialects.cuda_tile.text.location_parser import LocationParser
from tileiras.errors import joined

MAX_MISTAKES = 20
"""Mistakes of one text that are told; more help nobody."""

_RESULTS = re.compile(r"((?:%[\w$.-]+(?::[0-9]+)?\s*,\s*)*%[\w$.-]+(?::[0-9]+)?)\s*=", re.ASCII)
_NAME = re.compile(r"%[\w$.-]+", re.ASCII)
_PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|[{}]|\n(?P<indent>[ \t]*)')
_START = re.compile(
    r'%[\w$.-]+(?::[0-9]+)?\s*[,=]|"[\w.$]+"\s*\(|#[\w$.]+\s*=|(?P<word>[a-z_][\w.$]*)'
)


class ConsequenceError(ParseError):
    """The use of a value whose definition could not be read; it is not told."""


class TooManyMistakes(Exception):
    """The text has more mistakes than are told."""


class RecoveringParser(LocationParser):
    """Collects mistakes, one per operation at most."""

    def __init__(self, text: str, filename: str):
        super().__init__(text, filename)
        self.mistakes: list[ParseError] = []
        self.broken: set[str] = set()
        """Names of results of operations that could not be read."""

    def add_operation(
        self, block: Block, read: Callable[[], Operation], is_mnemonic: Callable[[str], bool]
    ) -> None:
        """Reads an operation and adds it to a block; after a mistake, skips it."""
        start, depths = self.next_start(), (self.depth, self.type_depth)
        level = self.nesting()
        try:
            block.add_op(read())
            return
        except (VerifyException, ValueError) as error:
            # An attribute that xDSL refuses to build: its numbers come from the text.
            mistake = self.refusal(error, start)
        except ParseError as error:
            mistake = error
        self.record(mistake)
        self.depth, self.type_depth = depths
        self.leave_to(level)
        self._break_results(start)
        self.seek(self._next_operation(start, mistake.start, is_mnemonic))

    def refusal(self, error: Exception, start: int) -> ParseError:
        """What an attribute's own checks said, as a mistake at an offset."""
        message = str(error).strip().split("\n", 1)[0].rstrip(":")
        return self.error_at(message[:1].lower() + message[1:], start)

    def nesting(self) -> int:
        """How many regions are open."""
        return 0

    def leave_to(self, level: int) -> None:
        """Leaves the regions that a mistake left open."""

    def record(self, mistake: ParseError) -> None:
        """Keeps a mistake, unless it follows from another."""
        follows = mistake.start >= len(self.text) and self.mistakes
        if isinstance(mistake, ConsequenceError) or follows:
            return
        self.mistakes.append(mistake)
        if len(self.mistakes) >= MAX_MISTAKES:
            raise TooManyMistakes

    def raise_mistakes(self) -> None:
        """Raises what was found, in the order of the text."""
        if self.mistakes:
            raise joined(sorted(self.mistakes, key=lambda mistake: mistake.start))

    def _break_results(self, start: int) -> None:
        found = _RESULTS.match(self.text, start)
        if found is not None:
            self.broken.update(_NAME.findall(found[1]))

    def _next_operation(self, start: int, mistake: int, is_mnemonic: Callable[[str], bool]) -> int:
        """Where the next operation begins: on a line after the mistake, outside of braces.

        Or where the brace is that ends the block. A line that begins with a word begins one if the
        word is a mnemonic, or if it is indented as the operation that was not read.
        """
        depth = 0
        indent = start - (self.text.rfind("\n", 0, start) + 1)
        for piece in _PIECE.finditer(self.text, start):
            mark = piece[0][0]
            if mark == "{":
                depth += 1
            elif mark == "}":
                depth -= 1
                if depth < 0:
                    return piece.start()
            elif mark == "\n" and depth == 0 and piece.start() >= mistake:
                line = _START.match(self.text, piece.end())
                if line is None:
                    continue
                word, is_level = line["word"], len(piece["indent"]) == indent
                if not word or is_level or is_mnemonic(word):
                    return line.start()
        return len(self.text)
