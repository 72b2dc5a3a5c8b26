"""Elementwise operations of the `llvm` dialect: arithmetic, casts, comparisons, select.

Every op works on a scalar or on a vector, lane by lane, and means what the LLVM instruction of the
same name means (LLVM Language Reference). Float ops carry no fast-math flags: nothing is
contracted.
"""

from collections.abc import Callable
from operator import ne
from typing import Any, ClassVar, TypeVar, cast

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

Declared = TypeVar("Declared", bound=IRDLOperation)


def _declared(base: type[Declared], name: str, doc: str, **fields: Any) -> type[Declared]:
    """An operation that differs from its base in its name and such fields."""
    own = {"name": name, "__doc__": doc, "__module__": __name__, **fields}
    return cast(type[Declared], irdl_op_definition(type(name, (base,), own)))


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


AddOp = _declared(BinaryOp, "llvm.add", "Wrapping integer addition.")
SubOp = _declared(BinaryOp, "llvm.sub", "Wrapping integer subtraction.")
MulOp = _declared(BinaryOp, "llvm.mul", "Wrapping integer multiplication, low half.")
SDivOp = _declared(
    BinaryOp, "llvm.sdiv", "Signed division rounding towards zero; division by zero is undefined."
)
UDivOp = _declared(BinaryOp, "llvm.udiv", "Unsigned division; division by zero is undefined.")
SRemOp = _declared(BinaryOp, "llvm.srem", "Remainder with the sign of the dividend.")
URemOp = _declared(BinaryOp, "llvm.urem", "Unsigned remainder.")
AndOp = _declared(BinaryOp, "llvm.and", "Bitwise and.")
OrOp = _declared(BinaryOp, "llvm.or", "Bitwise or.")
XOrOp = _declared(BinaryOp, "llvm.xor", "Bitwise exclusive or.")
ShlOp = _declared(BinaryOp, "llvm.shl", "Left shift; poison if the amount is not below the width.")
LShrOp = _declared(
    BinaryOp,
    "llvm.lshr",
    "Right shift filling with zeros; poison if the amount is not below the width.",
)
AShrOp = _declared(
    BinaryOp,
    "llvm.ashr",
    "Right shift filling with the sign; poison if the amount is not below the width.",
)
FAddOp = _declared(FloatBinaryOp, "llvm.fadd", "Float addition.")
FSubOp = _declared(FloatBinaryOp, "llvm.fsub", "Float subtraction.")
FMulOp = _declared(FloatBinaryOp, "llvm.fmul", "Float multiplication.")
FDivOp = _declared(FloatBinaryOp, "llvm.fdiv", "Float division (`div.rn`).")


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
    ACCEPTS: ClassVar[Callable[[Attribute, Attribute], bool]]
    """Whether these element types are a legal pair."""

    def verify_(self) -> None:
        """Same lanes, or of bits the same number; a legal pair of element types."""
        source, target = self.operand.type, self.result.type
        if self.name == "llvm.bitcast":
            is_kept = bit_width(source) == bit_width(target)
        else:
            is_kept = lanes_of(source) == lanes_of(target)
        if not is_kept or not type(self).ACCEPTS(scalar_of(source), scalar_of(target)):
            raise VerifyException(f"{self.name}: cannot convert {source} to {target}")


def _cast(
    name: str,
    doc: str,
    source: Callable[[Attribute], bool],
    target: Callable[[Attribute], bool],
    both: Callable[[Attribute, Attribute], bool] = lambda source, target: True,
) -> type[CastOp]:
    """A cast of elements of one kind to those of another, of which a pair is legal."""

    def accepts(old: Attribute, new: Attribute) -> bool:
        return source(old) and target(new) and both(old, new)

    return _declared(CastOp, name, doc, ACCEPTS=staticmethod(accepts))


def _narrower(source: Attribute, target: Attribute) -> bool:
    return bit_width(target) < bit_width(source)


def _wider(source: Attribute, target: Attribute) -> bool:
    return bit_width(source) < bit_width(target)


TruncOp = _cast("llvm.trunc", "Keeps the low bits.", is_integer, is_integer, _narrower)
ZExtOp = _cast("llvm.zext", "Fills with zeros.", is_integer, is_integer, _wider)
SExtOp = _cast("llvm.sext", "Fills with the sign.", is_integer, is_integer, _wider)
FPTruncOp = _cast("llvm.fptrunc", "Rounds to nearest even.", is_float, is_float, _narrower)
FPExtOp = _cast("llvm.fpext", "Exact extension.", is_float, is_float, _wider)
FPToSIOp = _cast(
    "llvm.fptosi",
    "Rounds towards zero; poison out of range (PTX `cvt.rzi` saturates).",
    is_float,
    is_integer,
)
FPToUIOp = _cast("llvm.fptoui", "Rounds towards zero; poison out of range.", is_float, is_integer)
SIToFPOp = _cast("llvm.sitofp", "Signed, rounded to nearest even.", is_integer, is_float)
UIToFPOp = _cast("llvm.uitofp", "Unsigned, rounded to nearest even.", is_integer, is_float)
BitcastOp = _cast(
    "llvm.bitcast",
    "Reinterprets the bits; vectors may change their number of lanes.",
    lambda source: True,
    lambda target: True,
    lambda source, target: is_pointer(source) == is_pointer(target),
)
IntToPtrOp = _cast("llvm.inttoptr", "An integer address as a pointer.", is_integer, is_pointer)
PtrToIntOp = _cast("llvm.ptrtoint", "A pointer's address in its own space.", is_pointer, is_integer)
AddrSpaceCastOp = _cast(
    "llvm.addrspacecast",
    "The same memory seen through another address space.",
    is_pointer,
    is_pointer,
    ne,
)


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
FLOAT_BINARY_OPS = (FAddOp, FSubOp, FMulOp, FDivOp)
CAST_OPS = (
    *(TruncOp, ZExtOp, SExtOp, FPTruncOp, FPExtOp, FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp),
    *(BitcastOp, IntToPtrOp, PtrToIntOp, AddrSpaceCastOp),
)
