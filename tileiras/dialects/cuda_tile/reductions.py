"""Operations of the cuda_tile dialect: reductions (Tile IR specification)."""

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """`reduce`, since bytecode 13.1."""

    name = "cuda_tile.reduce"
    arguments = var_operand_def()
    dim = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class ScanOp(IRDLOperation):
    """`scan`, since bytecode 13.1."""

    name = "cuda_tile.scan"
    arguments = var_operand_def()
    dim = prop_def(IntegerAttr)
    reverse = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    results_ = var_result_def()
    body = region_def()
