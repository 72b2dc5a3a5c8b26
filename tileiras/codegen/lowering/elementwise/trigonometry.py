"""Sine, cosine and tangent: of near arguments for all lanes at once, of others by libdevice.

f32 and f64 are libdevice's, bit by bit: programs compare their results with those of CUDA C++ and
of torch, which are libdevice's, too. A polynomial of our own is as exact, and rounds one in ten
differently. Rounded to f16 or bf16 the two are the same but for ties.

libdevice reduces arguments from `NEAR_LIMIT` on by all digits of 2 / pi, in a loop, in local
memory, behind a branch of each lane, so that lanes would run one after the other. Here only where a
lane is as large its thread asks libdevice for all of a few lanes, behind one branch. Before, f32
takes libdevice's own way of smaller arguments (`NEAR`). f16 and bf16 are reduced to the nearest
multiple of pi / 2 in three steps (Cody, Waite: "Software Manual for the Elementary Functions",
1980). A lane's result never depends on other lanes. f16 ends below the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from xdsl.dialects.builtin import Float16Type, Float64Type, i32
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.intrinsics import NEAR_LIMIT
from tileiras.codegen.lowering.elementwise.request import Request
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type

LIMIT = NEAR_LIMIT
"""Up to it the number of the multiple has 17 bits, and its product with the first part of pi / 2,
of 24 bits, leaves the argument exactly."""
LANES = 8
"""Policy: lanes between two branches: enough to overlap; more would take registers."""
_HALF_PI = tuple(map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.84698ap-48")))
"""Fixed: pi / 2 in three f32, the first two rounded to zero: their products keep the sign of -0."""
_ROUND = 1.5 * 2.0**23
"""Fixed: f32 of this size are integers; the last bits of the sum say which."""
_SINE = tuple(map(float.fromhex, ("-0x1.555546p-3", "0x1.11075cp-7", "-0x1.994cf8p-13")))
"""Derived: (sin(r) / r - 1) / r**2 as a polynomial in r**2 up to pi / 4, minimax, error 2**-28."""
_COSINE = (-0.5, *map(float.fromhex, ("0x1.55554ap-5", "-0x1.6c0c86p-10", "0x1.9a00cap-16")))
"""Derived: (cos(r) - 1) / r**2, error 2**-33."""


def lower_sin(request: Request) -> SSAValue:
    """Sine, 2 ulp."""
    return _lower(request, "sin", 0)


def lower_cos(request: Request) -> SSAValue:
    """Cosine, 2 ulp: the sine a quarter of a turn later."""
    return _lower(request, "cos", 1)


def lower_tan(request: Request) -> SSAValue:
    """Tangent, 4 ulp: libdevice's; of f16 and bf16 in f32."""
    if isinstance(request.source, Float64Type):
        return request.builder.libdevice("__nv_tan", *request.args)
    if request.is_half():
        return request.in_f32(lambda angle: _as_libdevice(request.builder, angle, "tan"))
    return _as_libdevice(request.builder, request.args[0], "tan")


def _lower(request: Request, name: str, quarters: int) -> SSAValue:
    b = request.builder

    def checked(angle: SSAValue) -> SSAValue:
        return _checked(b, angle, name, quarters)

    match request.source:
        case Float64Type():
            return b.libdevice(f"__nv_{name}", *request.args)
        case Float16Type():
            return request.in_f32(lambda angle: _sine(b, angle, quarters))
        case _ if request.is_half():
            return request.in_f32(lambda angle: _in_pieces(b, angle, checked))
        case _:
            return _as_libdevice(b, request.args[0], name)


Function = Callable[[SSAValue], SSAValue]
"""A function of f32 in all lanes."""


def _as_libdevice(b: ThreadBuilder, angle: SSAValue, name: str) -> SSAValue:
    """libdevice's function of f32, bit by bit."""

    def checked(part: SSAValue) -> SSAValue:
        near, far, after = b.new_block(), b.new_block(), b.new_block([part.type])
        b.cond_br(_any(b, _is_large(b, part)), far, near, is_rare=True)
        b.at(near)
        b.br(after, [b.libdevice(f"__nv_{name}f.near", part)])
        b.at(far)
        b.br(after, [_lane_by_lane(b, part, name)])
        b.at(after)
        return after.args[0]

    return _in_pieces(b, angle, checked)


