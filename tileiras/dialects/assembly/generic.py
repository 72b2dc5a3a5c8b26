"""MLIR's generic form: every operation as `"name"(%0) <{..}> : (T) -> T`, values by number."""

from __future__ import annotations

from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.printer import Printer

from tileiras.dialects.assembly.spellings import plain_location
from tileiras.dialects.cuda_tile.debug_info import DICallSiteLoc, DILocAttr


class GenericPrinter(Printer):
    """xDSL's printer, with the places of Tile IR's scoped locations as plain `loc("file":l:c)`.

    That is what xDSL's parser can read again; the scopes are in the text of stage cuda_tile only.
    """

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints the attribute, or the place that a scoped location stands for."""
        if isinstance(attribute, DILocAttr | DICallSiteLoc):
            attribute = plain_location(attribute)
        super().print_attribute(attribute)


def print_generic(module: ModuleOp, locations: bool) -> str:
    """The module in generic form, with `loc(..)` behind operations if asked for."""
    stream = StringIO()
    GenericPrinter(stream=stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue().rstrip("\n") + "\n"
