"""Operations of the cuda_tile dialect: control flow (Tile IR specification)."""

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    var_operand_def,
    var_result_def,
)


@irdl_op_definition
class BreakOp(IRDLOperation):
    """`break`, since bytecode 13.1."""

    name = "cuda_tile.break"
    arguments = var_operand_def()


@irdl_op_definition
class ContinueOp(IRDLOperation):
    """`continue`, since bytecode 13.1."""

    name = "cuda_tile.continue"
    arguments = var_operand_def()


@irdl_op_definition
class ForOp(IRDLOperation):
    """`for`, since bytecode 13.1."""

    name = "cuda_tile.for"
    lower_bound = operand_def()
    upper_bound = operand_def()
    step = operand_def()
    init_values = var_operand_def()
    unsigned_cmp = opt_prop_def(UnitAttr, prop_name="unsignedCmp")
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class IfOp(IRDLOperation):
    """`if`, since bytecode 13.1."""

    name = "cuda_tile.if"
    condition = operand_def()
    results_ = var_result_def()
    then_region = region_def()
    else_region = region_def()


@irdl_op_definition
class LoopOp(IRDLOperation):
    """`loop`, since bytecode 13.1."""

    name = "cuda_tile.loop"
    init_values = var_operand_def()
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """`return`, since bytecode 13.1."""

    name = "cuda_tile.return"
    arguments = var_operand_def()


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`yield`, since bytecode 13.1."""

    name = "cuda_tile.yield"
    arguments = var_operand_def()


@irdl_op_definition
class AssertOp(IRDLOperation):
    """`assert`, since bytecode 13.1."""

    name = "cuda_tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
