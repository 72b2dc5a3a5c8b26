"""Lowering of elementwise ops: one rule per op, on scalars and on vectors alike."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.elementwise import conversions, floats, integers, math
from tileiras.codegen.lowering.elementwise.request import Request, Rule
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.nv_tileaa import arithmetic as arithmetic_ops
from tileiras.dialects.nv_tileaa import conversions as conversion_ops
from tileiras.dialects.nv_tileaa import math as math_ops
from tileiras.errors import InternalError

RULES: dict[type[Operation], Rule] = {
    arithmetic_ops.AbsFOp: floats.lower_absf,
    arithmetic_ops.AbsIOp: integers.lower_absi,
    arithmetic_ops.AddFOp: floats.lower_addf,
    arithmetic_ops.AddIOp: integers.lower_addi,
    arithmetic_ops.AndIOp: integers.lower_andi,
    arithmetic_ops.CeilOp: floats.lower_ceil,
    arithmetic_ops.CmpFOp: floats.lower_cmpf,
    arithmetic_ops.CmpIOp: integers.lower_cmpi,
    arithmetic_ops.DivFOp: floats.lower_divf,
    arithmetic_ops.DivIOp: integers.lower_divi,
    arithmetic_ops.FloorOp: floats.lower_floor,
    arithmetic_ops.FmaOp: floats.lower_fma,
    arithmetic_ops.MaxFOp: floats.lower_maxf,
    arithmetic_ops.MaxIOp: integers.lower_maxi,
    arithmetic_ops.MinFOp: floats.lower_minf,
    arithmetic_ops.MinIOp: integers.lower_mini,
    arithmetic_ops.MulFOp: floats.lower_mulf,
    arithmetic_ops.MulhiIOp: integers.lower_mulhii,
    arithmetic_ops.MulIOp: integers.lower_muli,
    arithmetic_ops.NegFOp: floats.lower_negf,
    arithmetic_ops.NegIOp: integers.lower_negi,
    arithmetic_ops.OrIOp: integers.lower_ori,
    arithmetic_ops.RemFOp: floats.lower_remf,
    arithmetic_ops.RemIOp: integers.lower_remi,
    arithmetic_ops.SelectOp: integers.lower_select,
    arithmetic_ops.ShLIOp: integers.lower_shli,
    arithmetic_ops.ShRIOp: integers.lower_shri,
    arithmetic_ops.SubFOp: floats.lower_subf,
    arithmetic_ops.SubIOp: integers.lower_subi,
    arithmetic_ops.XOrIOp: integers.lower_xori,
    math_ops.Atan2Op: math.lower_atan2,
    math_ops.CosOp: math.lower_cos,
    math_ops.CoshOp: math.lower_cosh,
    math_ops.ExpOp: math.lower_exp,
    math_ops.Exp2Op: math.lower_exp2,
    math_ops.FPowIOp: math.lower_fpowi,
    math_ops.LogOp: math.lower_log,
    math_ops.Log2Op: math.lower_log2,
    math_ops.PowOp: math.lower_pow,
    math_ops.RsqrtOp: math.lower_rsqrt,
    math_ops.SinOp: math.lower_sin,
    math_ops.SinhOp: math.lower_sinh,
    math_ops.SqrtOp: floats.lower_sqrt,
    math_ops.TanOp: math.lower_tan,
    math_ops.TanhOp: math.lower_tanh,
    conversion_ops.AddPtrOp: conversions.lower_addptr,
    conversion_ops.BitcastOp: conversions.lower_bitcast,
    conversion_ops.ExtIOp: conversions.lower_exti,
    conversion_ops.FpToFpOp: conversions.lower_fp_to_fp,
    conversion_ops.FpToIntOp: conversions.lower_fp_to_int,
    conversion_ops.IntToFpOp: conversions.lower_int_to_fp,
    conversion_ops.IntToPtrOp: conversions.lower_address_cast,
    conversion_ops.PtrToIntOp: conversions.lower_address_cast,
    conversion_ops.PtrToPtrOp: conversions.lower_address_cast,
    conversion_ops.TruncIOp: conversions.lower_trunci,
}
"""How each elementwise op becomes LLVM ops."""


def is_elementwise(op: Operation) -> bool:
    """Whether `lower_elementwise` knows the op."""
    return type(op) in RULES


def lower_elementwise(
    b: ThreadBuilder, op: Operation, args: Sequence[SSAValue], target: GpuTarget
) -> SSAValue:
    """Appends what `op` computes on `args` and returns the result's registers.

    `args` stand for the op's operands: all scalars, or vectors of one length that hold a thread's
    elements, in the types of `lowering.types`. Raises CompileError, with the op's place, for what
    the target or this compiler cannot do.
    """
    rule = RULES.get(type(op))
    if rule is None:
        raise InternalError(f"{op.name} is not elementwise", where="elementwise lowering")
    return rule(Request(b, op, tuple(args), target))
