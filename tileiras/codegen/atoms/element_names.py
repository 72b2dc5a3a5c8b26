"""What instructions call element types: operands of wgmma, elements of tensor maps."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

_OPERANDS: dict[type[Attribute], str] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    FloatTF32Type: "tf32",
    Float8E4M3FNType: "e4m3",
    Float8E5M2Type: "e5m2",
}
_ACCUMULATORS: dict[type[Attribute], str] = {Float32Type: "f32", Float16Type: "f16"}
_MAPPED: dict[type[Attribute], str] = {
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float32Type: "f32",
    FloatTF32Type: "f32",
    Float8E4M3FNType: "u8",
    Float8E5M2Type: "u8",
    Float8E8M0FNUType: "u8",
}


def wgmma_operand(element: Attribute, is_unsigned: bool = False) -> str | None:
    """PTX's name of an operand's type; None if wgmma has none (f32 products stay true f32)."""
    if isinstance(element, IntegerType):
        return ("u8" if is_unsigned else "s8") if element.width.data == 8 else None
    return _OPERANDS.get(type(element))


def wgmma_accumulator(element: Attribute) -> str | None:
    """PTX's name of an accumulator's type; None if wgmma has none."""
    if isinstance(element, IntegerType):
        return "s32" if element.width.data == 32 else None
    return _ACCUMULATORS.get(type(element))


def mma_element(element: Attribute, is_unsigned: bool = False) -> str | None:
    """PTX's name of an operand or accumulator of mma.sync; None if it has none."""
    if isinstance(element, IntegerType) and element.width.data == 32:
        return "s32"
    if isinstance(element, Float32Type | Float64Type):
        return "f32" if isinstance(element, Float32Type) else "f64"
    return wgmma_operand(element, is_unsigned)


def tensor_map_element(element: Attribute) -> str | None:
    """What a tensor map calls the type (f8 are bytes); None if TMA does not bring it here."""
    if isinstance(element, IntegerType):
        return {8: "u8", 32: "s32"}.get(element.width.data)
    return _MAPPED.get(type(element))
