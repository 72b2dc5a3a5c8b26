"""Operations of the cuda_tile dialect: tiles (Tile IR specification)."""

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)

from tileiras.dialects.cuda_tile.attributes import AssumePredicateAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """`broadcast`, since bytecode 13.1."""

    name = "cuda_tile.broadcast"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class CatOp(IRDLOperation):
    """`cat`, since bytecode 13.1."""

    name = "cuda_tile.cat"
    lhs = operand_def()
    rhs = operand_def()
    dim = prop_def(IntegerAttr)
    result = result_def()


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """`constant`, since bytecode 13.1."""

    name = "cuda_tile.constant"
    value = prop_def(DenseAttr)
    result = result_def()


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """`extract`, since bytecode 13.1."""

    name = "cuda_tile.extract"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()


@irdl_op_definition
class InsertOp(IRDLOperation):
    """`insert`, since bytecode 13.4."""

    name = "cuda_tile.insert"
    source = operand_def()
    destination = operand_def()
    indices = var_operand_def()
    result = result_def()


@irdl_op_definition
class IotaOp(IRDLOperation):
    """`iota`, since bytecode 13.1."""

    name = "cuda_tile.iota"
    result = result_def()


@irdl_op_definition
class OffsetOp(IRDLOperation):
    """`offset`, since bytecode 13.1."""

    name = "cuda_tile.offset"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()


@irdl_op_definition
class PermuteOp(IRDLOperation):
    """`permute`, since bytecode 13.1."""

    name = "cuda_tile.permute"
    source = operand_def()
    permutation = prop_def(DenseArrayBase)
    result = result_def()


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """`reshape`, since bytecode 13.1."""

    name = "cuda_tile.reshape"
    source = operand_def()
    result = result_def()


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """`assume`, since bytecode 13.1."""

    name = "cuda_tile.assume"
    value = operand_def()
    predicate = prop_def(AssumePredicateAttr)
    result = result_def()


@irdl_op_definition
class GetNumTileBlocksOp(IRDLOperation):
    """`get_num_tile_blocks`, since bytecode 13.1."""

    name = "cuda_tile.get_num_tile_blocks"
    grid_size_x = result_def()
    grid_size_y = result_def()
    grid_size_z = result_def()


@irdl_op_definition
class GetTileBlockIdOp(IRDLOperation):
    """`get_tile_block_id`, since bytecode 13.1."""

    name = "cuda_tile.get_tile_block_id"
    block_id_x = result_def()
    block_id_y = result_def()
    block_id_z = result_def()
