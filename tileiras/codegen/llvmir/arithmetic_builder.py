"""Elementwise methods of the thread builder. Scalars and vectors alike; integers fold."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.folding import (
    bits_of,
    fold_binary,
    fold_icmp,
    fold_integer_cast,
    simplify_binary,
    splat_bits_of,
)
from tileiras.codegen.llvmir.op_emitter import OpEmitter, string_attr
from tileiras.dialects.llvm import arithmetic as ops
from tileiras.dialects.llvm.types import bit_width, integer_type, scalar_of, with_scalar

_Binary = Callable[["ArithmeticBuilder", SSAValue, SSAValue], SSAValue]
_Cast = Callable[["ArithmeticBuilder", SSAValue, Attribute], SSAValue]


def _integer(op: type[ops.BinaryOp]) -> _Binary:
    """The method of an integer operation."""

    def build(self: ArithmeticBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        folded = fold_binary(op.name, lhs, rhs)
        if folded is not None:
            return self.const_bits(lhs.type, folded)
        return simplify_binary(op.name, lhs, rhs) or self.value(op, (lhs, rhs), lhs.type)

    return build


def _float(op: type[ops.BinaryOp]) -> _Binary:
    """The method of a float operation."""
    return lambda self, lhs, rhs: self.value(op, (lhs, rhs), lhs.type)


def _cast(op: type[ops.CastOp]) -> _Cast:
    """The method of a cast."""

    def build(self: ArithmeticBuilder, value: SSAValue, type: Attribute) -> SSAValue:
        target = with_scalar(value.type, scalar_of(type))
        if target == value.type:
            return value
        folded = fold_integer_cast(op.name, value, target)
        if folded is not None:
            return self.const_bits(target, folded)
        return self.value(op, (value,), target)

    return build


class ArithmeticBuilder(OpEmitter):
    """Methods named like LLVM's instructions, which say what they mean; each returns its result."""

    add = _integer(ops.AddOp)
    sub = _integer(ops.SubOp)
    mul = _integer(ops.MulOp)
    sdiv = _integer(ops.SDivOp)
    udiv = _integer(ops.UDivOp)
    srem = _integer(ops.SRemOp)
    urem = _integer(ops.URemOp)
    and_ = _integer(ops.AndOp)
    or_ = _integer(ops.OrOp)
    xor = _integer(ops.XOrOp)
    shl = _integer(ops.ShlOp)
    lshr = _integer(ops.LShrOp)
    ashr = _integer(ops.AShrOp)
    fadd = _float(ops.FAddOp)
    fsub = _float(ops.FSubOp)
    fmul = _float(ops.FMulOp)
    fdiv = _float(ops.FDivOp)

    def not_(self, value: SSAValue) -> SSAValue:
        """Flips every bit."""
        return self.xor(value, self.const_int(value.type, -1))

    def fneg(self, value: SSAValue) -> SSAValue:
        """Flips the sign bit."""
        return self.value(ops.FNegOp, (value,), value.type)

    def icmp(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Integer or pointer comparison: eq ne slt sle sgt sge ult ule ugt uge."""
        type = with_scalar(lhs.type, integer_type(1))
        folded = fold_icmp(predicate, lhs, rhs)
        if folded is not None:
            return self.const_bits(type, folded)
        return self.value(ops.ICmpOp, (lhs, rhs), type, {"predicate": string_attr(predicate)})

    def fcmp(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Float comparison: oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno."""
        type = with_scalar(lhs.type, integer_type(1))
        return self.value(ops.FCmpOp, (lhs, rhs), type, {"predicate": string_attr(predicate)})

    def select(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`condition ? lhs : rhs` per lane; a scalar condition chooses whole vectors."""
        known = splat_bits_of(condition)
        if known is not None:
            return lhs if known else rhs
        if lhs is rhs:
            return lhs
        return self.value(ops.SelectOp, (condition, lhs, rhs), lhs.type)

    # casts: `type` is the result type, or its element type if the value is a vector

    trunc = _cast(ops.TruncOp)
    zext = _cast(ops.ZExtOp)
    sext = _cast(ops.SExtOp)
    fptrunc = _cast(ops.FPTruncOp)
    fpext = _cast(ops.FPExtOp)
    fptosi = _cast(ops.FPToSIOp)
    fptoui = _cast(ops.FPToUIOp)
    sitofp = _cast(ops.SIToFPOp)
    uitofp = _cast(ops.UIToFPOp)
    inttoptr = _cast(ops.IntToPtrOp)
    ptrtoint = _cast(ops.PtrToIntOp)
    addrspacecast = _cast(ops.AddrSpaceCastOp)

    def int_cast(self, value: SSAValue, type: Attribute, signed: bool = True) -> SSAValue:
        """Truncates or extends, whichever fits; nothing if the widths agree."""
        source, target = bit_width(scalar_of(value.type)), bit_width(scalar_of(type))
        if source >= target:
            return self.trunc(value, type)
        return self.sext(value, type) if signed else self.zext(value, type)

    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Reinterprets the bits as exactly `type` (give the whole vector type)."""
        if value.type == type:
            return value
        bits = bits_of(value)
        same_lane_width = bit_width(scalar_of(value.type)) == bit_width(scalar_of(type))
        if bits is not None and same_lane_width:
            return self.const_bits(type, bits)
        source = value.owner
        if isinstance(source, ops.BitcastOp):
            return self.bitcast(source.operand, type)
        return self.value(ops.BitcastOp, (value,), type)
