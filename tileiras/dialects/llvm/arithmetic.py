"""Elementwise operations of the `llvm` dialect: arithmetic, casts, comparisons, select.

Every op works on a scalar or on a vector, lane by lane, and means what the LLVM instruction of the
same name means (LLVM Language Reference). Float ops carry no fast-math flags: nothing is
contracted.
"""

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import (
    bit_width,
    is_float,
    is_integer,
    is_pointer,
    lanes_of,
    scalar_of,
)

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    *("oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
)


class BinaryOp(IRDLOperation):
    """`result[i] = lhs[i] op rhs[i]`, all of one type."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    ON_FLOATS: ClassVar[bool] = False

    def verify_(self) -> None:
        """Operands and result have one type of the right kind."""
        type = self.result.type
        if self.lhs.type != type or self.rhs.type != type:
            raise VerifyException(f"{self.name}: operand and result types differ")
        if not (is_float(type) if self.ON_FLOATS else is_integer(type)):
            raise VerifyException(f"{self.name}: type {type} is of the wrong kind")


class FloatBinaryOp(BinaryOp):
    """A binary op on floats, rounded to nearest even."""

    ON_FLOATS: ClassVar[bool] = True


@irdl_op_definition
class AddOp(BinaryOp):
    """Wrapping integer addition."""

    name = "llvm.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """Wrapping integer subtraction."""

    name = "llvm.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """Wrapping integer multiplication, low half."""

    name = "llvm.mul"


@irdl_op_definition
class SDivOp(BinaryOp):
    """Signed division rounding towards zero; division by zero is undefined."""

    name = "llvm.sdiv"


@irdl_op_definition
class UDivOp(BinaryOp):
    """Unsigned division; division by zero is undefined."""

    name = "llvm.udiv"


@irdl_op_definition
class SRemOp(BinaryOp):
    """Remainder with the sign of the dividend."""

    name = "llvm.srem"


@irdl_op_definition
class URemOp(BinaryOp):
    """Unsigned remainder."""

    name = "llvm.urem"


@irdl_op_definition
class AndOp(BinaryOp):
    """Bitwise and."""

    name = "llvm.and"


@irdl_op_definition
class OrOp(BinaryOp):
    """Bitwise or."""

    name = "llvm.or"


@irdl_op_definition
class XOrOp(BinaryOp):
    """Bitwise exclusive or."""

    name = "llvm.xor"


@irdl_op_definition
class ShlOp(BinaryOp):
    """Left shift; poison if the amount is not below the width."""

    name = "llvm.shl"


@irdl_op_definition
class LShrOp(BinaryOp):
    """Right shift filling with zeros; poison if the amount is not below the width."""

    name = "llvm.lshr"


@irdl_op_definition
class AShrOp(BinaryOp):
    """Right shift filling with the sign; poison if the amount is not below the width."""

    name = "llvm.ashr"


@irdl_op_definition
class FAddOp(FloatBinaryOp):
    """Float addition."""

    name = "llvm.fadd"


@irdl_op_definition
class FSubOp(FloatBinaryOp):
    """Float subtraction."""

    name = "llvm.fsub"


@irdl_op_definition
class FMulOp(FloatBinaryOp):
    """Float multiplication."""

    name = "llvm.fmul"


@irdl_op_definition
class FDivOp(FloatBinaryOp):
    """Float division (`div.rn`)."""

    name = "llvm.fdiv"


@irdl_op_definition
class FRemOp(FloatBinaryOp):
    """Float remainder. Trap: NVPTX divides, which is exact for small quotients only."""

    name = "llvm.frem"


@irdl_op_definition
class FNegOp(IRDLOperation):
    """Flips the sign bit, of NaNs too."""

    name = "llvm.fneg"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """One float type."""
        if self.operand.type != self.result.type or not is_float(self.result.type):
            raise VerifyException("llvm.fneg: expected one float type")


class CastOp(IRDLOperation):
    """`result[i] = convert(operand[i])`; the lanes are kept."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Are these element types a legal pair?"""
        raise NotImplementedError(f"cast rule of {self.name}")

    def verify_(self) -> None:
        """Same lanes, legal pair of element types."""
        source, target = self.operand.type, self.result.type
        same_lanes = lanes_of(source) == lanes_of(target) or isinstance(self, BitcastOp)
        if not same_lanes or not self.accepts(scalar_of(source), scalar_of(target)):
            raise VerifyException(f"{self.name}: cannot convert {source} to {target}")


def _narrower(source: Attribute, target: Attribute) -> bool:
    return bit_width(target) < bit_width(source)


@irdl_op_definition
class TruncOp(CastOp):
    """Keeps the low bits."""

    name = "llvm.trunc"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """To a narrower integer."""
        return is_integer(source) and is_integer(target) and _narrower(source, target)


class ExtendOp(CastOp):
    """An integer to a wider integer."""

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """To a wider integer."""
        return is_integer(source) and is_integer(target) and _narrower(target, source)


@irdl_op_definition
class ZExtOp(ExtendOp):
    """Fills with zeros."""

    name = "llvm.zext"


@irdl_op_definition
class SExtOp(ExtendOp):
    """Fills with the sign."""

    name = "llvm.sext"


