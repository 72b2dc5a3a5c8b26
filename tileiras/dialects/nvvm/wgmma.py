"""Warpgroup matrix multiply (wgmma): one op for the instructions of a whole tile step."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
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
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import lanes_of
from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.operations import SegmentedOp

DESCRIPTOR_UNIT = 16
"""Descriptors count in units of 16 bytes (PTX ISA, "Matrix Descriptor Format")."""


@irdl_op_definition
class WgmmaOp(SegmentedOp):
    """Multiplies and accumulates a whole tile: `result[m] = sum_k a[m,k] * b[k] + accumulator[m]`.

    `atom` names a row of `codegen.atoms.wgmma`. `a` is a descriptor (i64) or a thread's fragments
    (K repeats inside M repeats); `b` is a descriptor. `a_offsets` and `b_offsets` are bytes added
    to the descriptors, one per k step. There are `reps_m` blocks of 64 rows, `m_stride` bytes apart
    in A; their accumulators lie one after the other in the vector. `scale_d` false for the first k
    step ignores the old accumulators; without an accumulator it is false for good.

    Asynchronous: until a wait the result must only feed another wgmma or the wait. `fence` first
    orders earlier register writes, `commit` closes the group, `wait` then leaves that many groups
    pending; all three are part of one instruction sequence. PTX ISA, "wgmma.mma_async".
    """

    name = "nvvm.wgmma"
    atom = prop_def(StringAttr)
    a_offsets = prop_def(IndicesAttr)
    b_offsets = prop_def(IndicesAttr)
    reps_m = prop_def(IntAttr)
    m_stride = prop_def(IntAttr)
    a_transposed = opt_prop_def(UnitAttr)
    b_transposed = opt_prop_def(UnitAttr)
    fence = opt_prop_def(UnitAttr)
    commit = opt_prop_def(UnitAttr)
    wait = opt_prop_def(IntAttr)
    a = operand_def()
    b = operand_def(IntegerType(64))
    accumulator = opt_operand_def()
    scale_d = opt_operand_def(IntegerType(1))
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def a_in_registers(self) -> bool:
        """Is A given as fragments?"""
        return self.a.type != IntegerType(64)

    def verify_(self) -> None:
        """Offsets fit each other and the descriptor's unit; accumulators have one type."""
        steps = len(self.a_offsets.data)
        if not steps or len(self.b_offsets.data) != steps or self.reps_m.data < 1:
            raise VerifyException("nvvm.wgmma: expected an A and a B offset for every k step")
        offsets = (*self.a_offsets.data, *self.b_offsets.data, self.m_stride.data)
        if any(offset % DESCRIPTOR_UNIT for offset in offsets):
            raise VerifyException(f"nvvm.wgmma: offsets {offsets} are not multiples of 16 bytes")
        if self.accumulator is None and self.scale_d is not None:
            raise VerifyException("nvvm.wgmma: scale_d without an accumulator")
        if self.accumulator is not None and self.accumulator.type != self.result.type:
            raise VerifyException(
                f"nvvm.wgmma: accumulator {self.accumulator.type} gives {self.result.type}"
            )
        if (lanes_of(self.result.type) or 0) % self.reps_m.data:
            raise VerifyException(
                f"nvvm.wgmma: {self.result.type} is not {self.reps_m.data} accumulators"
            )
        if self.a_in_registers:
            self._check_register_operand()

    def _check_register_operand(self) -> None:
        if any(self.a_offsets.data) or self.m_stride.data or self.a_transposed is not None:
            raise VerifyException("nvvm.wgmma: A in registers has no offsets and no transposition")
        if (lanes_of(self.a.type) or 0) % (self.reps_m.data * len(self.a_offsets.data)):
            raise VerifyException(f"nvvm.wgmma: {self.a.type} is not one fragment per step and row")


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Orders earlier accesses to the registers of `values` before the wgmma that follow.

    The values come out again, so that nothing that computes them moves behind the fence. PTX ISA,
    "wgmma.fence".
    """

    name = "nvvm.wgmma_fence"
    values = var_operand_def()
    results_ = var_result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Every value comes out with its type."""
        _check_passed(self)


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """Closes the current group of wgmma."""

    name = "nvvm.wgmma_commit"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Waits until at most `pending` groups are unfinished and passes accumulators through.

    The results may be used; nothing that uses them moves in front of the wait. `moved`: they are
    in other registers, so that ptxas may choose those of the accumulators without regard to what
    else meets their uses. PTX ISA, "wgmma.wait_group".
    """

    name = "nvvm.wgmma_wait"
    pending = prop_def(IntAttr)
    moved = opt_prop_def(UnitAttr)
    values = var_operand_def()
    results_ = var_result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Every value comes out with its type."""
        _check_passed(self)
        if not 0 <= self.pending.data <= 7:
            raise VerifyException(f"nvvm.wgmma_wait: {self.pending.data} pending groups")


def _check_passed(op: WgmmaFenceOp | WgmmaWaitOp) -> None:
    if [value.type for value in op.values] != [value.type for value in op.results_]:
        raise VerifyException(f"{op.name}: operands and results differ in type")


WGMMA_OPS = (WgmmaOp, WgmmaFenceOp, WgmmaCommitOp, WgmmaWaitOp)