def _in_pieces(b: ThreadBuilder, angle: SSAValue, function: Function) -> SSAValue:
    """A function of a few lanes after the other."""
    lanes = lanes_of(angle.type)
    if lanes is None or lanes <= LANES:
        return function(angle)
    starts = range(0, lanes, LANES)
    return b.concat([function(b.slice(angle, at, min(LANES, lanes - at))) for at in starts])


def _checked(b: ThreadBuilder, angle: SSAValue, name: str, quarters: int) -> SSAValue:
    """The polynomial's result; that of libdevice in lanes that are large or not finite."""
    near, is_large = _sine(b, angle, quarters), _is_large(b, angle)
    far, after = b.new_block(), b.new_block([near.type])
    b.cond_br(_any(b, is_large), far, after, (), [near], is_rare=True)
    b.at(far)
    b.br(after, [b.select(is_large, _lane_by_lane(b, angle, name), near)])
    b.at(after)
    return after.args[0]


def _lane_by_lane(b: ThreadBuilder, angle: SSAValue, name: str) -> SSAValue:
    """libdevice's function in a loop over lanes, which take turns at being the first.

    Its code stands there once; what is large is rare.
    """
    lanes = lanes_of(angle.type)
    if lanes is None:
        return b.libdevice(f"__nv_{name}f", angle)
    body, done = b.new_block([i32, angle.type]), b.new_block()
    b.br(body, [b.i32(0), angle])
    b.at(body)
    count, values = body.args
    found = b.libdevice(f"__nv_{name}f", b.extract(values, 0))
    turned = b.shuffle(values, b.splat(found, lanes), [*range(1, lanes), lanes])
    following = b.add(count, b.i32(1))
    goes_on = b.icmp("slt", following, b.i32(lanes))
    b.cond_br(goes_on, body, done, [following, turned], no_unroll=True)
    b.at(done)
    return turned


def _is_large(b: ThreadBuilder, angle: SSAValue) -> SSAValue:
    """For each lane whether its size is the limit or more, or it is no number."""
    size = b.unary_intrinsic("llvm.fabs", angle)
    return b.fcmp("uge", size, b.const_float(angle.type, LIMIT))


def _any(b: ThreadBuilder, flags: SSAValue) -> SSAValue:
    """Whether one lane is true."""
    lanes = lanes_of(flags.type)
    if lanes is None:
        return flags
    found = b.extract(flags, 0)
    for lane in range(1, lanes):
        found = b.or_(found, b.extract(flags, lane))
    return found


def _sine(b: ThreadBuilder, angle: SSAValue, quarters: int) -> SSAValue:
    """The sine of f32 below the limit, so many quarters of a turn later; NaN of infinities."""
    type, word = angle.type, integer_type(32)
    lanes = lanes_of(type)
    bits = word if lanes is None else vector_type(word, lanes)

    def number(value: float) -> SSAValue:
        return b.const_float(type, value)

    def fma(lhs: SSAValue, rhs: SSAValue, addend: SSAValue) -> SSAValue:
        return b.unary_intrinsic("llvm.fma", lhs, rhs, addend)

    shifted = fma(angle, number(2 / pi), number(_ROUND))
    count, rest = b.fsub(shifted, number(_ROUND)), angle
    for part in _HALF_PI:
        rest = fma(count, number(-part), rest)
    turn = b.add(b.bitcast(shifted, bits), b.const_int(bits, quarters))
    is_cosine = b.icmp("ne", b.and_(turn, b.const_int(bits, 1)), b.const_int(bits, 0))
    square = b.fmul(rest, rest)
    factor = b.select(
        is_cosine, fma(square, number(_COSINE[3]), number(_COSINE[2])), number(_SINE[2])
    )
    factor = fma(factor, square, b.select(is_cosine, number(_COSINE[1]), number(_SINE[1])))
    factor = fma(factor, square, b.select(is_cosine, number(_COSINE[0]), number(_SINE[0])))
    first = b.select(is_cosine, number(1.0), rest)
    # Of -0 the product plus 0 is 0, and the result -0.
    value = fma(factor, fma(square, first, number(0.0)), first)
    sign = b.shl(b.and_(turn, b.const_int(bits, 2)), b.const_int(bits, 30))
    return b.bitcast(b.xor(b.bitcast(value, bits), sign), type)
