"""Types of the `llvm` dialect: pointers with an address space, and literal structs.

Integers, floats and one-dimensional vectors are xDSL's builtin types.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    FixedBitwidthType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

GENERIC = 0
GLOBAL = 1
SHARED = 3
CONSTANT = 4
ADDRESS_SPACES = (GENERIC, GLOBAL, SHARED, CONSTANT, 5, 7)
"""NVPTX's, of 64-bit pointers: 5 is local memory, 7 shared memory of a cluster."""

FloatType = Float16Type | BFloat16Type | Float32Type | Float64Type
"""The float types that LLVM's NVPTX backend has; the 8-bit and tf32 formats travel as integers."""


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """A pointer into an NVPTX address space: 0 generic, 1 global, 3 shared, 4 constant, 5 local."""

    name = "llvm.ptr"
    space: IntAttr

    def __init__(self, address_space: int | IntAttr = GENERIC):
        space = IntAttr(address_space) if isinstance(address_space, int) else address_space
        super().__init__(space)

    def verify(self) -> None:
        """An address space that NVPTX has: LLVM ends the process on others."""
        if self.space.data not in ADDRESS_SPACES:
            raise VerifyException(f"address space {self.space.data}, expected 0, 1, 3, 4, 5 or 7")

    @property
    def address_space(self) -> int:
        """The address space as an int."""
        return self.space.data

    def print_parameters(self, printer: "Printer") -> None:
        """Prints `<1>`."""
        printer.print_string(f"<{self.space.data}>")

    @classmethod
    def parse_parameters(cls, parser: "AttrParser") -> Sequence[Attribute]:
        """Parses `<1>`."""
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)


@irdl_attr_definition
class StructType(ParametrizedAttribute, TypeAttribute):
    """A literal struct, the result of multi-result inline assembly and intrinsics."""

    name = "llvm.struct"
    fields: ArrayAttr[Attribute]

    def __init__(self, fields: Sequence[Attribute] | ArrayAttr[Attribute]):
        super().__init__(fields if isinstance(fields, ArrayAttr) else ArrayAttr(fields))


@cache
def integer_type(width: int) -> IntegerType:
    """The signless integer type of `width` bits (interned)."""
    return IntegerType(width)


@cache
def vector_type(element: Attribute, count: int) -> VectorType:
    """`vector<count x element>` (interned; building one costs 16 us)."""
    return VectorType(element, [count])


@cache
def pointer_type(address_space: int) -> PointerType:
    """`!llvm.ptr<address_space>` (interned)."""
    return PointerType(address_space)


def scalar_of(type: Attribute) -> Attribute:
    """The element type of a vector; any other type itself."""
    return type.element_type if isinstance(type, VectorType) else type


def lanes_of(type: Attribute) -> int | None:
    """Number of elements of a vector; None for any other type."""
    return type.shape.data[0].data if isinstance(type, VectorType) else None


def with_scalar(type: Attribute, scalar: Attribute) -> Attribute:
    """`type` with its element type replaced: keeps the number of lanes."""
    lanes = lanes_of(type)
    return scalar if lanes is None else vector_type(scalar, lanes)


def is_float(type: Attribute) -> bool:
    """Is it f16, bf16, f32 or f64, or a vector of one?"""
    return isinstance(scalar_of(type), FloatType)


def is_integer(type: Attribute) -> bool:
    """Is it an integer or a vector of integers?"""
    return isinstance(scalar_of(type), IntegerType)


def is_pointer(type: Attribute) -> bool:
    """Is it a pointer or a vector of pointers?"""
    return isinstance(scalar_of(type), PointerType)


@cache
def bit_width(type: Attribute) -> int:
    """Bits of one value: whole vector for a vector; 64 for every pointer (no 32-bit pointers)."""
    match type:
        case VectorType():
            return (lanes_of(type) or 0) * bit_width(type.element_type)
        case PointerType():
            return 64
        case FixedBitwidthType():
            return type.bitwidth
        case StructType():
            return sum(bit_width(field) for field in type.fields)
        case _:
            return 0
