"""xDSL's parser, with the place in the text as the location of operations that state none."""

from __future__ import annotations

import re
from bisect import bisect_right

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser


class PlacedParser(Parser):
    """Reads text of the later stages; errors found after reading can say where."""

    def __init__(self, context: Context, text: str, filename: str):
        super().__init__(context, text, filename)
        self._filename = StringAttr(filename)
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def parse_operation(self) -> Operation:
        """An operation with its location, or else its place."""
        start = self.pos
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line = bisect_right(self._lines, start)
            column = start - self._lines[line - 1] + 1
            op.location = FileLineColLoc(self._filename, IntAttr(line), IntAttr(column))
        return op
