"""Reads IR text of any stage: Tile IR's own syntax, or xDSL's for the stages below it."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tileiras.dialects.locations import place_of
from tileiras.errors import BytecodeError, SourceLocation
from tileiras.excerpts import shown_input
from tileiras.placed_parser import PlacedParser
from tileiras.registry import DIALECTS, resolve
from tileiras.text_limits import check_text, place_in

MESSAGE_WIDTH = 200
"""Characters of a message of xDSL's, which may repeat the input, that are kept."""

_COMMENT = re.compile(r"//[^\n]*")
_LOWER_STAGE = re.compile(r'(?<!@)"(nv_tileaa|nv_tileas|llvm|nvvm)\.[\w.]+"\s*\(')
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
    context = Context()
    register_dialects(context)
    check_text(text, filename)
    parser = None
    try:
        parser = PlacedParser(context, text, filename)
        module = parser.parse_module()
    except ParseError as error:
        message = _first_line(error.msg.strip().rstrip(".")) or "cannot be parsed"
        place = place_in(text, error.span.start, filename)
        raise BytecodeError(message[:1].lower() + message[1:], place) from error
    except RecursionError as error:
        place = place_in(text, _position(parser), filename)
        raise BytecodeError("text is nested too deeply", place) from error
    except Exception as error:
        # Whatever an attribute or xDSL's parser raises, the text made it do so.
        place = place_in(text, _position(parser), filename)
        raise BytecodeError(_first_line(str(error)) or "cannot be parsed", place) from error
    _check_blocks(module, filename)
    return module


def _check_blocks(module: ModuleOp, filename: str) -> None:
    """A module, at the top or inside, is one block."""
    for op in module.walk():
        if isinstance(op, ModuleOp) and len(op.body.blocks) != 1:
            place = place_of(op) or SourceLocation(filename, 1, 1)
            raise BytecodeError(f"module has {len(op.body.blocks)} blocks, expected 1", place)


def _position(parser: Parser | None) -> int:
    """The offset up to which the text was read."""
    return 0 if parser is None else parser.pos


def _first_line(message: str) -> str:
    """A message on one line, with no more of the input than one can read."""
    return shown_input(" ".join(message.split()), MESSAGE_WIDTH)
