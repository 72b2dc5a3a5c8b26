"""Operations of the cuda_tile dialect: bitwise (Tile IR specification)."""

from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def

from tileiras.dialects.cuda_tile.attributes import IntegerOverflowAttr, SignednessAttr


@irdl_op_definition
class AndIOp(IRDLOperation):
    """`andi`, since bytecode 13.1."""

    name = "cuda_tile.andi"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()


@irdl_op_definition
class OrIOp(IRDLOperation):
    """`ori`, since bytecode 13.1."""

    name = "cuda_tile.ori"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()


@irdl_op_definition
class ShLIOp(IRDLOperation):
    """`shli`, since bytecode 13.1."""

    name = "cuda_tile.shli"
    lhs = operand_def()
    rhs = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()


@irdl_op_definition
class ShRIOp(IRDLOperation):
    """`shri`, since bytecode 13.1."""

    name = "cuda_tile.shri"
    lhs = operand_def()
    rhs = operand_def()
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class XOrIOp(IRDLOperation):
    """`xori`, since bytecode 13.1."""

    name = "cuda_tile.xori"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
