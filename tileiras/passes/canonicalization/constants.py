"""Constants as Python integers: reading the splat that a value is, making splats."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import OpResult, SSAValue

from tileiras.dialects.cuda_tile import ConstantOp
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_types import storage_bytes
from tileiras.dialects.cuda_tile.types import TileType


def constant_of(value: SSAValue) -> DenseAttr | None:
    """The constant that a value is."""
    if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
        return value.op.value
    return None


def splat_bytes(value: SSAValue) -> bytes | None:
    """The bytes of the one element that a constant repeats."""
    constant = constant_of(value)
    if constant is None or not constant.is_splat:
        return None
    return constant.raw.data


def integer_width(type: object) -> int | None:
    """Bits of the elements of an integer tile."""
    if isinstance(type, TileType) and isinstance(type.element_type, IntegerType):
        return type.element_type.width.data
    return None


def splat_unsigned(value: SSAValue) -> int | None:
    """The element that an integer constant repeats, read unsigned."""
    width = integer_width(value.type)
    raw = splat_bytes(value)
    if raw is None or width is None:
        return None
    return int.from_bytes(raw, "little") & ((1 << width) - 1)


def to_signed(number: int, width: int) -> int:
    """The low `width` bits of a number, read as two's complement."""
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def splat_signed(value: SSAValue) -> int | None:
    """The element that an integer constant repeats, read signed."""
    number = splat_unsigned(value)
    width = integer_width(value.type)
    return None if number is None or width is None else to_signed(number, width)


def integer_splat(type: object, number: int) -> DenseAttr | None:
    """A tile that repeats an integer, of which only the low bits count; there is none of i4."""
    width = integer_width(type)
    if width is None or width == 4 or not isinstance(type, TileType):
        return None
    size = storage_bytes(type.element_type)
    return DenseAttr(type, (number & ((1 << width) - 1)).to_bytes(size, "little"))


def retyped(constant: DenseAttr, type: object) -> DenseAttr | None:
    """The same elements in row-major order, as a tile of another shape."""
    if not isinstance(type, TileType):
        return None
    return DenseAttr(type, constant.raw.data)
