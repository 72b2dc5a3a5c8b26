"""Block-scaled products by tcgen05, and the copies that bring scales to tensor memory."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.nvvm.tcgen05 import MEMORY
from tileiras.dialects.nvvm.wgmma import DESCRIPTOR_UNIT


@irdl_op_definition
class Tcgen05CpOp(IRDLOperation):
    """Copies chunks of 32 rows of 16 bytes to four columns each, into every quarter of the lanes.

    Chunk i comes from `offsets[i]` bytes behind the descriptor `source` and goes to column
    `columns[i]` behind `tmem`, where the guard holds. Asynchronous, in order with products of the
    same thread. PTX ISA, "tcgen05.cp", `.32x128b.warpx4`.
    """

    name = "nvvm.tcgen05.cp"
    offsets = prop_def(IndicesAttr)
    columns = prop_def(IndicesAttr)
    tmem = operand_def(IntegerType(32))
    source = operand_def(IntegerType(64))
    predicate = opt_operand_def(IntegerType(1))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = MEMORY

    def verify_(self) -> None:
        """A column for every chunk; chunks start at whole units."""
        if not self.offsets.data or len(self.offsets.data) != len(self.columns.data):
            raise VerifyException(f"{self.name}: expected a column for every chunk")
        if any(offset % DESCRIPTOR_UNIT for offset in self.offsets.data):
            raise VerifyException(f"{self.name}: offsets are not multiples of 16 bytes")


@irdl_op_definition
class Tcgen05MmaScaledOp(IRDLOperation):
    """`d = sum_k (a[k] * scales_a[k]) * (b[k] * scales_b[k]) (+ d)`, where the guard holds.

    As `nvvm.tcgen05.mma`, with an instruction descriptor for each step of K, for it says which byte
    of a word the scales begin with. `a_scales` and `b_scales` are columns behind `scales`, one per
    step. PTX ISA, "tcgen05.mma", `.block_scale`.
    """

    name = "nvvm.tcgen05.mma_scaled"
    kind = prop_def(StringAttr)
    vector = prop_def(IntAttr)
    descriptors = prop_def(IndicesAttr)
    a_offsets = prop_def(IndicesAttr)
    b_offsets = prop_def(IndicesAttr)
    a_scales = prop_def(IndicesAttr)
    b_scales = prop_def(IndicesAttr)
    d = operand_def(IntegerType(32))
    a = operand_def(IntegerType(64))
    b = operand_def(IntegerType(64))
    scales = operand_def(IntegerType(32))
    accumulates = operand_def(IntegerType(1))
    predicate = opt_operand_def(IntegerType(1))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = MEMORY

    def verify_(self) -> None:
        """All of a step of K for every step."""
        steps = len(self.descriptors.data)
        each = (self.a_offsets, self.b_offsets, self.a_scales, self.b_scales)
        if not steps or any(len(values.data) != steps for values in each):
            raise VerifyException(f"{self.name}: expected offsets and columns for every k step")
        if self.vector.data not in (1, 2, 4):
            raise VerifyException(f"{self.name}: {self.vector.data} scales a row, expected 1, 2, 4")
        offsets = (*self.a_offsets.data, *self.b_offsets.data)
        if any(offset % DESCRIPTOR_UNIT for offset in offsets):
            raise VerifyException(f"{self.name}: offsets {offsets} are not multiples of 16 bytes")


TCGEN05_SCALED_OPS = (Tcgen05CpOp, Tcgen05MmaScaledOp)
