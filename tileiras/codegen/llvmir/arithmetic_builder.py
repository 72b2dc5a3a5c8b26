"""Elementwise methods of the thread builder. Scalars and vectors alike; integers fold."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.llvmir.folding import (
    bits_of,
    fold_binary,
    fold_icmp,
    fold_integer_cast,
    simplify_binary,
    splat_bits_of,
)
from tileiras.codegen.llvmir.op_emitter import OpEmitter
from tileiras.dialects.llvm import arithmetic as ops
from tileiras.dialects.llvm.types import bit_width, integer_type, scalar_of, with_scalar


@cache
def string_attr(text: str) -> StringAttr:
    """A `StringAttr` (interned)."""
    return StringAttr(text)


class ArithmeticBuilder(OpEmitter):
    """Methods named like LLVM's instructions; each returns the result value."""

    def _integer(self, op: type[ops.BinaryOp], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        folded = fold_binary(op.name, lhs, rhs)
        if folded is not None:
            return self.const_bits(lhs.type, folded)
        simplified = simplify_binary(op.name, lhs, rhs)
        return simplified or self.value(op, (lhs, rhs), lhs.type)

    def _float(self, op: type[ops.BinaryOp], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.value(op, (lhs, rhs), lhs.type)

    def add(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Integer `lhs + rhs`, wrapping."""
        return self._integer(ops.AddOp, lhs, rhs)

    def sub(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Integer `lhs - rhs`, wrapping."""
        return self._integer(ops.SubOp, lhs, rhs)

    def mul(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Integer `lhs * rhs`, low half."""
        return self._integer(ops.MulOp, lhs, rhs)

    def sdiv(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Signed division towards zero; undefined for rhs = 0."""
        return self._integer(ops.SDivOp, lhs, rhs)

    def udiv(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Unsigned division; undefined for rhs = 0."""
        return self._integer(ops.UDivOp, lhs, rhs)

    def srem(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Signed remainder, sign of lhs."""
        return self._integer(ops.SRemOp, lhs, rhs)

    def urem(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Unsigned remainder."""
        return self._integer(ops.URemOp, lhs, rhs)

    def and_(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Bitwise and."""
        return self._integer(ops.AndOp, lhs, rhs)

    def or_(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Bitwise or."""
        return self._integer(ops.OrOp, lhs, rhs)

    def xor(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Bitwise exclusive or."""
        return self._integer(ops.XOrOp, lhs, rhs)

    def not_(self, value: SSAValue) -> SSAValue:
        """Flips every bit."""
        return self.xor(value, self.const_int(value.type, -1))

    def shl(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Left shift; poison if rhs is not below the width."""
        return self._integer(ops.ShlOp, lhs, rhs)

    def lshr(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Logical right shift; poison if rhs is not below the width."""
        return self._integer(ops.LShrOp, lhs, rhs)

    def ashr(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Arithmetic right shift; poison if rhs is not below the width."""
        return self._integer(ops.AShrOp, lhs, rhs)

    def fadd(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Float addition, nearest even."""
        return self._float(ops.FAddOp, lhs, rhs)

    def fsub(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Float subtraction, nearest even."""
        return self._float(ops.FSubOp, lhs, rhs)

    def fmul(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Float multiplication, nearest even; never contracted."""
        return self._float(ops.FMulOp, lhs, rhs)

    def fdiv(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Float division, nearest even."""
        return self._float(ops.FDivOp, lhs, rhs)

    def frem(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """LLVM's frem. Trap: inexact for large quotients on NVPTX; `__nv_fmod(f)` is exact."""
        return self._float(ops.FRemOp, lhs, rhs)

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

    def _cast(self, op: type[Operation], value: SSAValue, type: Attribute) -> SSAValue:
        target = with_scalar(value.type, scalar_of(type))
        if target == value.type:
            return value
        folded = fold_integer_cast(op.name, value, target)
        if folded is not None:
            return self.const_bits(target, folded)
        return self.value(op, (value,), target)

    def trunc(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Keeps the low bits."""
        return self._cast(ops.TruncOp, value, type)

    def zext(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Extends with zeros."""
        return self._cast(ops.ZExtOp, value, type)

    def sext(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Extends with the sign."""
        return self._cast(ops.SExtOp, value, type)

    def int_cast(self, value: SSAValue, type: Attribute, signed: bool = True) -> SSAValue:
        """Truncates or extends, whichever fits; nothing if the widths agree."""
        source, target = bit_width(scalar_of(value.type)), bit_width(scalar_of(type))
        if source >= target:
            return self.trunc(value, type)
        return self.sext(value, type) if signed else self.zext(value, type)

    def fptrunc(self, value: SSAValue, type: Attribute) -> SSAValue:
        """To a narrower float, nearest even."""
        return self._cast(ops.FPTruncOp, value, type)

    def fpext(self, value: SSAValue, type: Attribute) -> SSAValue:
        """To a wider float, exact."""
        return self._cast(ops.FPExtOp, value, type)

    def fptosi(self, value: SSAValue, type: Attribute) -> SSAValue:
        """To a signed integer, towards zero."""
        return self._cast(ops.FPToSIOp, value, type)

    def fptoui(self, value: SSAValue, type: Attribute) -> SSAValue:
        """To an unsigned integer, towards zero."""
        return self._cast(ops.FPToUIOp, value, type)

    def sitofp(self, value: SSAValue, type: Attribute) -> SSAValue:
        """From a signed integer, nearest even."""
        return self._cast(ops.SIToFPOp, value, type)

    def uitofp(self, value: SSAValue, type: Attribute) -> SSAValue:
        """From an unsigned integer, nearest even."""
        return self._cast(ops.UIToFPOp, value, type)

    def inttoptr(self, value: SSAValue, type: Attribute) -> SSAValue:
        """An address as a pointer of `type`."""
        return self._cast(ops.IntToPtrOp, value, type)

    def ptrtoint(self, value: SSAValue, type: Attribute) -> SSAValue:
        """A pointer's address."""
        return self._cast(ops.PtrToIntOp, value, type)

    def addrspacecast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """The same memory as a pointer of another address space."""
        return self._cast(ops.AddrSpaceCastOp, value, type)

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
