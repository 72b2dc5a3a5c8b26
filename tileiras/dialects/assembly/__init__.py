"""The text form of nv_tileaa, nv_tileas, llvm and nvvm: `print_module` and `parse_module`.

One table (`forms`) says how each operation is written; printer and parser are made from its rows
when an operation of that kind is first met, so that nothing is paid where no text is read or
written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.options import TextStyle

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from tileiras.dialects.assembly.reading import ParsedModule


def print_module(module: ModuleOp, style: TextStyle | None = None) -> str:
    """The module as text; operations of dialects without forms are in generic form."""
    style = style or TextStyle()
    if style.generic:
        from tileiras.dialects.assembly.generic import print_generic

        return print_generic(module, locations=style.locations == "loc")
    from tileiras.dialects.assembly.printer import AssemblyPrinter
    from tileiras.dialects.assembly.structured_writers import WRITERS

    return AssemblyPrinter(style, WRITERS).print(module)


def parse_module(context: Context, text: str, filename: str) -> ParsedModule:
    """The module of a text, with the place of each operation.

    `context` knows the dialects. Raises BytecodeError with the place of the first mistake.
    """
    from tileiras.dialects.assembly.reading import read_module

    return read_module(context, text, filename)
