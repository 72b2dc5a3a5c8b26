"""Bit-exact constant attributes: raw element bytes, so that no NaN payload is ever lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BytesAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.type_rules import is_number
from tileiras.dialects.cuda_tile.types import TileType

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class FloatBitsAttr(ParametrizedAttribute):
    """A typed scalar float by its bit pattern (reduce and scan identities)."""

    name = "cuda_tile.float"
    bits: IntAttr
    type: Attribute

    def __init__(self, bits: int, type: Attribute):
        super().__init__(IntAttr(bits), type)


@irdl_attr_definition
class DenseAttr(ParametrizedAttribute):
    """The value of a constant tile: little-endian, row-major element bytes.

    `raw` holds one element (a splat) or one per element of `type`. Element storage is that of the
    bytecode (tf32 3 bytes, f8 and f4 1 byte each), but i1 is one byte per element, 0 or 1.
    """

    name = "cuda_tile.dense"
    type: TileType
    raw: BytesAttr

    def __init__(self, type: TileType, raw: bytes):
        super().__init__(type, BytesAttr(raw))

    def verify(self) -> None:
        """One element (a splat) or all of them; numbers only."""
        element = self.type.element_type
        if not is_number(element):
            found = element_text(element)
            raise VerifyException(f"constant has element type {found}, expected a number type")
        size = storage_bytes(element)
        found, full = len(self.raw.data), size * self.type.num_elements
        if found not in (size, full):
            raise VerifyException(
                f"constant has {found} bytes, expected {size} (a splat) or {full}"
            )

    def print_parameters(self, printer: "Printer") -> None:
        """Prints `<type, "01000000">`, the bytes in hexadecimal."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.type)
            printer.print_string(f', "{self.raw.data.hex()}"')

    @classmethod
    def parse_parameters(cls, parser: "AttrParser") -> Sequence[Attribute]:
        """Parses `<type, "01000000">`."""
        with parser.in_angle_brackets():
            kind = parser.parse_attribute()
            parser.parse_punctuation(",")
            return kind, BytesAttr(bytes.fromhex(parser.parse_str_literal()))

    @property
    def is_splat(self) -> bool:
        """Whether all elements are one (a single element counts)."""
        return len(self.raw.data) == storage_bytes(self.type.element_type)
