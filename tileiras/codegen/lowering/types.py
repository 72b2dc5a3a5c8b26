"""How one element of a tile lives in a thread's registers; its size in memory is re-exported."""

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
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.types import PointerType
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.errors import InternalError

_I8 = integer_type(8)

_SMALL_FLOATS = (
    *(Float8E4M3FNType, Float8E5M2Type, Float8E8M0FNUType, Float8E5M3FNUType),
    Float4E2M1FNType,
)


def element_type(type: Attribute) -> Attribute:
    """The element type of a tensor or tile in memory; a scalar type itself."""
    return type.element_type if isinstance(type, TensorType | MemDescType) else type


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


__all__ = ["element_type", "register_type", "storage_bits", "storage_bytes", "value_type"]
