"""Operations of the cuda_tile dialect: conversions (Tile IR specification, "Conversions").

`result[i] = convert(source[i])`, shape unchanged; but `pack` and `unpack` reinterpret bytes.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.checks import (
    IEEE_ROUNDING,
    check_rounding,
    check_tile,
    fail,
)
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import (
    FLOAT,
    I8,
    I64,
    INTEGER_OR_I4,
    NUMBER,
    NUMBER_OR_I4,
    POINTER,
    ElementClass,
    bit_width,
    packed_bits,
)
from tileiras.dialects.cuda_tile.elementwise import ConversionOp
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import TileType


@irdl_op_definition
class BitcastOp(ConversionOp):
    """`result[i]` has the bits of `source[i]`."""

    name = "cuda_tile.bitcast"
    FROM: ClassVar[ElementClass] = NUMBER
    TO: ClassVar[ElementClass] = NUMBER

    def check_semantics(self) -> None:
        """One shape and one bit width; no pointers."""
        source, result = self.check_conversion()
        found, expected = bit_width(result.element_type), bit_width(source.element_type)
        if found != expected:
            fail(self, f"result has {found}-bit elements, expected {expected} (as the source)")


class ResizingOp(ConversionOp, ABC):
    """An integer conversion that changes the width."""

    FROM: ClassVar[ElementClass] = INTEGER_OR_I4
    TO: ClassVar[ElementClass] = INTEGER_OR_I4

    def widths(self) -> tuple[int, int]:
        """Checks the conversion; returns the widths of source and result."""
        source, result = self.check_conversion()
        return bit_width(source.element_type), bit_width(result.element_type)


@irdl_op_definition
class ExtIOp(ResizingOp):
    """Widens an integer, repeating the sign if signed, with zeros if not."""

    name = "cuda_tile.exti"
    signedness = prop_def(SignednessAttr)

    def check_semantics(self) -> None:
        """The result is wider than the source."""
        source, result = self.widths()
        if result <= source:
            fail(self, f"result has {result}-bit elements, expected more than {source}")


_NEAREST = frozenset({RoundingMode.NEAREST_EVEN})
_NARROWING = _NEAREST | {RoundingMode.ZERO}
_WIDENING = IEEE_ROUNDING | {RoundingMode.NEAREST_AWAY}
_FTOF_PAIRS: dict[tuple[str, str], frozenset[RoundingMode]] = {
    ("f64", "f32"): IEEE_ROUNDING,
    ("f64", "tf32"): _NARROWING,
    ("f32", "tf32"): _NARROWING | {RoundingMode.NEAREST_AWAY},
    ("f8E8M0FNU", "f32"): _NARROWING,
    ("f8E8M0FNU", "tf32"): _NARROWING,
    ("f8E8M0FNU", "f16"): _NARROWING,
    ("f8E8M0FNU", "bf16"): _NARROWING,
    ("fnv8E5M3FNU", "f16"): _NARROWING,
}
"""Conversions that fit no rule of `ftof_rounding`."""


def ftof_rounding(source: Attribute, result: Attribute) -> frozenset[RoundingMode]:
    """The rounding modes that a conversion between two float types takes.

    Observed on NVIDIA's tileiras 13.5, all pairs of types with all modes (`tests/oracle`).
    """
    names = element_text(source), element_text(result)
    if names in _FTOF_PAIRS:
        return _FTOF_PAIRS[names]
    if names[1] == "f8E8M0FNU":
        return frozenset({RoundingMode.ZERO, RoundingMode.POSITIVE_INF})
    if bit_width(result) <= 8:
        return _NEAREST
    if bit_width(result) == 16 and bit_width(source) >= 16:
        return _NARROWING
    return _WIDENING


@irdl_op_definition
class FToFOp(ConversionOp):
    """Converts between float types, rounded where the result has fewer bits."""

    name = "cuda_tile.ftof"
    FROM: ClassVar[ElementClass] = FLOAT
    TO: ClassVar[ElementClass] = FLOAT
    rounding_mode = prop_def(RoundingModeAttr)

    def check_semantics(self) -> None:
        """Two different float types, and a rounding mode that their conversion has."""
        source, result = self.check_conversion()
        if source.element_type == result.element_type:
            text = element_text(source.element_type)
            fail(self, f"converts {text} to itself, expected two different element types")
        allowed = ftof_rounding(source.element_type, result.element_type)
        check_rounding(self, self.rounding_mode.data, allowed)


@irdl_op_definition
class FToIOp(ConversionOp):
    """Converts a float to an integer, towards zero.

    NaN, infinities and values out of range are undefined, unless `saturating` (since 13.4).
    """

    name = "cuda_tile.ftoi"
    FROM: ClassVar[ElementClass] = FLOAT
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    saturating = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """A float source, an integer result, rounded towards zero."""
        self.check_conversion()
        check_rounding(self, self.rounding_mode.data, (RoundingMode.NEAREST_INT_TO_ZERO,))


@irdl_op_definition
class IntToPtrOp(ConversionOp):
    """`result[i]` is the pointer with the address `source[i]`."""

    name = "cuda_tile.int_to_ptr"
    FROM: ClassVar[ElementClass] = I64
    TO: ClassVar[ElementClass] = POINTER


@irdl_op_definition
class IToFOp(ConversionOp):
    """Converts an integer to a float; what is out of range becomes an infinity or NaN."""

    name = "cuda_tile.itof"
    TO: ClassVar[ElementClass] = FLOAT
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)

    def check_semantics(self) -> None:
        """An integer source, a float result with a zero, rounded to nearest even."""
        _, result = self.check_conversion()
        check_rounding(self, self.rounding_mode.data, (RoundingMode.NEAREST_EVEN,))
        if element_text(result.element_type) == "f8E8M0FNU":
            fail(self, "result has element type f8E8M0FNU, expected a float type with a zero")


@irdl_op_definition
class PtrToIntOp(ConversionOp):
    """`result[i]` is the address of the pointer `source[i]`."""

    name = "cuda_tile.ptr_to_int"
    FROM: ClassVar[ElementClass] = POINTER
    TO: ClassVar[ElementClass] = I64


@irdl_op_definition
class PtrToPtrOp(ConversionOp):
    """`result[i]` is the address of `source[i]`, pointing to another element type."""

    name = "cuda_tile.ptr_to_ptr"
    FROM: ClassVar[ElementClass] = POINTER
    TO: ClassVar[ElementClass] = POINTER


@irdl_op_definition
class TruncIOp(ResizingOp):
    """Keeps the low bits of an integer; `overflow` is a promise."""

    name = "cuda_tile.trunci"
    overflow = prop_def(IntegerOverflowAttr)

    def check_semantics(self) -> None:
        """The result is narrower than the source."""
        source, result = self.widths()
        if result >= source:
            fail(self, f"result has {result}-bit elements, expected fewer than {source}")


class RepackingOp(TileOp, ABC):
    """Reinterprets the bytes of a rank-1 tile, little-endian, as elements of another width."""

    FROM: ClassVar[ElementClass] = NUMBER_OR_I4
    TO: ClassVar[ElementClass] = NUMBER_OR_I4
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Two rank-1 tiles of the same number of bits, with elements of different widths."""
        source = check_tile(self, self.source, "source", self.FROM)
        result = check_tile(self, self.result, "result", self.TO)
        for type, what in ((source, "source"), (result, "result")):
            if type.rank != 1:
                fail(self, f"{what} has rank {type.rank}, expected 1")
        if packed_bits(source.element_type) == packed_bits(result.element_type):
            bits = packed_bits(source.element_type)
            fail(self, f"source and result have {bits}-bit elements, expected different widths")
        found, expected = _total_bits(result), _total_bits(source)
        if found != expected:
            fail(self, f"result has {found} bits, expected {expected} (as the source)")


def _total_bits(type: TileType) -> int:
    return type.num_elements * packed_bits(type.element_type)


@irdl_op_definition
class PackOp(RepackingOp):
    """The bytes of a tile as i8: 4-bit elements two to a byte, the even one in the low half."""

    name = "cuda_tile.pack"
    TO: ClassVar[ElementClass] = I8


@irdl_op_definition
class UnpackOp(RepackingOp):
    """A tile from its bytes: the inverse of `pack`."""

    name = "cuda_tile.unpack"
    FROM: ClassVar[ElementClass] = I8
