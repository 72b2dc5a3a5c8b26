"""The encoding that says where every element of a tensor lives."""

from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.named_values import parse_name

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


def parse_numbers_and_layout(parser: "AttrParser", *names: str) -> list[Attribute]:
    """Parses `<a = 8, b = 1, layout = #blocked0>`: numbers of these names, then a layout."""
    with parser.in_angle_brackets():
        numbers: list[Attribute] = []
        for name in names:
            parse_name(parser, name)
            numbers.append(IntAttr(parser.parse_integer()))
            parser.parse_punctuation(",")
        parse_name(parser, "layout")
        return [*numbers, parser.parse_attribute()]


@cache
def encoded(element_type: Attribute, layout: LinearLayout) -> TensorType[Attribute]:
    """The tensor type of a layout (interned)."""
    return TensorType(element_type, layout.shape, LayoutEncodingAttr(layout))


def layout_of(type: Attribute) -> LinearLayout | None:
    """The layout of an encoded tensor type, None for anything else."""
    if isinstance(type, TensorType) and isinstance(type.encoding, LayoutEncodingAttr):
        return type.encoding.data
    return None
