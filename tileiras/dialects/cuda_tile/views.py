"""Operations of the cuda_tile dialect: views (Tile IR specification)."""

from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)


@irdl_op_definition
class MakeTensorViewOp(IRDLOperation):
    """`make_tensor_view`, since bytecode 13.1."""

    name = "cuda_tile.make_tensor_view"
    base = operand_def()
    dynamic_shape = var_operand_def()
    dynamic_strides = var_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class MakePartitionViewOp(IRDLOperation):
    """`make_partition_view`, since bytecode 13.1."""

    name = "cuda_tile.make_partition_view"
    tensor_view = operand_def()
    result = result_def()


@irdl_op_definition
class MakeStridedViewOp(IRDLOperation):
    """`make_strided_view`, since bytecode 13.3."""

    name = "cuda_tile.make_strided_view"
    tensor_view = operand_def()
    result = result_def()


@irdl_op_definition
class MakeGatherScatterViewOp(IRDLOperation):
    """`make_gather_scatter_view`, since bytecode 13.3."""

    name = "cuda_tile.make_gather_scatter_view"
    tensor_view = operand_def()
    result = result_def()


@irdl_op_definition
class GetIndexSpaceShapeOp(IRDLOperation):
    """`get_index_space_shape`, since bytecode 13.1."""

    name = "cuda_tile.get_index_space_shape"
    src = operand_def()
    results_ = var_result_def()


@irdl_op_definition
class GetTensorShapeOp(IRDLOperation):
    """`get_tensor_shape`, since bytecode 13.1."""

    name = "cuda_tile.get_tensor_shape"
    src = operand_def()
    results_ = var_result_def()
