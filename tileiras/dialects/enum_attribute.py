"""Attributes that hold one of a few words.

xDSL has such a class, in a package that imports its parser and its declarative formats: eleven
modules that a compilation from bytecode to a cubin does not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin

from xdsl.ir import Data
from xdsl.utils.str_enum import StrEnum

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

Words = TypeVar("Words", bound=StrEnum)


class EnumAttribute(Generic[Words], Data[Words]):
    """An attribute with a word of an enumeration: `class KindAttr(EnumAttribute[Kind])`.

    It is written `<value>`, which makes the generic form readable again.
    """

    enum_type: ClassVar[type[StrEnum]]
    """The words that the attribute may hold."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is EnumAttribute:
                (cls.enum_type,) = get_args(base)

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<value>`."""
        printer.print_string(f"<{self.data.value}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """Parses `<value>`."""
        with parser.in_angle_brackets():
            return parser.parse_str_enum(cls.enum_type)
