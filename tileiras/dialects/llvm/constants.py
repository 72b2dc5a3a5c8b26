"""Constants as bit patterns, and values without operands: poison, undef, zero, addressof."""

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Data
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import (
    PointerType,
    bit_width,
    is_float,
    is_integer,
    lanes_of,
    scalar_of,
)

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class IntegersData(Data[tuple[int, ...]]):
    """Integers in angle brackets, `<0, 1, -1>`."""

    FORMAT: ClassVar[str] = "d"

    @classmethod
    def parse_parameter(cls, parser: "AttrParser") -> tuple[int, ...]:
        """Parses `<0, 0x1, -1>`."""
        with parser.in_angle_brackets():
            return tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.NONE, lambda: parser.parse_integer()
                )
            )

    def print_parameter(self, printer: "Printer") -> None:
        """Prints `<0, 1, -1>`, each as `FORMAT` says."""
        numbers = ", ".join(format(number, self.FORMAT) for number in self.data)
        printer.print_string(f"<{numbers}>")


@irdl_attr_definition
class BitsAttr(IntegersData):
    """Bit patterns of a constant's elements, unsigned; a single one stands for all lanes.

    Bits instead of numbers, so that NaN payloads and signed zeros survive.
    """

    name = "llvm.bits"
    FORMAT: ClassVar[str] = "#x"


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant integer or float, or a vector of them: `result[i] = bits[i]`."""

    name = "llvm.constant"
    bits = prop_def(BitsAttr)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def verify_(self) -> None:
        """One pattern or one per lane, each of which fits the element type."""
        type = self.result.type
        if not (is_integer(type) or is_float(type)):
            raise VerifyException(f"llvm.constant of type {type}, expected integers or floats")
        count = len(self.bits.data)
        if count != 1 and count != lanes_of(type):
            raise VerifyException(f"llvm.constant has {count} elements, expected {lanes_of(type)}")
        limit = 1 << bit_width(scalar_of(type))
        if not all(0 <= bits < limit for bits in self.bits.data):
            raise VerifyException("llvm.constant has a bit pattern wider than its element type")

    def lane_bits(self, lane: int) -> int:
        """The bit pattern of one lane (or of the scalar)."""
        data = self.bits.data
        return data[0] if len(data) == 1 else data[lane]


class _NullaryOp(IRDLOperation):
    """A value without operands."""

    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class PoisonOp(_NullaryOp):
    """A value that must not be observed."""

    name = "llvm.poison"


@irdl_op_definition
class UndefOp(_NullaryOp):
    """Some value, possibly different at every use."""

    name = "llvm.undef"


@irdl_op_definition
class ZeroOp(_NullaryOp):
    """All bits zero: `zeroinitializer`, a null pointer."""

    name = "llvm.zero"


@irdl_op_definition
class AddressOfOp(IRDLOperation):
    """The address of a global: `result = &global_name`."""

    name = "llvm.addressof"
    global_name = prop_def(StringAttr)
    result = result_def(PointerType)
    traits = traits_def(Pure())
