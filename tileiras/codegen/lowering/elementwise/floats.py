"""Float arithmetic, comparison, minimum and maximum, rounding to integers.

Nothing is contracted: a multiplication and an addition are rounded each. Directed roundings of f16
and bf16 are computed in f32 in that direction and narrowed in the same one, which is exact
(`rounding`); to nearest they use the native instruction, or f32 where that is proven innocuous
(docs/elementwise.md).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Float32Type, Float64Type, f32
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.elementwise.packed import is_packed, packed_arithmetic
from tileiras.codegen.lowering.elementwise.request import Request, Rule
from tileiras.codegen.lowering.elementwise.rounding import float_suffix, narrow_f32
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonPredicate,
    RoundingMode,
)

_PREDICATES = {
    ComparisonPredicate.EQUAL: "eq",
    ComparisonPredicate.NOT_EQUAL: "ne",
    ComparisonPredicate.LESS_THAN: "lt",
    ComparisonPredicate.LESS_THAN_OR_EQUAL: "le",
    ComparisonPredicate.GREATER_THAN: "gt",
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: "ge",
}


def check_flush(request: Request) -> str:
    """`.ftz` if the op flushes, which only f32 instructions can do."""
    if not request.flush_to_zero:
        return ""
    if not isinstance(request.source, Float32Type):
        raise request.unsupported(f"cannot flush {request.source} to zero, only f32")
    return ".ftz"


def rounded_arithmetic(
    request: Request, name: str, plain: Callable[..., SSAValue], native_half: bool
) -> SSAValue:
    """An IEEE 754 operation with any of the four roundings.

    `name` is the intrinsic's part (`add`), `plain` builds the operation rounded to nearest even;
    `native_half`: f16 and bf16 have the instruction, else they go through f32.
    """
    b, flush, suffix = request.builder, check_flush(request), float_suffix(request)
    if request.is_half():
        if suffix == "rn":
            return plain(*request.args) if native_half else request.in_f32(plain)
        wide = [b.fpext(arg, f32) for arg in request.args]
        exact = b.unary_intrinsic(f"llvm.nvvm.{name}.{suffix}.f", *wide)
        return narrow_f32(request, exact, request.source, suffix)
    if suffix == "rn" and not flush:
        return plain(*request.args)
    if is_packed(name, request.args[0], request.target):
        return packed_arithmetic(b, f"{name}.{suffix}{flush}", *request.args)
    ending = request.intrinsic_suffix()
    return b.unary_intrinsic(f"llvm.nvvm.{name}.{suffix}{flush}{ending}", *request.args)


def lower_addf(request: Request) -> SSAValue:
    """`lhs + rhs`."""
    return rounded_arithmetic(request, "add", request.builder.fadd, native_half=True)


def lower_subf(request: Request) -> SSAValue:
    """`lhs - rhs`; in PTX terms `lhs + (-rhs)`, which is the same for every rounding."""
    b, (lhs, rhs) = request.builder, request.args
    if request.rounding is RoundingMode.NEAREST_EVEN and not request.flush_to_zero:
        return rounded_arithmetic(request, "sub", b.fsub, native_half=True)
    negated = Request(b, request.op, (lhs, b.fneg(rhs)), request.target)
    return rounded_arithmetic(negated, "add", b.fadd, native_half=True)


def lower_mulf(request: Request) -> SSAValue:
    """`lhs * rhs`."""
    return rounded_arithmetic(request, "mul", request.builder.fmul, native_half=True)


def lower_fma(request: Request) -> SSAValue:
    """`lhs * rhs + acc`, rounded once."""

    def plain(*args: SSAValue) -> SSAValue:
        return request.builder.unary_intrinsic("llvm.fma", *args)

    return rounded_arithmetic(request, "fma", plain, native_half=True)


def lower_sqrt(request: Request) -> SSAValue:
    """Square root: correctly rounded, or `sqrt.approx` on f32."""
    b = request.builder
    if request.rounding is RoundingMode.APPROX:
        if not isinstance(request.source, Float32Type):
            raise request.unsupported("has rounding 'approx' on f32 only")
        flush = ".ftz" if request.flush_to_zero else ""
        return b.unary_intrinsic(f"llvm.nvvm.sqrt.approx{flush}.f", *request.args)

    def plain(value: SSAValue) -> SSAValue:
        return b.unary_intrinsic("llvm.sqrt", value)

    return rounded_arithmetic(request, "sqrt", plain, native_half=False)


def lower_remf(request: Request) -> SSAValue:
    """C's fmod, exact. Not LLVM's frem, which NVPTX expands through one rounded division.

    The remainder of two f16 (bf16) numbers is one as well, so narrowing it is exact.
    """
    b = request.builder
    if request.is_half():
        return request.in_f32(lambda *args: b.libdevice("__nv_fmodf", *args))
    name = "__nv_fmod" if isinstance(request.source, Float64Type) else "__nv_fmodf"
    return b.libdevice(name, *request.args)


def lower_absf(request: Request) -> SSAValue:
    """Clears the sign."""
    return request.builder.unary_intrinsic("llvm.fabs", *request.args)


def lower_negf(request: Request) -> SSAValue:
    """Flips the sign."""
    return request.builder.fneg(*request.args)


def lower_ceil(request: Request) -> SSAValue:
    """The least integer not below."""
    return request.builder.unary_intrinsic("llvm.ceil", *request.args)


def lower_floor(request: Request) -> SSAValue:
    """The greatest integer not above."""
    return request.builder.unary_intrinsic("llvm.floor", *request.args)


def lower_cmpf(request: Request) -> SSAValue:
    """An i1 per element. With a NaN: true if unordered, false if ordered, also for not-equal."""
    predicate = _PREDICATES[request.enum("comparison_predicate")]
    ordered = request.enum("comparison_ordering") is ComparisonOrdering.ORDERED
    prefix = "o" if ordered else "u"
    return request.builder.fcmp(prefix + predicate, *request.args)


def _extreme(which: str) -> Rule:
    """maxf or minf: IEEE 754-2019 maximumNumber, or maximum where NaNs propagate; -0 < +0."""

    def lower(request: Request) -> SSAValue:
        b, flush = request.builder, check_flush(request)
        propagate = "propagate_nan" in request.op.properties
        if isinstance(request.source, Float64Type):
            return _extreme_f64(request, which, propagate)
        if flush or (propagate and isinstance(request.source, Float32Type)):
            nan = ".nan" if propagate else ""
            return b.unary_intrinsic(f"llvm.nvvm.f{which}{flush}{nan}.f", *request.args)
        name = f"llvm.{which}imum" if propagate else f"llvm.{which}num"
        return b.unary_intrinsic(name, *request.args)

    return lower


def _extreme_f64(request: Request, which: str, propagate: bool) -> SSAValue:
    """PTX has no `max.NaN.f64`, so the NaN is chosen by hand; the sum of both is a quiet one."""
    b, (lhs, rhs) = request.builder, request.args
    extreme = b.unary_intrinsic(f"llvm.{which}num", lhs, rhs)
    if not propagate:
        return extreme
    return b.select(b.fcmp("uno", lhs, rhs), b.fadd(lhs, rhs), extreme)


lower_maxf = _extreme("max")
lower_minf = _extreme("min")
