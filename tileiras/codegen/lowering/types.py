"""How one element of a tile lives in a thread's registers, and how many bits it takes in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    TensorType,
    f32,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.llvm.types import integer_type, vector_type
from tileiras.dialects.nv_tileaa.types import PointerType
from tileiras.errors import InternalError

_I8 = integer_type(8)

_SMALL_FLOATS = (
    *(Float8E4M3FNType, Float8E5M2Type, Float8E8M0FNUType, Float8E5M3FNUType),
    Float4E2M1FNType,
)


def element_type(type: Attribute) -> Attribute:
    """The element type of a tensor; a scalar type itself."""
    return type.element_type if isinstance(type, TensorType) else type


def register_type(element: Attribute) -> Attribute:
    """The LLVM type of one element in a register.

    f16, bf16, f32, f64 and integers are themselves. tf32 is an f32 whose low 13 bits are zero; the
    f8 and f4 formats are their bits in an i8 (f4 in the low half, the high half is zero); i4 is an
    i8 whose high half may be anything; pointers are i64 addresses.
    """
    match element:
        case IntegerType():
            return _I8 if element.width.data == 4 else element
        case Float16Type() | BFloat16Type() | Float32Type() | Float64Type():
            return element
        case FloatTF32Type():
            return f32
        case PointerType():
            return integer_type(64)
        case _ if isinstance(element, _SMALL_FLOATS):
            return _I8
        case _:
            raise InternalError(f"no register type for {element}", where="lowering types")


def value_type(type: Attribute, num_registers: int | None) -> Attribute:
    """The LLVM type of a thread's part of a value: `num_registers` elements, None for a scalar."""
    register = register_type(element_type(type))
    return register if num_registers is None else vector_type(register, num_registers)


def storage_bits(element: Attribute) -> int:
    """Bits of one element in memory: i1 takes a whole byte, tf32 takes 32 bits, i4 and f4 take 4."""
    match element:
        case IntegerType():
            return 8 if element.width.data == 1 else element.width.data
        case Float16Type() | BFloat16Type():
            return 16
        case Float32Type() | FloatTF32Type():
            return 32
        case Float64Type() | PointerType():
            return 64
        case Float4E2M1FNType():
            return 4
        case _ if isinstance(element, _SMALL_FLOATS):
            return 8
        case _:
            raise InternalError(f"no storage size for {element}", where="lowering types")


def storage_bytes(element: Attribute) -> int:
    """Bytes of one element in memory; an InternalError for the 4-bit types, which share bytes."""
    bits = storage_bits(element)
    if bits % 8:
        raise InternalError(f"{element} has no whole bytes", where="lowering types")
    return bits // 8
