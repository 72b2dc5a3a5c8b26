"""Operations that make tensors or change their shape, and the matrix product."""

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, UnitAttr
from xdsl.ir import OpResult, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import SignednessAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant scalar or tensor; `value` keeps the tile type it was written with."""

    name = "nv_tileaa.constant"
    value = prop_def(DenseAttr)
    result = result_def()
    traits = traits_def(Pure())


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a constant of zeros."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return False
    constant = value.op.value
    return isinstance(constant, DenseAttr) and not any(constant.raw.data)


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """`result[i] = i`, rank 1."""

    name = "nv_tileaa.make_range"
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A tensor whose elements all equal one scalar."""

    name = "nv_tileaa.splat"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """Repeats along dims of size 1; rank and element type stay."""

    name = "nv_tileaa.broadcast"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Same elements in row-major order, another shape."""

    name = "nv_tileaa.reshape"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The scalar held by a tensor of one element."""

    name = "nv_tileaa.unsplat"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class PermuteOp(IRDLOperation):
    """`result.shape[i] = source.shape[permutation[i]]`."""

    name = "nv_tileaa.permute"
    source = operand_def()
    permutation = prop_def(DenseArrayBase[IntegerType])
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class CatOp(IRDLOperation):
    """Concatenation of two tensors along `dim`."""

    name = "nv_tileaa.cat"
    lhs = operand_def()
    rhs = operand_def()
    dim = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """The slice number `indices` of the source, which is a grid of such slices."""

    name = "nv_tileaa.extract"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class InsertOp(IRDLOperation):
    """`destination` with slice number `indices` replaced by `source`."""

    name = "nv_tileaa.insert"
    source = operand_def()
    destination = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class PackOp(IRDLOperation):
    """Reinterprets the bytes of a rank-1 tensor as i8."""

    name = "nv_tileaa.pack"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """Reinterprets i8 bytes as another element type, rank 1."""

    name = "nv_tileaa.unpack"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class DotOp(IRDLOperation):
    """`result = lhs @ rhs + acc`, rank 2, or rank 3 batched over dim 0.

    Where the `condition` (i1) does not hold, `result` is `acc`. The signedness properties are
    present for integer operands only.
    """

    name = "nv_tileaa.dot"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    condition = opt_operand_def()
    fast_acc = opt_prop_def(UnitAttr)
    signedness_lhs = opt_prop_def(SignednessAttr)
    signedness_rhs = opt_prop_def(SignednessAttr)
    result = result_def()
    traits = traits_def(Pure())
