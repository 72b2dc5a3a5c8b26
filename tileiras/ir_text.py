"""Reads IR text of any stage: Tile IR's own syntax, or xDSL's for the stages below it."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect
from xdsl.utils.exceptions import ParseError, VerifyException

from tileiras.errors import BytecodeError, SourceLocation
from tileiras.registry import DIALECTS, resolve

_COMMENT = re.compile(r"//[^\n]*")
_LOWER_STAGE = re.compile(r'"(nv_tileaa|nv_tileas|llvm|nvvm)\.[\w.]+"\s*\(')
"""An operation of a later stage; they are always printed in generic form."""


def register_dialects(context: Context) -> None:
    """Makes the context know every dialect of the cascade; each is imported on first use."""

    def factory(reference: str) -> Dialect:
        return resolve(reference)

    context.load_dialect(Builtin)
    for name, reference in DIALECTS.items():
        context.register_dialect(name, lambda reference=reference: factory(reference))


def parse_text(text: str, filename: str = "<input>") -> ModuleOp:
    """The module that the text describes.

    Text of stage cuda_tile is in Tile IR's own syntax; text that has an operation of a later stage
    is in the form that `--emit` prints for that stage. Raises BytecodeError with the place of the
    first mistake.
    """
    if _LOWER_STAGE.search(_COMMENT.sub("", text)) is None:
        from tileiras.dialects.cuda_tile.text import parse_module

        return parse_module(text, filename)
    from xdsl.parser import Parser

    context = Context()
    register_dialects(context)
    try:
        return Parser(context, text, filename).parse_module()
    except ParseError as error:
        line, column = _line_and_column(text, error.span.start)
        message = error.msg.strip().rstrip(".") or "cannot be parsed"
        place = SourceLocation(filename, line, column)
        raise BytecodeError(message[:1].lower() + message[1:], place) from error
    except VerifyException as error:
        raise BytecodeError(" ".join(str(error).split())) from error


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The 1-based line and column of a character offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
