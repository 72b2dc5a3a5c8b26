"""Matrix products with a chosen way of computing them."""

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tileiras.dialects.cuda_tile.attributes import SignednessAttr


@irdl_op_definition
class MmaDotOp(IRDLOperation):
    """`lhs @ rhs + acc` by warp-wide mma.sync instructions.

    `atom` names a row of `codegen.atoms.mma`; `acc` lies in its fragments, tiled. An operand
    that lies in its fragments is used from registers, any other is read through shared memory.
    """

    name = "nv_tileas.mma_dot"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    atom = prop_def(StringAttr)
    warps_m = prop_def(IntAttr)
    warps_n = prop_def(IntAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class MmaScaledDotOp(IRDLOperation):
    """`(lhs * lhs_scale) @ (rhs * rhs_scale) + acc` by warp-wide, block-scaled mma.sync.

    `atom` names a row of `codegen.atoms.mma`; `acc` lies in its fragments, the scales as
    `dialects.layout.scales` says. Operands are those of `mma_dot`; of f4 they are bytes of two.
    """

    name = "nv_tileas.mma_scaled_dot"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    lhs_scale = operand_def()
    rhs_scale = operand_def()
    atom = prop_def(StringAttr)
    warps_m = prop_def(IntAttr)
    warps_n = prop_def(IntAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class FmaDotOp(IRDLOperation):
    """`lhs @ rhs + acc` by fused multiply-adds; the operands are read through shared memory.

    An operand of one batch serves all batches. The signedness properties are present for integer
    operands only.
    """

    name = "nv_tileas.fma_dot"
    lhs = operand_def()
    rhs = operand_def()
    acc = operand_def()
    signedness_lhs = opt_prop_def(SignednessAttr)
    signedness_rhs = opt_prop_def(SignednessAttr)
    result = result_def()
    traits = traits_def(Pure())
