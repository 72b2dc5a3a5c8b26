"""Operations of the cuda_tile dialect: mma (Tile IR specification)."""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from tileiras.dialects.cuda_tile.attributes import SignednessAttr


@irdl_op_definition
class MmaFOp(IRDLOperation):
    """`mmaf`, since bytecode 13.1."""

    name = "cuda_tile.mmaf"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    fast_acc = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class MmaIOp(IRDLOperation):
    """`mmai`, since bytecode 13.1."""

    name = "cuda_tile.mmai"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    signedness_lhs = prop_def(SignednessAttr)
    signedness_rhs = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class MmaFScaledOp(IRDLOperation):
    """`mmaf_scaled`, since bytecode 13.3."""

    name = "cuda_tile.mmaf_scaled"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    lhs_scale = operand_def()
    rhs_scale = operand_def()
    result = result_def()
