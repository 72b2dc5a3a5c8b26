"""Base classes of the elementwise operations, which nv_tileaa and nv_tileas share.

An elementwise operation means the same on scalars, on tensors, and on tensors with a layout: only
the place of the elements differs. So there is one class for both stages.
"""

from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import Pure


class ElementwiseOp(IRDLOperation):
    """Each element of the result depends on the elements of the operands at the same place."""

    traits = traits_def(Pure())


class UnaryOp(ElementwiseOp):
    """One operand."""

    source = operand_def()
    result = result_def()


class BinaryOp(ElementwiseOp):
    """Two operands."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()


class TernaryOp(ElementwiseOp):
    """Three operands."""

    first = operand_def()
    second = operand_def()
    third = operand_def()
    result = result_def()
