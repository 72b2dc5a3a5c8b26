"""Element types of tiles: their classes, widths and float formats, as rows.

Sources: Tile IR specification, "Element types"; IEEE 754; OCP "8-bit Floating Point" and
"Microscaling Formats" for the f8 and f4 formats.
"""

from dataclasses import dataclass

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
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType, PointerType


@dataclass(frozen=True)
class FloatFormat:
    """How a float type spends its bits.

    `bits` is the width of a value, `storage_bytes` of an element in a constant. `infinities` and
    `nans` say what an all-ones exponent means; without both it is an ordinary exponent.
    """

    text: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    storage_bytes: int
    infinities: bool = True
    nans: bool = True
    signed: bool = True

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent field."""
        return 127 if self.mantissa_bits == 0 else (1 << (self.exponent_bits - 1)) - 1


FLOAT_FORMATS: dict[type[Attribute], FloatFormat] = {
    Float16Type: FloatFormat("f16", 16, 5, 10, 2),
    BFloat16Type: FloatFormat("bf16", 16, 8, 7, 2),
    Float32Type: FloatFormat("f32", 32, 8, 23, 4),
    FloatTF32Type: FloatFormat("tf32", 19, 8, 10, 3),
    Float64Type: FloatFormat("f64", 64, 11, 52, 8),
    Float8E4M3FNType: FloatFormat("f8E4M3FN", 8, 4, 3, 1, infinities=False),
    Float8E5M2Type: FloatFormat("f8E5M2", 8, 5, 2, 1),
    Float8E8M0FNUType: FloatFormat("f8E8M0FNU", 8, 8, 0, 1, infinities=False, signed=False),
    Float4E2M1FNType: FloatFormat("f4E2M1FN", 4, 2, 1, 1, infinities=False, nans=False),
    Float8E5M3FNUType: FloatFormat("fnv8E5M3FNU", 8, 5, 3, 1, infinities=False, signed=False),
}
"""The float types, in the order of their bytecode tags."""

INTEGER_WIDTHS = (1, 8, 16, 32, 64)


@dataclass(frozen=True)
class ElementClass:
    """A set of element types that an operation takes; `words` names it in messages."""

    words: str
    integer_widths: tuple[int, ...] = ()
    floats: frozenset[type[Attribute]] = frozenset()
    pointers: bool = False

    def __contains__(self, element: Attribute) -> bool:
        """Whether the class has this element type."""
        if isinstance(element, IntegerType):
            return element.width.data in self.integer_widths
        if isinstance(element, PointerType):
            return self.pointers
        return type(element) in self.floats


_BASE = frozenset({Float16Type, BFloat16Type, Float32Type, Float64Type})
_ALL = frozenset(FLOAT_FORMATS)

BOOL = ElementClass("i1", (1,))
I32 = ElementClass("i32", (32,))
I64 = ElementClass("i64", (64,))
I8 = ElementClass("i8", (8,))
INTEGER = ElementClass("i1 or i8 or i16 or i32 or i64", INTEGER_WIDTHS)
INTEGER_OR_I4 = ElementClass("i1 or i4 or i8 or i16 or i32 or i64", (1, 4, 8, 16, 32, 64))
EXPONENT_INTEGER = ElementClass("i1 or i8 or i16 or i32", (1, 8, 16, 32))
BASE_FLOAT = ElementClass("f16 or bf16 or f32 or f64", floats=_BASE)
F32 = ElementClass("f32", floats=frozenset({Float32Type}))
FLOAT = ElementClass("float", floats=_ALL)
NUMBER = ElementClass("integer or float", INTEGER_WIDTHS, _ALL)
NUMBER_OR_I4 = ElementClass("integer, i4 or float", (1, 4, 8, 16, 32, 64), _ALL)
POINTER = ElementClass("Pointer type", pointers=True)
INTEGER_OR_POINTER = ElementClass("integer or Pointer type", INTEGER_WIDTHS, pointers=True)
ANY = ElementClass("integer, float or Pointer type", (1, 4, 8, 16, 32, 64), _ALL, pointers=True)
ATOMIC_WORD = ElementClass(
    "i32 or i64 or f32 or f64", (32, 64), frozenset({Float32Type, Float64Type})
)
ATOMIC_INTEGER = ElementClass("i32 or i64", (32, 64))
MULTIMEM_NUMBER = ElementClass("i32 or i64 or f16 or bf16 or f32 or f64", (32, 64), _BASE)
MULTIMEM_MIN_MAX = ElementClass(
    "i32 or i64 or f16 or bf16", (32, 64), frozenset({Float16Type, BFloat16Type})
)


def is_float(element: Attribute) -> bool:
    """Whether an element type is a float type."""
    return type(element) in FLOAT_FORMATS


def bit_width(element: Attribute) -> int:
    """Bits of one value: 19 for tf32, 4 for f4E2M1FN, 64 for a pointer.

    Raises ValueError for what cannot be an element of a tile.
    """
    if isinstance(element, IntegerType):
        return element.width.data
    if isinstance(element, PointerType):
        return 64
    form = FLOAT_FORMATS.get(type(element))
    if form is None:
        raise ValueError(f"{element} is not an element type")
    return form.bits


def packed_bits(element: Attribute) -> int:
    """Bits of one element where `pack` and `unpack` see it: tf32 counts as 32."""
    return 32 if isinstance(element, FloatTF32Type) else bit_width(element)


def storage_bytes(element: Attribute) -> int:
    """Bytes of one element of a constant: i1 and the 4-bit types take one, tf32 three.

    Raises ValueError for what cannot be an element of a constant.
    """
    if isinstance(element, IntegerType):
        return (element.width.data + 7) // 8
    form = FLOAT_FORMATS.get(type(element))
    if form is None:
        raise ValueError(f"{element} is not the element type of a constant")
    return form.storage_bytes
