"""Bit patterns of padding values."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.attributes import PaddingValue
from tileiras.errors import CompileError

# (bits, exponent and mantissa of infinity, quiet NaN); sign bit on top. e4m3fn has no infinity,
# e2m1fn no NaN either.
_FORMATS: dict[type[Attribute], tuple[int, int | None, int | None]] = {
    Float16Type: (16, 0x7C00, 0x7E00),
    BFloat16Type: (16, 0x7F80, 0x7FC0),
    Float32Type: (32, 0x7F800000, 0x7FC00000),
    FloatTF32Type: (32, 0x7F800000, 0x7FC00000),
    Float64Type: (64, 0x7FF0000000000000, 0x7FF8000000000000),
    Float8E4M3FNType: (8, None, 0x7F),
    Float8E5M2Type: (8, 0x7C, 0x7E),
    Float4E2M1FNType: (4, None, None),
}


def padding_bits(element: Attribute, padding: PaddingValue | None) -> int:
    """The pattern that loads yield out of bounds; zero where the view leaves it open.

    Raises CompileError where the element type has no such value.
    """
    if padding is None or padding == PaddingValue.ZERO:
        return 0
    known = _FORMATS.get(type(element))
    if known is None:
        raise CompileError(f"padding value {padding.value} does not exist for {element}")
    bits, infinity, nan = known
    sign = 1 << bits - 1
    match padding:
        case PaddingValue.NEG_ZERO:
            return sign
        case PaddingValue.NAN:
            if nan is None:
                raise CompileError(f"padding value {padding.value} does not exist for {element}")
            return nan
        case PaddingValue.POS_INF | PaddingValue.NEG_INF:
            if infinity is None:
                raise CompileError(f"padding value {padding.value} does not exist for {element}")
            return infinity | (sign if padding == PaddingValue.NEG_INF else 0)
