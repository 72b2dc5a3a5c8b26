"""Reads IR text: Tile IR's own syntax, or that of `dialects.assembly` for later stages."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Dialect, Operation

from tileiras.errors import BytecodeError, SourceLocation
from tileiras.registry import DIALECTS, resolve
from tileiras.text_limits import check_text

_COMMENT = re.compile(r"//[^\n]*")
_SKIPPED = re.compile(r"//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"")
"""Comments and strings."""
_GENERIC = re.compile(
    r'(?<!@)"(?:nv_tileaa|nv_tileas|llvm|nvvm|cute|cute_nvgpu|cutlass)\.[\w.]+"\s*\('
)
"""An operation of a later stage in generic form."""
_OWN_FORM = re.compile(
    r"(?:^|[={])[^\S\n]*(?:nv_tileaa|nv_tileas|llvm|nvvm|cute|cute_nvgpu|cutlass)\.\w", re.MULTILINE
)
"""... and in its own. Empty lines are not searched from each of them: a text may have many."""


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
    is in the form that `--emit` prints for that stage, or in generic form, and is verified here,
    where its places are known. Raises BytecodeError with the place of the first mistake.
    """
    if not _is_of_later_stage(text):
        from tileiras.dialects.cuda_tile.text import parse_module

        return parse_module(text, filename)
    from tileiras.dialects import assembly
    from tileiras.stages import verify_text

    check_text(text, filename)
    context = Context()
    register_dialects(context)
    parsed = assembly.parse_module(context, text, filename)
    _check_blocks(parsed.module, parsed.places, filename)
    verify_text(parsed.module, parsed.places)
    _locate(parsed.places)
    return parsed.module


def _is_of_later_stage(text: str) -> bool:
    """Whether text has an operation that is not Tile IR's."""
    if _GENERIC.search(_COMMENT.sub("", text)) is not None:
        return True
    return _OWN_FORM.search(_SKIPPED.sub("", text)) is not None


def _check_blocks(
    module: ModuleOp, places: Mapping[Operation, SourceLocation], filename: str
) -> None:
    """A module, at the top or inside, is one block."""
    for op in module.walk():
        if isinstance(op, ModuleOp) and len(op.body.blocks) != 1:
            place = places.get(op) or SourceLocation(filename, 1, 1)
            raise BytecodeError(f"module has {len(op.body.blocks)} blocks, expected 1", place)


def _locate(places: Mapping[Operation, SourceLocation]) -> None:
    """Operations that state no location get their place in the text, for errors that come later."""
    for op, place in places.items():
        if isinstance(op.location, UnknownLoc):
            op.location = FileLineColLoc(
                StringAttr(place.filename), IntAttr(place.line), IntAttr(place.column)
            )
