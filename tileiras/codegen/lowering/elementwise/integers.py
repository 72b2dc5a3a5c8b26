"""Integer arithmetic, comparison, bitwise operations and select.

An i1 is a number of one bit (as signed: 0 and -1), and LLVM's NVPTX backend cannot select most
arithmetic on it, so its arithmetic is written as logic here.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.folding import splat_bits_of, to_signed
from tileiras.codegen.lowering.elementwise.request import Request, Rule
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate, RoundingMode
from tileiras.dialects.llvm.types import integer_type

_PREDICATES = {
    ComparisonPredicate.EQUAL: "eq",
    ComparisonPredicate.NOT_EQUAL: "ne",
    ComparisonPredicate.LESS_THAN: "lt",
    ComparisonPredicate.LESS_THAN_OR_EQUAL: "le",
    ComparisonPredicate.GREATER_THAN: "gt",
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: "ge",
}


def lower_addi(request: Request) -> SSAValue:
    """`lhs + rhs`, wrapping. The overflow promise is not used."""
    b, (lhs, rhs) = request.builder, request.args
    return b.xor(lhs, rhs) if request.integer_width() == 1 else b.add(lhs, rhs)


def lower_subi(request: Request) -> SSAValue:
    """`lhs - rhs`, wrapping."""
    b, (lhs, rhs) = request.builder, request.args
    return b.xor(lhs, rhs) if request.integer_width() == 1 else b.sub(lhs, rhs)


def lower_muli(request: Request) -> SSAValue:
    """Low half of `lhs * rhs`."""
    b, (lhs, rhs) = request.builder, request.args
    return b.and_(lhs, rhs) if request.integer_width() == 1 else b.mul(lhs, rhs)


def lower_mulhii(request: Request) -> SSAValue:
    """High half of the unsigned product: `mul.hi.u32`, `mul.hi.u64`, or a wider multiply."""
    b, (lhs, rhs) = request.builder, request.args
    width = request.integer_width()
    match width:
        case 1:
            return request.constant(integer_type(1), 0)  # 1 * 1 = 0b01
        case 64:
            return request.asm("mul.hi.u64 $0, $1, $2;", "=l,l,l", integer_type(64), lhs, rhs)
        case _:
            wide = integer_type(2 * width)
            product = b.mul(b.zext(lhs, wide), b.zext(rhs, wide))
            high = b.lshr(product, request.constant(wide, width))
            return b.trunc(high, integer_type(width))


def lower_absi(request: Request) -> SSAValue:
    """`|x|`, read as unsigned, so that the absolute value of the least number is exact."""
    b, (value,) = request.builder, request.args
    width = request.integer_width()
    if width == 1:
        return value  # |-1| = 1
    zero = request.constant(integer_type(width), 0)
    return b.select(b.icmp("slt", value, zero), b.sub(zero, value), value)


def lower_negi(request: Request) -> SSAValue:
    """`-x`, wrapping."""
    b, (value,) = request.builder, request.args
    width = request.integer_width()
    return value if width == 1 else b.sub(request.constant(integer_type(width), 0), value)


def _power_of_two(request: Request, value: SSAValue) -> int | None:
    """The exponent where `value` is the same positive power of two in every lane, else None."""
    bits = splat_bits_of(value)
    if bits is None or bits <= 0 or bits & (bits - 1):
        return None
    if to_signed(bits, request.integer_width()) < 0 and request.signed:
        return None
    return bits.bit_length() - 1


def lower_divi(request: Request) -> SSAValue:
    """Division rounded to zero, up or down; undefined for a zero divisor."""
    b, (lhs, rhs) = request.builder, request.args
    rounding = request.enum("rounding")
    if request.integer_width() == 1:
        return lhs  # the divisor can only be one; -1 / -1 overflows
    if _is_quick(request) and rounding is not RoundingMode.POSITIVE_INF:
        found = b.divide_quickly(lhs, rhs)
        return found.to_zero if rounding is RoundingMode.ZERO else found.down
    match rounding, request.signed:
        case RoundingMode.ZERO, True:
            return b.sdiv(lhs, rhs)
        case ((RoundingMode.ZERO | RoundingMode.NEGATIVE_INF), False):
            return b.udiv(lhs, rhs)
        case ((RoundingMode.NEGATIVE_INF | RoundingMode.POSITIVE_INF), _):
            shift = _power_of_two(request, rhs)
            if shift is not None:
                return _shifted_division(request, shift, rounding)
            return _adjusted_division(request, rounding)
        case _:
            raise request.unsupported(f"has no rounding '{rounding.value}'")


def _is_quick(request: Request) -> bool:
    """Whether a division is one of two scalars, and the kernel waits for it."""
    rhs = request.args[1]
    is_unknown = rhs.type == i32 and splat_bits_of(rhs) is None
    return request.builder.divides_quickly and request.signed and is_unknown


def _shifted_division(request: Request, shift: int, rounding: RoundingMode) -> SSAValue:
    """Floor or ceiling of `lhs / 2**shift`: a shift, and one more where bits fell off."""
    b, lhs = request.builder, request.args[0]
    register = integer_type(request.integer_width())
    amount = request.constant(register, shift)
    floor = b.ashr(lhs, amount) if request.signed else b.lshr(lhs, amount)
    if rounding is RoundingMode.NEGATIVE_INF:
        return floor
    rest = b.and_(lhs, request.constant(register, (1 << shift) - 1))
    inexact = b.icmp("ne", rest, request.constant(register, 0))
    return b.add(floor, b.zext(inexact, register))


def _adjusted_division(request: Request, rounding: RoundingMode) -> SSAValue:
    """Division to zero, then one step where it was inexact and rounded the other way."""
    b, (lhs, rhs) = request.builder, request.args
    register = integer_type(request.integer_width())
    zero = request.constant(register, 0)
    quotient = b.sdiv(lhs, rhs) if request.signed else b.udiv(lhs, rhs)
    rest = b.sub(lhs, b.mul(quotient, rhs))
    step = b.icmp("ne", rest, zero)
    if not request.signed:
        return b.add(quotient, b.zext(step, register))
    negative = b.icmp("slt", b.xor(lhs, rhs), zero)
    if rounding is RoundingMode.NEGATIVE_INF:
        return b.add(quotient, b.sext(b.and_(step, negative), register))
    return b.add(quotient, b.zext(b.and_(step, b.not_(negative)), register))


def lower_remi(request: Request) -> SSAValue:
    """Remainder of the division to zero, with the sign of the dividend."""
    b, (lhs, rhs) = request.builder, request.args
    if request.integer_width() == 1:
        return request.constant(integer_type(1), 0)
    if _is_quick(request):
        return b.divide_quickly(lhs, rhs).rest
    return b.srem(lhs, rhs) if request.signed else b.urem(lhs, rhs)


def _extreme(smaller: bool) -> Rule:
    def lower(request: Request) -> SSAValue:
        b, (lhs, rhs) = request.builder, request.args
        if request.integer_width() == 1:
            # as signed, true is -1 and so the smaller one
            return b.or_(lhs, rhs) if request.signed == smaller else b.and_(lhs, rhs)
        name = ("s" if request.signed else "u") + ("min" if smaller else "max")
        return b.unary_intrinsic(f"llvm.{name}", lhs, rhs)

    return lower


lower_maxi = _extreme(smaller=False)
lower_mini = _extreme(smaller=True)


def lower_cmpi(request: Request) -> SSAValue:
    """An i1 per element."""
    b, (lhs, rhs) = request.builder, request.args
    predicate = _PREDICATES[request.enum("comparison_predicate")]
    if request.integer_width() == 1:
        return _compare_bits(request, predicate)
    if predicate not in ("eq", "ne"):
        predicate = ("s" if request.signed else "u") + predicate
    return b.icmp(predicate, lhs, rhs)


def _compare_bits(request: Request, predicate: str) -> SSAValue:
    b, (lhs, rhs) = request.builder, request.args
    if predicate == "ne":
        return b.xor(lhs, rhs)
    if predicate == "eq":
        return b.not_(b.xor(lhs, rhs))
    if predicate.startswith("g") != request.signed:  # as signed, true is the smaller one
        lhs, rhs = rhs, lhs
    return b.and_(b.not_(lhs), rhs) if predicate.endswith("t") else b.or_(b.not_(lhs), rhs)


def lower_shli(request: Request) -> SSAValue:
    """Left shift; an amount (unsigned) of the width or more gives zero."""
    return _guarded_shift(request, request.builder.shl)


def lower_shri(request: Request) -> SSAValue:
    """Right shift; an amount (unsigned) of the width or more gives zero or only sign bits."""
    b, (lhs, rhs) = request.builder, request.args
    width = request.integer_width()
    if not request.signed:
        return _guarded_shift(request, b.lshr)
    if width == 1:
        return lhs
    if _amount_fits(request, rhs):
        return b.ashr(lhs, rhs)
    most = request.constant(integer_type(width), width - 1)
    return b.ashr(lhs, b.unary_intrinsic("llvm.umin", rhs, most))


def _amount_fits(request: Request, amount: SSAValue) -> bool:
    bits = request.builder.constant_bits_of(amount)
    return bits is not None and all(bit < request.integer_width() for bit in bits)


def _guarded_shift(request: Request, shift: Callable[..., SSAValue]) -> SSAValue:
    """The shift, or zero where the amount is too large: there LLVM's own shift is poison."""
    b, (lhs, amount) = request.builder, request.args
    width = request.integer_width()
    if width == 1:
        return b.and_(lhs, b.not_(amount))
    if _amount_fits(request, amount):
        return shift(lhs, amount)
    register = integer_type(width)
    if width == 64:
        # LLVM makes of the guard below PTX's own, which reads the low 32 bits of the amount only.
        amount = b.unary_intrinsic("llvm.umin", amount, request.constant(register, width))
    fits = b.icmp("ult", amount, request.constant(register, width))
    return b.select(fits, shift(lhs, amount), request.constant(register, 0))


def lower_andi(request: Request) -> SSAValue:
    """Bitwise and."""
    return request.builder.and_(*request.args)


def lower_ori(request: Request) -> SSAValue:
    """Bitwise or."""
    return request.builder.or_(*request.args)


def lower_xori(request: Request) -> SSAValue:
    """Bitwise exclusive or."""
    return request.builder.xor(*request.args)


def lower_select(request: Request) -> SSAValue:
    """`cond ? x : y`, on any element type."""
    return request.builder.select(*request.args)
