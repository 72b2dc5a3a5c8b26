"""Compile-time evaluation for the thread builder: integer constants only.

Floats are never folded here: rounding and NaN rules stay with the hardware and LLVM.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.dialects.llvm.constants import ConstantOp, ZeroOp
from tileiras.dialects.llvm.types import bit_width, is_integer, lanes_of, scalar_of

MAX_FOLDED_LANES = 256


def bits_of(value: SSAValue) -> tuple[int, ...] | None:
    """Bit patterns of a constant (one for a scalar or splat, else one per lane), or None."""
    if not isinstance(value, OpResult):
        return None
    match value.op:
        case ConstantOp() as op:
            return op.bits.data
        case ZeroOp() if is_integer(value.type):
            return (0,)
        case _:
            return None


def splat_bits_of(value: SSAValue) -> int | None:
    """The single bit pattern that all lanes of a constant have, or None."""
    bits = bits_of(value)
    return bits[0] if bits is not None and len(set(bits)) == 1 else None


def constant_int(value: SSAValue) -> int | None:
    """A constant integer (scalar or splat) as a signed number, or None."""
    bits = splat_bits_of(value)
    if bits is None or not is_integer(value.type):
        return None
    return to_signed(bits, bit_width(scalar_of(value.type)))


def to_signed(bits: int, width: int) -> int:
    """Two's complement value of a bit pattern."""
    return bits - (1 << width) if width > 0 and bits >> (width - 1) else bits


def _sdiv(lhs: int, rhs: int, width: int) -> int | None:
    a, b = to_signed(lhs, width), to_signed(rhs, width)
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _srem(lhs: int, rhs: int, width: int) -> int | None:
    quotient = _sdiv(lhs, rhs, width)
    if quotient is None:
        return None
    return to_signed(lhs, width) - quotient * to_signed(rhs, width)


_EVALUATE: dict[str, Callable[[int, int, int], int | None]] = {
    "llvm.add": lambda a, b, w: a + b,
    "llvm.sub": lambda a, b, w: a - b,
    "llvm.mul": lambda a, b, w: a * b,
    "llvm.sdiv": _sdiv,
    "llvm.udiv": lambda a, b, w: a // b if b else None,
    "llvm.srem": _srem,
    "llvm.urem": lambda a, b, w: a % b if b else None,
    "llvm.and": lambda a, b, w: a & b,
    "llvm.or": lambda a, b, w: a | b,
    "llvm.xor": lambda a, b, w: a ^ b,
    "llvm.shl": lambda a, b, w: a << b if b < w else None,
    "llvm.lshr": lambda a, b, w: a >> b if b < w else None,
    "llvm.ashr": lambda a, b, w: to_signed(a, w) >> b if b < w else None,
}

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _clustered(
    lhs: tuple[int, ...], rhs: tuple[int, ...], type: Attribute
) -> list[tuple[int, int]] | None:
    if len(lhs) == 1 and len(rhs) == 1:
        return [(lhs[0], rhs[0])]
    lanes = lanes_of(type) or 1
    if lanes > MAX_FOLDED_LANES:
        return None
    left = lhs * lanes if len(lhs) == 1 else lhs
    right = rhs * lanes if len(rhs) == 1 else rhs
    return list(zip(left, right, strict=True))


def fold_binary(name: str, lhs: SSAValue, rhs: SSAValue) -> tuple[int, ...] | None:
    """Result bits of an integer op on two constants; None if it must stay (also x / 0)."""
    left, right = bits_of(lhs), bits_of(rhs)
    if left is None or right is None or name not in _EVALUATE:
        return None
    pairs = _clustered(left, right, lhs.type)
    if pairs is None:
        return None
    width = bit_width(scalar_of(lhs.type))
    results = [_EVALUATE[name](a, b, width) for a, b in pairs]
    mask = (1 << width) - 1
    folded = [result & mask for result in results if result is not None]
    return tuple(folded) if len(folded) == len(results) else None


_RIGHT_ZERO_IS_IDENTITY = (
    *("llvm.add", "llvm.sub", "llvm.or", "llvm.xor", "llvm.shl", "llvm.lshr", "llvm.ashr"),
)
_COMMUTATIVE = ("llvm.add", "llvm.mul", "llvm.and", "llvm.or", "llvm.xor")


def simplify_binary(name: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue | None:
    """An operand that equals the result (`x + 0`, `x * 1`, `x & -1`, `x * 0`), or None."""
    result = _simplify_right(name, lhs, rhs)
    if result is None and name in _COMMUTATIVE:
        result = _simplify_right(name, rhs, lhs)
    return result


def _simplify_right(name: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue | None:
    bits = splat_bits_of(rhs)
    if bits is None:
        return None
    if bits == 0 and name in _RIGHT_ZERO_IS_IDENTITY:
        return lhs
    if bits == 0 and name in ("llvm.mul", "llvm.and"):
        return rhs
    if bits == 1 and name in ("llvm.mul", "llvm.sdiv", "llvm.udiv"):
        return lhs if bit_width(scalar_of(lhs.type)) > 1 else None
    if name in ("llvm.and", "llvm.or") and bits == (1 << bit_width(scalar_of(lhs.type))) - 1:
        return lhs if name == "llvm.and" else rhs
    return None


def fold_icmp(predicate: str, lhs: SSAValue, rhs: SSAValue) -> tuple[int, ...] | None:
    """Result bits of a comparison of two integer constants."""
    left, right = bits_of(lhs), bits_of(rhs)
    if left is None or right is None or not is_integer(lhs.type):
        return None
    pairs = _clustered(left, right, lhs.type)
    if pairs is None:
        return None
    width = bit_width(scalar_of(lhs.type))
    if predicate[0] == "s":
        pairs = [(to_signed(a, width), to_signed(b, width)) for a, b in pairs]
    compare = _COMPARE[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return tuple(int(compare(a, b)) for a, b in pairs)


def fold_integer_cast(name: str, value: SSAValue, target: Attribute) -> tuple[int, ...] | None:
    """Result bits of trunc, zext or sext of a constant."""
    bits = bits_of(value)
    if bits is None:
        return None
    width, target_width = bit_width(scalar_of(value.type)), bit_width(scalar_of(target))
    mask = (1 << target_width) - 1
    match name:
        case "llvm.trunc" | "llvm.zext":
            return tuple(pattern & mask for pattern in bits)
        case "llvm.sext":
            return tuple(to_signed(pattern, width) & mask for pattern in bits)
        case _:
            return None
