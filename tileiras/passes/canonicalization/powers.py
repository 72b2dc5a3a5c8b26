"""Powers with small constant exponents are products."""

from __future__ import annotations

import struct

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import RoundingMode, RoundingModeAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.passes.canonicalization.constants import splat_bytes, splat_signed
from tileiras.passes.canonicalization.editor import Editor

WIDE = (Float32Type, Float64Type)
"""Types whose product of three or four factors is within the error of the routine (2 ulp)."""


def simplify_fpowi(op: ct.FPowIOp, editor: Editor) -> bool:
    """`x ** 2` is `x * x`, rounded once; the routine takes 70 instructions for each element."""
    return _expand(op, splat_signed(op.exponent), editor)


def simplify_fpowf(op: ct.FPowFOp, editor: Editor) -> bool:
    """The same for an exponent that is a whole number written as a float."""
    number = _splat_float(op.exponent)
    if number is None or not number.is_integer():
        return False
    return _expand(op, int(number), editor)


def _expand(op: ct.FPowIOp | ct.FPowFOp, exponent: int | None, editor: Editor) -> bool:
    """Makes the product if it is as exact as the routine."""
    base = op.source
    if not isinstance(base.type, TileType):
        return False
    match exponent:
        case 1:
            value = base
        case 2:
            value = _product(op, base, base, editor)
        case 3 if isinstance(base.type.element_type, WIDE):
            value = _product(op, _product(op, base, base, editor), base, editor)
        case 4 if isinstance(base.type.element_type, WIDE):
            square = _product(op, base, base, editor)
            value = _product(op, square, square, editor)
        case _:
            return False
    editor.replace(op, [value])
    return True


def _product(
    op: ct.FPowIOp | ct.FPowFOp, left: SSAValue, right: SSAValue, editor: Editor
) -> SSAValue:
    """A product in front of the power."""
    new = ct.MulFOp.create(
        operands=[left, right],
        result_types=[op.result.type],
        properties={"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_EVEN)},
    )
    return editor.insert_before(op, new).results[0]


def _splat_float(value: SSAValue) -> float | None:
    """The element that a float constant repeats."""
    raw = splat_bytes(value)
    if raw is None or not isinstance(value.type, TileType):
        return None
    match value.type.element_type:
        case Float16Type():
            return struct.unpack("<e", raw)[0]
        case BFloat16Type():
            return struct.unpack("<f", b"\0\0" + raw)[0]
        case Float32Type():
            return struct.unpack("<f", raw)[0]
        case Float64Type():
            return struct.unpack("<d", raw)[0]
        case _:
            return None
