"""Float division: correctly rounded, or the approximations that f32 has.

Where few numbers divide many elements of a thread, `lhs / rhs` is computed from `y`, which is
`1 / rhs` rounded to nearest (Markstein, "Computation of elementary functions on the IBM RISC
System/6000 processor", 1990):

    q = lhs * y;  r = rhs * q - lhs, exactly;  result = q - r * y, rounded once

Each is one instruction, where `div.rn.f32` takes ten and a branch of its own for each element. The
result is the correctly rounded one for all mantissas: it could only be another where `lhs / rhs` is
within five times 2**-25 units in the last place of a midpoint between two floats, and
tests/codegen/test_division.py has how all such pairs were tried. Exponents are checked: `rhs` once,
its `y` is NaN if it is too small or too large; of each element the result, and only where one is
out of range its thread divides all of them by `div.rn.f32`, behind a branch. Zeros are right as
they are: `r` is positive zero then, so `q` keeps its sign if `y` is positive.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import OpResult, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.elementwise.floats import rounded_arithmetic
from tileiras.codegen.lowering.elementwise.request import Request
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.llvm.types import lanes_of
from tileiras.dialects.llvm.vectors import ShuffleVectorOp

LANES = 8
"""Policy: lanes between two branches: enough to overlap; more would take registers."""
SHARED = 4
"""Policy: elements that one number divides, at least, in a thread."""
RHS_LEAST, RHS_MOST = 2.0**-32, 2.0**32
"""Derived: with results in their range, no intermediate result is subnormal or too large, and the
last place of `r` is 2**-143 or more: it is exact."""
RESULT_LEAST, RESULT_MOST = 2.0**-64, 2.0**64
"""Policy: results that need no check beside this one; softmax and norms stay within."""


def lower_divf(request: Request) -> SSAValue:
    """`lhs / rhs`: correctly rounded, or `div.approx` / `div.full` on f32 (2 ulp)."""
    b = request.builder
    match request.rounding:
        case (RoundingMode.APPROX | RoundingMode.FULL) as mode:
            if not isinstance(request.source, Float32Type):
                raise request.unsupported(f"has rounding '{mode.value}' on f32 only")
            flush = ".ftz" if request.flush_to_zero else ""
            name = f"div.approx{flush}.f" if mode is RoundingMode.APPROX else f"div.full{flush}"
            return b.unary_intrinsic(f"llvm.nvvm.{name}", *request.args)
        case RoundingMode.NEAREST_EVEN if not request.flush_to_zero:
            found = _by_few(request)
            return rounded_arithmetic(request, "div", b.fdiv, False) if found is None else found
        case _:
            return rounded_arithmetic(request, "div", b.fdiv, native_half=False)


def _by_few(request: Request) -> SSAValue | None:
    """The quotients where few numbers divide many elements; None if they do not."""
    b, (lhs, rhs) = request.builder, request.args
    if not isinstance(request.source, Float32Type) or not isinstance(rhs, OpResult):
        return None
    spread = rhs.op
    if not isinstance(spread, ShuffleVectorOp):
        return None
    order = spread.indices.data
    few = sorted(dict.fromkeys(order))
    if min(order) < 0 or max(order) >= (lanes_of(spread.lhs.type) or 0):
        return None
    if SHARED * len(few) > len(order):
        return None
    with b.at_definition(spread.lhs):
        numbers = b.shuffle(spread.lhs, None, few) if few[1:] else b.extract(spread.lhs, few[0])
    with b.at_definition(numbers):
        inverses = _inverses(b, numbers)
    pieces: list[SSAValue] = []
    for start in range(0, len(order), LANES):
        lanes = [few.index(number) for number in order[start : start + LANES]]
        divisors, factors = (_spread(b, values, lanes) for values in (numbers, inverses))
        pieces.append(_checked(b, b.slice(lhs, start, len(lanes)), divisors, factors))
    return b.concat(pieces)


def _spread(b: ThreadBuilder, values: SSAValue, lanes: list[int]) -> SSAValue:
    """One of the values, or the only one, in each lane."""
    if lanes_of(values.type) is None:
        return b.splat(values, len(lanes))
    return b.shuffle(values, None, lanes)


def _inverses(b: ThreadBuilder, numbers: SSAValue) -> SSAValue:
    """`1 / number` rounded to nearest, NaN if the number is not within its range."""
    inverse = b.fdiv(b.const_float(numbers.type, 1.0), numbers)
    is_within = _within(b, numbers, RHS_LEAST, RHS_MOST)
    return b.select(is_within, inverse, b.const_float(numbers.type, nan))


def _checked(b: ThreadBuilder, lhs: SSAValue, rhs: SSAValue, inverse: SSAValue) -> SSAValue:
    """The quotients of a few lanes."""
    type = lhs.type
    first = b.fmul(lhs, inverse)
    rest = b.unary_intrinsic("llvm.fma", rhs, first, b.fneg(lhs))
    quotient = b.unary_intrinsic("llvm.fma", b.fneg(rest), inverse, first)
    rare, after, slow = b.new_block(), b.new_block([type]), b.new_block()
    b.cond_br(_all_within(b, quotient), after, rare, [quotient])
    b.at(rare)
    zero = b.const_float(type, 0.0)
    is_zero = b.and_(b.fcmp("oeq", lhs, zero), b.fcmp("ogt", inverse, zero))
    is_right = b.or_(_within(b, quotient, RESULT_LEAST, RESULT_MOST), is_zero)
    b.cond_br(_reduced(b, is_right, b.and_), after, slow, [quotient])
    b.at(slow)
    b.br(after, [b.fdiv(lhs, rhs)])
    b.at(after)
    return after.args[0]


def _within(b: ThreadBuilder, values: SSAValue, least: float, most: float) -> SSAValue:
    """For each lane whether its absolute value is in a range."""
    size = b.unary_intrinsic("llvm.fabs", values)
    is_large = b.fcmp("oge", size, b.const_float(values.type, least))
    return b.and_(is_large, b.fcmp("ole", size, b.const_float(values.type, most)))


def _all_within(b: ThreadBuilder, quotients: SSAValue) -> SSAValue:
    """Whether all lanes are in the range of results: by the largest, or a NaN, and the least.

    A predicate for each lane would have to be kept for the lanes that are asked again.
    """
    size = b.unary_intrinsic("llvm.fabs", quotients)
    most = _reduced(b, size, lambda x, y: b.unary_intrinsic("llvm.maximum", x, y))
    least = _reduced(b, size, lambda x, y: b.unary_intrinsic("llvm.minnum", x, y))
    is_small = b.fcmp("ole", most, b.const_float(most.type, RESULT_MOST))
    return b.and_(is_small, b.fcmp("oge", least, b.const_float(least.type, RESULT_LEAST)))


def _reduced(
    b: ThreadBuilder, values: SSAValue, combine: Callable[[SSAValue, SSAValue], SSAValue]
) -> SSAValue:
    """All lanes combined, in pairs."""
    found = [b.extract(values, lane) for lane in range(lanes_of(values.type) or 1)]
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2])
        found = [combine(*pair) for pair in pairs] + found[len(found) & ~1 :]
    return found[0]
