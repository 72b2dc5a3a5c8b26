"""The text form of cuda_tile: `print_module` and `parse_module`, imported when first called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def print_module(module: ModuleOp, *, generic: bool = False, debug_info: bool = False) -> str:
    """The program as text, in the custom form or in MLIR's generic one.

    `debug_info` adds locations and debug attributes.
    """
    from tileiras.dialects.cuda_tile.text.printer import print_module as run

    return run(module, generic=generic, debug_info=debug_info)


def parse_module(text: str, filename: str = "<stdin>") -> ModuleOp:
    """The program of a text in the custom or generic form, with or without a module around it.

    Raises ParseError, which names the place in the text.
    """
    from tileiras.dialects.cuda_tile.text.parser import parse_module as run

    return run(text, filename)
