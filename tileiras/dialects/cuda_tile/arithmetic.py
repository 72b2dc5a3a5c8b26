"""Operations of the cuda_tile dialect: arithmetic (Tile IR specification)."""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrderingAttr,
    ComparisonPredicateAttr,
    IntegerOverflowAttr,
    RoundingModeAttr,
    SignednessAttr,
)


@irdl_op_definition
class AbsFOp(IRDLOperation):
    """`absf`, since bytecode 13.1."""

    name = "cuda_tile.absf"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class AbsIOp(IRDLOperation):
    """`absi`, since bytecode 13.1."""

    name = "cuda_tile.absi"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class AddFOp(IRDLOperation):
    """`addf`, since bytecode 13.1."""

    name = "cuda_tile.addf"
    lhs = operand_def()
    rhs = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class AddIOp(IRDLOperation):
    """`addi`, since bytecode 13.1."""

    name = "cuda_tile.addi"
    lhs = operand_def()
    rhs = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()


@irdl_op_definition
class CeilOp(IRDLOperation):
    """`ceil`, since bytecode 13.1."""

    name = "cuda_tile.ceil"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class CmpFOp(IRDLOperation):
    """`cmpf`, since bytecode 13.1."""

    name = "cuda_tile.cmpf"
    lhs = operand_def()
    rhs = operand_def()
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    comparison_ordering = prop_def(ComparisonOrderingAttr)
    result = result_def()


@irdl_op_definition
class CmpIOp(IRDLOperation):
    """`cmpi`, since bytecode 13.1."""

    name = "cuda_tile.cmpi"
    lhs = operand_def()
    rhs = operand_def()
    comparison_predicate = prop_def(ComparisonPredicateAttr)
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class DivFOp(IRDLOperation):
    """`divf`, since bytecode 13.1."""

    name = "cuda_tile.divf"
    lhs = operand_def()
    rhs = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class DivIOp(IRDLOperation):
    """`divi`, since bytecode 13.1."""

    name = "cuda_tile.divi"
    lhs = operand_def()
    rhs = operand_def()
    signedness = prop_def(SignednessAttr)
    rounding = prop_def(RoundingModeAttr)
    result = result_def()


@irdl_op_definition
class FloorOp(IRDLOperation):
    """`floor`, since bytecode 13.1."""

    name = "cuda_tile.floor"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class FmaOp(IRDLOperation):
    """`fma`, since bytecode 13.1."""

    name = "cuda_tile.fma"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class MaxFOp(IRDLOperation):
    """`maxf`, since bytecode 13.1."""

    name = "cuda_tile.maxf"
    lhs = operand_def()
    rhs = operand_def()
    propagate_nan = opt_prop_def(UnitAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class MaxIOp(IRDLOperation):
    """`maxi`, since bytecode 13.1."""

    name = "cuda_tile.maxi"
    lhs = operand_def()
    rhs = operand_def()
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class MinFOp(IRDLOperation):
    """`minf`, since bytecode 13.1."""

    name = "cuda_tile.minf"
    lhs = operand_def()
    rhs = operand_def()
    propagate_nan = opt_prop_def(UnitAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class MinIOp(IRDLOperation):
    """`mini`, since bytecode 13.1."""

    name = "cuda_tile.mini"
    lhs = operand_def()
    rhs = operand_def()
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class MulFOp(IRDLOperation):
    """`mulf`, since bytecode 13.1."""

    name = "cuda_tile.mulf"
    lhs = operand_def()
    rhs = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class MulhiIOp(IRDLOperation):
    """`mulhii`, since bytecode 13.1."""

    name = "cuda_tile.mulhii"
    x = operand_def()
    y = operand_def()
    result = result_def()


@irdl_op_definition
class MulIOp(IRDLOperation):
    """`muli`, since bytecode 13.1."""

    name = "cuda_tile.muli"
    lhs = operand_def()
    rhs = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()


@irdl_op_definition
class NegFOp(IRDLOperation):
    """`negf`, since bytecode 13.1."""

    name = "cuda_tile.negf"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class NegIOp(IRDLOperation):
    """`negi`, since bytecode 13.1."""

    name = "cuda_tile.negi"
    source = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()


@irdl_op_definition
class RemFOp(IRDLOperation):
    """`remf`, since bytecode 13.1."""

    name = "cuda_tile.remf"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()


@irdl_op_definition
class RemIOp(IRDLOperation):
    """`remi`, since bytecode 13.1."""

    name = "cuda_tile.remi"
    lhs = operand_def()
    rhs = operand_def()
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`select`, since bytecode 13.1."""

    name = "cuda_tile.select"
    cond = operand_def()
    val_if_true = operand_def()
    val_if_false = operand_def()
    result = result_def()


@irdl_op_definition
class SubFOp(IRDLOperation):
    """`subf`, since bytecode 13.1."""

    name = "cuda_tile.subf"
    lhs = operand_def()
    rhs = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class SubIOp(IRDLOperation):
    """`subi`, since bytecode 13.1."""

    name = "cuda_tile.subi"
    lhs = operand_def()
    rhs = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()