@irdl_op_definition
class FPTruncOp(CastOp):
    """Rounds to nearest even."""

    name = "llvm.fptrunc"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """To a narrower float."""
        return is_float(source) and is_float(target) and _narrower(source, target)


@irdl_op_definition
class FPExtOp(CastOp):
    """Exact extension."""

    name = "llvm.fpext"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """To a wider float."""
        return is_float(source) and is_float(target) and _narrower(target, source)


class FloatToIntegerOp(CastOp):
    """A float to an integer."""

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Float to integer."""
        return is_float(source) and is_integer(target)


@irdl_op_definition
class FPToSIOp(FloatToIntegerOp):
    """Rounds towards zero; poison out of range (PTX `cvt.rzi` saturates)."""

    name = "llvm.fptosi"


@irdl_op_definition
class FPToUIOp(FloatToIntegerOp):
    """Rounds towards zero to an unsigned integer; poison out of range."""

    name = "llvm.fptoui"


class IntegerToFloatOp(CastOp):
    """An integer to a float."""

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Integer to float."""
        return is_integer(source) and is_float(target)


@irdl_op_definition
class SIToFPOp(IntegerToFloatOp):
    """Signed integer to float, rounded to nearest even."""

    name = "llvm.sitofp"


@irdl_op_definition
class UIToFPOp(IntegerToFloatOp):
    """Unsigned integer to float, rounded to nearest even."""

    name = "llvm.uitofp"


@irdl_op_definition
class BitcastOp(CastOp):
    """Reinterprets the bits; vectors may change their number of lanes."""

    name = "llvm.bitcast"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Same total width; pointers only to pointers."""
        same = bit_width(self.operand.type) == bit_width(self.result.type)
        return same and is_pointer(source) == is_pointer(target)


@irdl_op_definition
class IntToPtrOp(CastOp):
    """An integer address as a pointer."""

    name = "llvm.inttoptr"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Integer to pointer."""
        return is_integer(source) and is_pointer(target)


@irdl_op_definition
class PtrToIntOp(CastOp):
    """A pointer's address in its own address space."""

    name = "llvm.ptrtoint"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Pointer to integer."""
        return is_pointer(source) and is_integer(target)


@irdl_op_definition
class AddrSpaceCastOp(CastOp):
    """The same memory seen through another address space."""

    name = "llvm.addrspacecast"

    def accepts(self, source: Attribute, target: Attribute) -> bool:
        """Pointer to a pointer of another space."""
        return is_pointer(source) and is_pointer(target) and source != target


class CompareOp(IRDLOperation):
    """`result[i] = lhs[i] predicate rhs[i]`, an i1 per lane."""

    lhs = operand_def()
    rhs = operand_def()
    predicate = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    PREDICATES: ClassVar[tuple[str, ...]] = ()

    def verify_(self) -> None:
        """Equal operand types, a known predicate, an i1 result of the same lanes."""
        if self.lhs.type != self.rhs.type:
            raise VerifyException(f"{self.name}: operand types differ")
        if self.predicate.data not in self.PREDICATES:
            raise VerifyException(f"{self.name}: unknown predicate '{self.predicate.data}'")
        type = self.result.type
        if scalar_of(type) != IntegerType(1) or lanes_of(type) != lanes_of(self.lhs.type):
            raise VerifyException(f"{self.name}: result must be i1 per lane, found {type}")


@irdl_op_definition
class ICmpOp(CompareOp):
    """Compares integers or pointers."""

    name = "llvm.icmp"
    PREDICATES: ClassVar[tuple[str, ...]] = INTEGER_PREDICATES


@irdl_op_definition
class FCmpOp(CompareOp):
    """Compares floats; predicates starting with `o` are false and with `u` true on NaN."""

    name = "llvm.fcmp"
    PREDICATES: ClassVar[tuple[str, ...]] = FLOAT_PREDICATES


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`result[i] = condition[i] ? lhs[i] : rhs[i]`; a scalar condition chooses whole vectors."""

    name = "llvm.select"
    condition = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Equal value types and an i1 condition, scalar or of the same lanes."""
        type = self.result.type
        if self.lhs.type != type or self.rhs.type != type:
            raise VerifyException("llvm.select: value types differ")
        condition = self.condition.type
        lanes = lanes_of(condition)
        if scalar_of(condition) != IntegerType(1) or lanes not in (None, lanes_of(type)):
            raise VerifyException(f"llvm.select: condition type {condition} does not fit {type}")


INTEGER_BINARY_OPS = (
    *(AddOp, SubOp, MulOp, SDivOp, UDivOp, SRemOp, URemOp),
    *(AndOp, OrOp, XOrOp, ShlOp, LShrOp, AShrOp),
)
FLOAT_BINARY_OPS = (FAddOp, FSubOp, FMulOp, FDivOp, FRemOp)
CAST_OPS = (
    *(TruncOp, ZExtOp, SExtOp, FPTruncOp, FPExtOp, FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp),
    *(BitcastOp, IntToPtrOp, PtrToIntOp, AddrSpaceCastOp),
)
ARITHMETIC_OPS = (
    *INTEGER_BINARY_OPS,
    *FLOAT_BINARY_OPS,
    *CAST_OPS,
    *(FNegOp, ICmpOp, FCmpOp, SelectOp),
)
