"""Mathematical functions: one instruction where it is accurate enough, else libdevice.

f16 and bf16 are computed in f32 and rounded once at the end (Tile IR specification: "emulated in
f32"). Bounds: docs/elementwise.md.
"""

from __future__ import annotations

from math import e, log2

from xdsl.dialects.builtin import Float32Type, Float64Type, f32
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.elementwise.floats import check_flush
from tileiras.codegen.lowering.elementwise.request import Request, Rule
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.llvm.types import integer_type, lanes_of


def from_libdevice(name: str) -> Rule:
    """`__nv_<name>f` on f32, f16, bf16 and `__nv_<name>` on f64."""

    def lower(request: Request) -> SSAValue:
        b = request.builder
        match request.source:
            case Float64Type():
                return b.libdevice(f"__nv_{name}", *request.args)
            case Float32Type():
                return b.libdevice(f"__nv_{name}f", *request.args)
            case _:
                return request.in_f32(lambda *args: b.libdevice(f"__nv_{name}f", *args))

    return lower


lower_cosh = from_libdevice("cosh")
lower_sinh = from_libdevice("sinh")
lower_log = from_libdevice("log")
lower_log2 = from_libdevice("log2")
lower_pow = from_libdevice("pow")
lower_atan2 = from_libdevice("atan2")
_exp_full = from_libdevice("exp")
_tanh_full = from_libdevice("tanh")


def _exp_by_exp2(request: Request, value: SSAValue) -> SSAValue:
    """`2 ** (x * log2 e)` in f32: relative error 2**-22 and |x| * 2**-24 from the product."""
    b = request.builder
    scaled = b.fmul(value, b.const_float(value.type, log2(e)))
    return b.unary_intrinsic("llvm.exp2", scaled)


def lower_exp(request: Request) -> SSAValue:
    """`e ** x`: libdevice, or exp2 of the scaled operand for `approx` and for f16 and bf16."""
    if request.is_half():
        # the f32 error is below 2**-17 of the result: invisible in 11 or 8 bits
        return request.in_f32(lambda value: _exp_by_exp2(request, value))
    if request.rounding is not RoundingMode.APPROX:
        return _exp_full(request)
    if not isinstance(request.source, Float32Type):
        raise request.unsupported("has rounding 'approx' on f32 only")
    return _exp_by_exp2(request, request.args[0])


def lower_exp2(request: Request) -> SSAValue:
    """`2 ** x`: `ex2.approx.f32`, which handles subnormals unless told to flush; 2 ulp."""
    b, flush = request.builder, check_flush(request)
    match request.source:
        case Float64Type():
            return b.libdevice("__nv_exp2", *request.args)
        case Float32Type() if flush:
            return _shared_exp2(request, *request.args)
        case Float32Type():
            return b.unary_intrinsic("llvm.exp2", *request.args)
        case _:
            return request.in_f32(lambda value: b.unary_intrinsic("llvm.exp2", value))


def _flushing_exp2(request: Request, value: SSAValue) -> SSAValue:
    return request.asm("ex2.approx.ftz.f32 $0, $1;", "=f,f", f32, value)


def _shared_exp2(request: Request, value: SSAValue) -> SSAValue:
    """By special functions, and the op's `fma_share` of the elements by FMA units."""
    b, share, lanes = request.builder, request.fma_share, lanes_of(value.type) or 1
    if share is None:
        return _flushing_exp2(request, value)
    from tileiras.codegen.lowering.elementwise.exp2_on_fma import exp2_on_fma, lanes_on_fma

    on_fma = lanes_on_fma(lanes, *share)
    if not on_fma:
        return _flushing_exp2(request, value)
    others = [lane for lane in range(lanes) if lane not in on_fma]
    computed = exp2_on_fma(b, b.shuffle(value, None, on_fma), request.target)
    if not others:
        return computed
    special = _flushing_exp2(request, b.shuffle(value, None, others))
    return _merged(b, lanes, (on_fma, computed), (tuple(others), special))


def _merged(b: ThreadBuilder, lanes: int, *parts: tuple[tuple[int, ...], SSAValue]) -> SSAValue:
    """One vector of two, each with the lanes that its elements have there."""
    where, longest = {}, max(len(places) for places, _ in parts)
    padded: list[SSAValue] = []
    for number, (places, value) in enumerate(parts):
        where |= {lane: number * longest + index for index, lane in enumerate(places)}
        padded.append(
            b.shuffle(value, None, [*range(len(places)), *[-1] * (longest - len(places))])
        )
    return b.shuffle(padded[0], padded[1], [where[lane] for lane in range(lanes)])


def lower_rsqrt(request: Request) -> SSAValue:
    """`1 / sqrt(x)`: `rsqrt.approx.f32`, 2 ulp; libdevice on f64."""
    b, flush = request.builder, check_flush(request)
    match request.source:
        case Float64Type():
            return b.libdevice("__nv_rsqrt", *request.args)
        case Float32Type():
            return b.unary_intrinsic(f"llvm.nvvm.rsqrt.approx{flush}.f", *request.args)
        case _:
            return request.in_f32(
                lambda value: b.unary_intrinsic("llvm.nvvm.rsqrt.approx.f", value)
            )


def lower_tanh(request: Request) -> SSAValue:
    """Hyperbolic tangent: libdevice (2 ulp), or `tanh.approx.f32` (2**-11 relative)."""
    if request.rounding is not RoundingMode.APPROX:
        return _tanh_full(request)
    if not isinstance(request.source, Float32Type):
        raise request.unsupported("has rounding 'approx' on f32 only")
    return request.asm("tanh.approx.f32 $0, $1;", "=f,f", f32, *request.args)


def lower_fpowi(request: Request) -> SSAValue:
    """`x ** n`, n a signed integer: `|x| ** n` by libdevice, negated for negative x and odd n.

    So the parity of n is exact though f32 has only 24 bits for n; where that rounds n, by 2**-24 of
    it, the power changes by less than its own error.
    """
    b, (_, exponent) = request.builder, request.args
    count = b.sext(exponent, integer_type(32))
    match request.source:
        case Float64Type():
            return _signed_power(request, request.args[0], count, "__nv_pow", 64)
        case Float32Type():
            return _signed_power(request, request.args[0], count, "__nv_powf", 32)
        case _:
            return request.in_f32(
                lambda base: _signed_power(request, base, count, "__nv_powf", 32),
                request.args[0],
            )


def _signed_power(
    request: Request, base: SSAValue, count: SSAValue, function: str, width: int
) -> SSAValue:
    b, bits = request.builder, integer_type(width)
    magnitude = b.libdevice(
        function, b.unary_intrinsic("llvm.fabs", base), b.sitofp(count, base.type)
    )
    odd = b.shl(b.int_cast(count, bits), request.constant(bits, width - 1))
    sign = b.and_(odd, b.bitcast(base, request.like(bits)))
    return b.bitcast(b.xor(b.bitcast(magnitude, request.like(bits)), sign), base.type)
