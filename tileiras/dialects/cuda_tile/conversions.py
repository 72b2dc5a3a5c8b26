"""Operations of the cuda_tile dialect: conversions (Tile IR specification)."""

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
    IntegerOverflowAttr,
    RoundingModeAttr,
    SignednessAttr,
)


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """`bitcast`, since bytecode 13.1."""

    name = "cuda_tile.bitcast"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class ExtIOp(IRDLOperation):
    """`exti`, since bytecode 13.1."""

    name = "cuda_tile.exti"
    source = operand_def()
    signedness = prop_def(SignednessAttr)
    result = result_def()


@irdl_op_definition
class FToFOp(IRDLOperation):
    """`ftof`, since bytecode 13.1."""

    name = "cuda_tile.ftof"
    source = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    result = result_def()


@irdl_op_definition
class FToIOp(IRDLOperation):
    """`ftoi`, since bytecode 13.1."""

    name = "cuda_tile.ftoi"
    source = operand_def()
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    saturating = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class IntToPtrOp(IRDLOperation):
    """`int_to_ptr`, since bytecode 13.1."""

    name = "cuda_tile.int_to_ptr"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class IToFOp(IRDLOperation):
    """`itof`, since bytecode 13.1."""

    name = "cuda_tile.itof"
    source = operand_def()
    signedness = prop_def(SignednessAttr)
    rounding_mode = prop_def(RoundingModeAttr)
    result = result_def()


@irdl_op_definition
class PtrToIntOp(IRDLOperation):
    """`ptr_to_int`, since bytecode 13.1."""

    name = "cuda_tile.ptr_to_int"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class PtrToPtrOp(IRDLOperation):
    """`ptr_to_ptr`, since bytecode 13.1."""

    name = "cuda_tile.ptr_to_ptr"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class TruncIOp(IRDLOperation):
    """`trunci`, since bytecode 13.1."""

    name = "cuda_tile.trunci"
    source = operand_def()
    overflow = prop_def(IntegerOverflowAttr)
    result = result_def()


@irdl_op_definition
class PackOp(IRDLOperation):
    """`pack`, since bytecode 13.3."""

    name = "cuda_tile.pack"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """`unpack`, since bytecode 13.3."""

    name = "cuda_tile.unpack"
    source = operand_def()
    result = result_def()
