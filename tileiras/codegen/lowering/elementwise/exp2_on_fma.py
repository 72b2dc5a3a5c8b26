"""Powers of 2 of f32 without special functions, for a share of a thread's elements.

`2 ** x` is `2 ** n * 2 ** f` with `n` the greatest integer not above x:

    x = min(max(x, -127), 128)             NaN stays NaN
    t = x + (1.5 * 2 ** 23 + 127)          rounded down, so that its low bits are n + 127
    f = x - (t - (1.5 * 2 ** 23 + 127))    exact, in [0, 1)
    2 ** f by a polynomial;  2 ** n has the bits t << 23

Results are those of `ex2.approx.ftz`, with another last bit: 1.86 ulp (all f32 of [0, 1); 2 is what
PTX promises of ex2). n = -127 gives the bits of zero and n = 128 those of infinity. The same way is
taken by FlashAttention-4 (a polynomial of degree 3, for results that become 16 bits).
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.elementwise.packed import is_packed, packed_arithmetic
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type

COEFFICIENTS = (
    0.0018852935172617435,
    0.008973361924290657,
    0.055835917592048645,
    0.24015282094478607,
    0.6931524872779846,
    1.0,
)
"""Of 2 ** f on [0, 1), the highest power first. Least largest error with 2 ** 0 = 1 (weighted least
squares), then the best f32 neighbours for Horner's scheme in f32."""
LEAST, MOST = -127.0, 128.0
"""Fixed: below and above, results are zero and infinity."""
TO_INTEGER = 1.5 * 2**23 + 127
"""Fixed: an f32 of this magnitude has no bits behind the point, and the exponent's bias in its low
bits."""
MANTISSA_BITS = 23
"""Fixed: of f32."""


def lanes_on_fma(lanes: int, pairs: int, of: int) -> tuple[int, ...]:
    """Which of so many elements are computed here: `pairs` of every `of` neighbouring pairs.

    They are spread evenly, so that both units have work all the time.
    """
    chosen = [i for i in range(lanes // 2) if (i + 1) * pairs // of > i * pairs // of]
    return tuple(2 * i + half for i in chosen for half in (0, 1))


def exp2_on_fma(b: ThreadBuilder, value: SSAValue, target: GpuTarget) -> SSAValue:
    """`2 ** value` of a vector of an even number of f32, subnormal results zero."""

    def constant(number: float) -> SSAValue:
        return b.const_float(value.type, number)

    lanes = lanes_of(value.type) or 1
    above = b.unary_intrinsic("llvm.nvvm.fmax.nan.f", value, constant(LEAST))
    inside = b.unary_intrinsic("llvm.nvvm.fmin.nan.f", above, constant(MOST))
    shifted = _add_down(b, inside, constant(TO_INTEGER), target)
    rest = b.fsub(inside, b.fsub(shifted, constant(TO_INTEGER)))
    power = constant(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = b.unary_intrinsic("llvm.fma", power, rest, constant(coefficient))
    words = vector_type(integer_type(32), lanes)
    bits = b.shl(b.bitcast(shifted, words), b.const_int(words, MANTISSA_BITS))
    return b.fmul(power, b.bitcast(bits, vector_type(f32, lanes)))


def _add_down(b: ThreadBuilder, lhs: SSAValue, rhs: SSAValue, target: GpuTarget) -> SSAValue:
    if is_packed("add", lhs, target):
        return packed_arithmetic(b, "add.rm", lhs, rhs)
    return b.unary_intrinsic("llvm.nvvm.add.rm.f", lhs, rhs)
