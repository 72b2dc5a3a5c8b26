"""Operations of the cuda_tile dialect: math (Tile IR specification)."""

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from tileiras.dialects.cuda_tile.attributes import RoundingModeAttr


@irdl_op_definition
class CosOp(IRDLOperation):
    """`cos`, since bytecode 13.1."""

    name = "cuda_tile.cos"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class CosHOp(IRDLOperation):
    """`cosh`, since bytecode 13.1."""

    name = "cuda_tile.cosh"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class ExpOp(IRDLOperation):
    """`exp`, since bytecode 13.1."""

    name = "cuda_tile.exp"
    source = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    result = result_def()


@irdl_op_definition
class Exp2Op(IRDLOperation):
    """`exp2`, since bytecode 13.1."""

    name = "cuda_tile.exp2"
    source = operand_def()
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class LogOp(IRDLOperation):
    """`log`, since bytecode 13.1."""

    name = "cuda_tile.log"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class Log2Op(IRDLOperation):
    """`log2`, since bytecode 13.1."""

    name = "cuda_tile.log2"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class FPowFOp(IRDLOperation):
    """`pow`, since bytecode 13.1."""

    name = "cuda_tile.pow"
    source = operand_def()
    exponent = operand_def()
    result = result_def()


@irdl_op_definition
class RsqrtOp(IRDLOperation):
    """`rsqrt`, since bytecode 13.1."""

    name = "cuda_tile.rsqrt"
    source = operand_def()
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class SinOp(IRDLOperation):
    """`sin`, since bytecode 13.1."""

    name = "cuda_tile.sin"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class SinHOp(IRDLOperation):
    """`sinh`, since bytecode 13.1."""

    name = "cuda_tile.sinh"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class SqrtOp(IRDLOperation):
    """`sqrt`, since bytecode 13.1."""

    name = "cuda_tile.sqrt"
    source = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    flush_to_zero = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class TanOp(IRDLOperation):
    """`tan`, since bytecode 13.1."""

    name = "cuda_tile.tan"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class TanHOp(IRDLOperation):
    """`tanh`, since bytecode 13.1."""

    name = "cuda_tile.tanh"
    source = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    result = result_def()


@irdl_op_definition
class Atan2Op(IRDLOperation):
    """`atan2`, since bytecode 13.2."""

    name = "cuda_tile.atan2"
    x = operand_def()
    y = operand_def()
    result = result_def()


@irdl_op_definition
class FPowIOp(IRDLOperation):
    """`fpowi`, since bytecode 13.4."""

    name = "cuda_tile.fpowi"
    source = operand_def()
    exponent = operand_def()
    result = result_def()
