"""Operations of the cuda_tile dialect: arithmetic (Tile IR specification, "Arithmetic").

`result[i] = f(operands[i])` throughout. Float tiles are f16, bf16, f32 or f64; `flush_to_zero` and
the rounding modes approx and full are for f32 only.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.checks import (
    IEEE_ROUNDING,
    check_f32_modifiers,
    check_rounding,
    check_same_shape,
    check_same_type,
    check_tile,
    check_uniform,
    fail,
)
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import ANY, BASE_FLOAT, BOOL, INTEGER, ElementClass
from tileiras.dialects.cuda_tile.elementwise import (
    BinaryFloatOp,
    BinaryIntegerOp,
    PartialIntegerOp,
    UnaryFloatOp,
    UnaryIntegerOp,
    UniformOp,
)
from tileiras.dialects.cuda_tile.tile_op import TileOp

DIVF_ROUNDING = IEEE_ROUNDING | {RoundingMode.APPROX, RoundingMode.FULL}
DIVI_ROUNDING = frozenset({RoundingMode.ZERO, RoundingMode.POSITIVE_INF, RoundingMode.NEGATIVE_INF})


@irdl_op_definition
class AbsFOp(UnaryFloatOp):
    """`result[i] = |source[i]|`: clears the sign bit, of NaNs too."""

    name = "cuda_tile.absf"


@irdl_op_definition
class AbsIOp(UnaryIntegerOp):
    """`result[i] = |source[i]|`, the operand read signed, the result unsigned.

    So the smallest integer maps to its own bit pattern.
    """

    name = "cuda_tile.absi"


class RoundedBinaryOp(BinaryFloatOp):
    """A float operation of two operands, rounded as `rounding_mode` says."""

    ROUNDING: ClassVar[frozenset[RoundingMode]] = IEEE_ROUNDING
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """One float type, a rounding mode of `ROUNDING`, f32 where a modifier asks for it."""
        type = check_uniform(self, self.ELEMENTS)
        mode = self.rounding_mode.data
        check_rounding(self, mode, self.ROUNDING)
        check_f32_modifiers(self, type, mode, self.flush_to_zero is not None)


@irdl_op_definition
class AddFOp(RoundedBinaryOp):
    """`result[i] = lhs[i] + rhs[i]`."""

    name = "cuda_tile.addf"


@irdl_op_definition
class AddIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] + rhs[i]`, wrapping; `overflow` is a promise, broken it is undefined."""

    name = "cuda_tile.addi"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class CeilOp(UnaryFloatOp):
    """`result[i]` is the smallest integer not below `source[i]`."""

    name = "cuda_tile.ceil"


class ComparisonOp(TileOp, ABC):
    """`result[i] = lhs[i] <predicate> rhs[i]`, a tile of i1."""

    ELEMENTS: ClassVar[ElementClass] = INTEGER
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Operands of one type, a result of their shape."""
        lhs = check_tile(self, self.lhs, "lhs", self.ELEMENTS)
        check_same_type(self, lhs, self.rhs.type, "lhs and rhs")
        result = check_tile(self, self.result, "result", BOOL)
        check_same_shape(self, lhs, result, "lhs and result")


@irdl_op_definition
class CmpFOp(ComparisonOp):
    """Compares floats. With a NaN the answer is false if ordered, true if unordered."""

    name = "cuda_tile.cmpf"
    ELEMENTS: ClassVar[ElementClass] = BASE_FLOAT
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    comparison_ordering = prop_def(ComparisonOrderingAttr)


@irdl_op_definition
class CmpIOp(ComparisonOp):
    """Compares integers, read as `signedness` says (equality does not care)."""

    name = "cuda_tile.cmpi"
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class DivFOp(RoundedBinaryOp):
    """`result[i] = lhs[i] / rhs[i]`.

    approx and full are within 2 ulp, approx for |rhs| in [2^-126, 2^126] only.
    """

    name = "cuda_tile.divf"
    ROUNDING: ClassVar[frozenset[RoundingMode]] = DIVF_ROUNDING


@irdl_op_definition
class DivIOp(PartialIntegerOp):
    """`result[i] = lhs[i] / rhs[i]`, towards zero, positive_inf (ceil) or negative_inf (floor).

    Undefined for rhs = 0 and for the smallest integer divided by -1.
    """

    name = "cuda_tile.divi"
    signedness = prop_def(SignednessAttr)
    rounding = prop_def(RoundingModeAttr)

    def check_semantics(self) -> None:
        """One integer type, and a rounding that the signedness has."""
        check_uniform(self, self.ELEMENTS)
        mode = self.rounding.data
        check_rounding(self, mode, DIVI_ROUNDING)
        if mode is RoundingMode.NEGATIVE_INF and self.signedness.data is Signedness.UNSIGNED:
            fail(self, "has rounding mode negative_inf with unsigned, expected signed")


@irdl_op_definition
class FloorOp(UnaryFloatOp):
    """`result[i]` is the largest integer not above `source[i]`."""

    name = "cuda_tile.floor"


@irdl_op_definition
class FmaOp(UniformOp):
    """`result[i] = lhs[i] * rhs[i] + acc[i]`, rounded once."""

    name = "cuda_tile.fma"
    ELEMENTS: ClassVar[ElementClass] = BASE_FLOAT
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One float type, an IEEE rounding mode, flush_to_zero for f32 only."""
        type = check_uniform(self, self.ELEMENTS)
        check_rounding(self, self.rounding_mode.data, IEEE_ROUNDING)
        check_f32_modifiers(self, type, None, self.flush_to_zero is not None)


