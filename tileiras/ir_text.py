"""Reads IR text: Tile IR's own syntax, or that of `dialects.assembly` for later stages."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect

from tileiras.registry import DIALECTS, resolve

_SKIPPED = re.compile(r"//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"(?!\s*\()")
"""Comments, and strings that name no operation."""
_LOWER_STAGE = re.compile(
    r'"(?:nv_tileaa|nv_tileas|llvm|nvvm)\.[\w.]+"\s*\('
    r"|(?m:(?:^|[=){{])\s*(?:nv_tileaa|nv_tileas|llvm|nvvm)\.\w)".replace("{{", "{")
)
"""An operation of a later stage, in generic form or in its own."""


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
    if _LOWER_STAGE.search(_SKIPPED.sub("", text)) is None:
        from tileiras.dialects.cuda_tile.text import parse_module

        return parse_module(text, filename)
    from tileiras.dialects import assembly
    from tileiras.stages import verify_text

    context = Context()
    register_dialects(context)
    parsed = assembly.parse_module(context, text, filename)
    verify_text(parsed.module, parsed.places)
    return parsed.module
