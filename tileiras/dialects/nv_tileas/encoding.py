"""The encoding that says where every element of a tensor lives."""

from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.layout import LinearLayout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class LayoutEncodingAttr(Data[LinearLayout]):
    """`#nv_tileas.layout<"{register: .., lane: .., warp: ..} -> 16x16">`: a distributed layout."""

    name = "nv_tileas.layout"

    @classmethod
    def parse_parameter(cls, parser: "AttrParser") -> LinearLayout:
        """Parses the layout's text."""
        with parser.in_angle_brackets():
            return LinearLayout.parse(parser.parse_str_literal())

    def print_parameter(self, printer: "Printer") -> None:
        """Prints the layout's text."""
        printer.print_string(f'<"{self.data}">')


@cache
def encoded(element_type: Attribute, layout: LinearLayout) -> TensorType[Attribute]:
    """The tensor type of a layout (interned)."""
    return TensorType(element_type, layout.shape, LayoutEncodingAttr(layout))


def layout_of(type: Attribute) -> LinearLayout | None:
    """The layout of an encoded tensor type, None for anything else."""
    if isinstance(type, TensorType) and isinstance(type.encoding, LayoutEncodingAttr):
        return type.encoding.data
    return None