class FloatExtremumOp(BinaryFloatOp):
    """The larger or smaller of two floats.

    A NaN operand is ignored (two give NaN), unless `propagate_nan`; and -0 < +0.
    """

    propagate_nan = opt_prop_def(UnitAttr)
    flush_to_zero = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """One float type, flush_to_zero for f32 only."""
        type = check_uniform(self, self.ELEMENTS)
        check_f32_modifiers(self, type, None, self.flush_to_zero is not None)


@irdl_op_definition
class MaxFOp(FloatExtremumOp):
    """`result[i] = max(lhs[i], rhs[i])`."""

    name = "cuda_tile.maxf"


@irdl_op_definition
class MaxIOp(BinaryIntegerOp):
    """`result[i] = max(lhs[i], rhs[i])`, read as `signedness` says."""

    name = "cuda_tile.maxi"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class MinFOp(FloatExtremumOp):
    """`result[i] = min(lhs[i], rhs[i])`."""

    name = "cuda_tile.minf"


@irdl_op_definition
class MinIOp(BinaryIntegerOp):
    """`result[i] = min(lhs[i], rhs[i])`, read as `signedness` says."""

    name = "cuda_tile.mini"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class MulFOp(RoundedBinaryOp):
    """`result[i] = lhs[i] * rhs[i]`."""

    name = "cuda_tile.mulf"


@irdl_op_definition
class MulhiIOp(UniformOp):
    """`result[i]` is the high half of the unsigned product `x[i] * y[i]`."""

    name = "cuda_tile.mulhii"
    x = operand_def()
    y = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class MulIOp(BinaryIntegerOp):
    """`result[i]` is the low half of `lhs[i] * rhs[i]`; `overflow` is a promise."""

    name = "cuda_tile.muli"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class NegFOp(UnaryFloatOp):
    """`result[i] = -source[i]`: flips the sign bit, of NaNs too."""

    name = "cuda_tile.negf"


@irdl_op_definition
class NegIOp(UnaryIntegerOp):
    """`result[i] = -source[i]`, wrapping."""

    name = "cuda_tile.negi"
    overflow = prop_def(IntegerOverflowAttr)

    def check_semantics(self) -> None:
        """One integer type; negating unsigned wraps for all but 0, so that promise is refused."""
        check_uniform(self, self.ELEMENTS)
        if self.overflow.data is IntegerOverflow.NO_UNSIGNED_WRAP:
            fail(self, "has overflow no_unsigned_wrap, expected none, no_signed_wrap or no_wrap")


@irdl_op_definition
class RemFOp(BinaryFloatOp):
    """`result[i] = fmod(lhs[i], rhs[i])`: truncated, with the sign of the dividend."""

    name = "cuda_tile.remf"


@irdl_op_definition
class RemIOp(PartialIntegerOp):
    """`result[i] = lhs[i] - trunc(lhs[i] / rhs[i]) * rhs[i]`; undefined for rhs = 0."""

    name = "cuda_tile.remi"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class SelectOp(TileOp):
    """`result[i] = cond[i] ? val_if_true[i] : val_if_false[i]`."""

    name = "cuda_tile.select"
    cond = operand_def()
    val_if_true = operand_def()
    val_if_false = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """One type for the arms and the result, an i1 condition of their shape."""
        cond = check_tile(self, self.cond, "cond", BOOL)
        arm = check_tile(self, self.val_if_true, "val_if_true", ANY)
        check_same_type(self, arm, self.val_if_false.type, "val_if_true and val_if_false")
        check_same_type(self, arm, self.result.type, "val_if_true and result")
        check_same_shape(self, cond, arm, "cond and val_if_true")
        if element_text(arm.element_type) == "f4E2M1FN":
            fail(self, "has element type f4E2M1FN, expected a type of at least 8 bits or i1")


@irdl_op_definition
class SubFOp(RoundedBinaryOp):
    """`result[i] = lhs[i] - rhs[i]`."""

    name = "cuda_tile.subf"


@irdl_op_definition
class SubIOp(BinaryIntegerOp):
    """`result[i] = lhs[i] - rhs[i]`, wrapping; `overflow` is a promise."""

    name = "cuda_tile.subi"
    overflow = prop_def(IntegerOverflowAttr)
