"""Integer and float arithmetic, comparison, selection and bitwise operations.

Elementwise on scalars, tensors and tensors with a layout.
"""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    IntegerOverflowAttr,
    RoundingModeAttr,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.elementwise import BinaryOp, TernaryOp, UnaryOp


@irdl_op_definition
class AbsFOp(UnaryOp):
    """`result[i] = |x|`."""

    name = "nv_tileaa.absf"


@irdl_op_definition
class AbsIOp(UnaryOp):
    """`result[i] = |x|, result unsigned`."""

    name = "nv_tileaa.absi"


@irdl_op_definition
class AddFOp(BinaryOp):
    """`result[i] = x + y`."""

    name = "nv_tileaa.addf"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class AddIOp(BinaryOp):
    """`result[i] = x + y, wrapping`."""

    name = "nv_tileaa.addi"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class AndIOp(BinaryOp):
    """`result[i] = x & y`."""

    name = "nv_tileaa.andi"


@irdl_op_definition
class CeilOp(UnaryOp):
    """`result[i] = x rounded up`."""

    name = "nv_tileaa.ceil"


@irdl_op_definition
class CmpFOp(BinaryOp):
    """`result[i] = x ? y`."""

    name = "nv_tileaa.cmpf"
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    comparison_ordering = prop_def(ComparisonOrderingAttr)


@irdl_op_definition
class CmpIOp(BinaryOp):
    """`result[i] = x ? y`."""

    name = "nv_tileaa.cmpi"
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class DivFOp(BinaryOp):
    """`result[i] = x / y`."""

    name = "nv_tileaa.divf"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class DivIOp(BinaryOp):
    """`result[i] = x / y`."""

    name = "nv_tileaa.divi"
    signedness = prop_def(SignednessAttr)
    rounding = prop_def(RoundingModeAttr)


@irdl_op_definition
class FloorOp(UnaryOp):
    """`result[i] = x rounded down`."""

    name = "nv_tileaa.floor"


@irdl_op_definition
class FmaOp(TernaryOp):
    """`result[i] = x * y + z, rounded once`."""

    name = "nv_tileaa.fma"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class MaxFOp(BinaryOp):
    """`result[i] = max(x, y)`."""

    name = "nv_tileaa.maxf"
    propagate_nan = opt_prop_def(UnitAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class MaxIOp(BinaryOp):
    """`result[i] = max(x, y)`."""

    name = "nv_tileaa.maxi"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class MinFOp(BinaryOp):
    """`result[i] = min(x, y)`."""

    name = "nv_tileaa.minf"
    propagate_nan = opt_prop_def(UnitAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class MinIOp(BinaryOp):
    """`result[i] = min(x, y)`."""

    name = "nv_tileaa.mini"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class MulFOp(BinaryOp):
    """`result[i] = x * y`."""

    name = "nv_tileaa.mulf"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class MulhiIOp(BinaryOp):
    """`result[i] = high half of the unsigned product`."""

    name = "nv_tileaa.mulhii"


@irdl_op_definition
class MulIOp(BinaryOp):
    """`result[i] = x * y, low half`."""

    name = "nv_tileaa.muli"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class NegFOp(UnaryOp):
    """`result[i] = -x`."""

    name = "nv_tileaa.negf"


@irdl_op_definition
class NegIOp(UnaryOp):
    """`result[i] = -x`."""

    name = "nv_tileaa.negi"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class OrIOp(BinaryOp):
    """`result[i] = x | y`."""

    name = "nv_tileaa.ori"


@irdl_op_definition
class RemFOp(BinaryOp):
    """`result[i] = fmod(x, y)`."""

    name = "nv_tileaa.remf"


@irdl_op_definition
class RemIOp(BinaryOp):
    """`result[i] = x % y, truncated`."""

    name = "nv_tileaa.remi"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class SelectOp(TernaryOp):
    """`result[i] = c ? x : y`.

    One that is `end_of_rows` says behind which row a tile block of two tiles stores nothing, those
    of the second tile where `c` does not hold: nobody needs to compute them.
    """

    name = "nv_tileaa.select"
    end_of_rows = opt_prop_def(UnitAttr)


@irdl_op_definition
class ShLIOp(BinaryOp):
    """`result[i] = x << y`."""

    name = "nv_tileaa.shli"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class ShRIOp(BinaryOp):
    """`result[i] = x >> y`."""

    name = "nv_tileaa.shri"
    signedness = prop_def(SignednessAttr)


@irdl_op_definition
class SubFOp(BinaryOp):
    """`result[i] = x - y`."""

    name = "nv_tileaa.subf"
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)


@irdl_op_definition
class SubIOp(BinaryOp):
    """`result[i] = x - y, wrapping`."""

    name = "nv_tileaa.subi"
    overflow = prop_def(IntegerOverflowAttr)


@irdl_op_definition
class XOrIOp(BinaryOp):
    """`result[i] = x ^ y`."""

    name = "nv_tileaa.xori"
