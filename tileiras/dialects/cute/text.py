"""The text of modules of the dialect: its operations print themselves."""

from __future__ import annotations

from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer


def print_module(module: ModuleOp, generic: bool = False, debug_info: bool = False) -> str:
    """The module as text; `debug_info` writes `loc(..)` behind operations, in generic form."""
    stream = StringIO()
    printer = Printer(
        stream=stream, print_generic_format=generic or debug_info, print_debuginfo=debug_info
    )
    printer.print_op(module)
    return stream.getvalue().rstrip("\n") + "\n"
