"""Threads and warps: special registers, barriers, shuffles, votes, warp reductions."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import scalar_of

_AXES = ("x", "y", "z")
SPECIAL_REGISTERS = (
    *(f"{base}.{axis}" for base in ("tid", "ntid", "ctaid", "nctaid") for axis in _AXES),
    *(f"{base}.{axis}" for base in ("clusterid", "nclusterid") for axis in _AXES),
    *(f"cluster.{base}.{axis}" for base in ("ctaid", "nctaid") for axis in _AXES),
    *("cluster.ctarank", "cluster.nctarank", "laneid", "warpid", "warpsize", "smid", "nsmid"),
)
SHUFFLE_MODES = ("idx", "bfly", "up", "down")
VOTE_MODES = ("all", "any", "uni", "ballot")
REDUX_KINDS = ("add", "umin", "umax", "min", "max", "and", "or", "xor")


@irdl_op_definition
class ReadSregOp(IRDLOperation):
    """Reads a 32-bit special register: `result = %tid.x` (PTX ISA, "Special Registers")."""

    name = "nvvm.read_sreg"
    register = prop_def(StringAttr)
    result = result_def(IntegerType(32))
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """A register of the table."""
        if self.register.data not in SPECIAL_REGISTERS:
            raise VerifyException(f"nvvm.read_sreg: unknown register '{self.register.data}'")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Waits at barrier `id` (0..15) for all threads of the CTA, or for `threads` of them.

    With `group` (i32) the barrier is number `id + group`.
    All threads of a warp must execute it together (PTX ISA, "barrier.cta.sync.aligned").
    """

    name = "nvvm.barrier"
    group = opt_operand_def()
    id = prop_def(IntAttr)
    threads = opt_prop_def(IntAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Barrier number and thread count are legal."""
        _check_barrier(self.name, self.id.data, self.threads)


@irdl_op_definition
class BarrierArriveOp(IRDLOperation):
    """Arrives at barrier `id` without waiting; `threads` counts arrivers and waiters."""

    name = "nvvm.barrier_arrive"
    id = prop_def(IntAttr)
    threads = prop_def(IntAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Barrier number and thread count are legal."""
        _check_barrier(self.name, self.id.data, self.threads)


@irdl_op_definition
class WarpBarrierOp(IRDLOperation):
    """All threads of the warp meet; what they did to memory is known to each (`bar.warp.sync`)."""

    name = "nvvm.warp_barrier"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


def _check_barrier(name: str, number: int, threads: IntAttr | None) -> None:
    if not 0 <= number < 16:
        raise VerifyException(f"{name}: barrier {number}, expected 0 to 15")
    if threads is not None and (threads.data <= 0 or threads.data % 32):
        raise VerifyException(f"{name}: {threads.data} threads is not a multiple of a warp")


@irdl_op_definition
class ShflOp(IRDLOperation):
    """Reads another lane's value: `result[i] = value[i] of lane f(mode, offset)`.

    `value` is i32 or f32, or a vector of them; every lane of the warp takes part. `clamp` is PTX's
    c operand (31 for idx, bfly and down, 0 for up). PTX ISA, "shfl.sync".
    """

    name = "nvvm.shfl"
    mode = prop_def(StringAttr)
    clamp = prop_def(IntAttr)
    value = operand_def()
    offset = operand_def(IntegerType(32))
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """32-bit lanes in and out, a known mode."""
        if self.mode.data not in SHUFFLE_MODES:
            raise VerifyException(f"nvvm.shfl: unknown mode '{self.mode.data}'")
        element = scalar_of(self.value.type)
        if self.value.type != self.result.type or element != IntegerType(32):
            raise VerifyException(f"nvvm.shfl: {self.value.type} to {self.result.type}, want i32")


@irdl_op_definition
class VoteOp(IRDLOperation):
    """Combines a predicate over the warp: all, any, uni (i1) or ballot (i32 mask of lanes)."""

    name = "nvvm.vote"
    mode = prop_def(StringAttr)
    predicate = operand_def(IntegerType(1))
    result = result_def(IntegerType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """A known mode with its result type."""
        if self.mode.data not in VOTE_MODES:
            raise VerifyException(f"nvvm.vote: unknown mode '{self.mode.data}'")
        width = 32 if self.mode.data == "ballot" else 1
        if self.result.type != IntegerType(width):
            raise VerifyException(f"nvvm.vote {self.mode.data}: result must be i{width}")


@irdl_op_definition
class ReduxOp(IRDLOperation):
    """Reduces i32 over the whole warp, per vector lane; min, max signed, umin, umax unsigned.

    PTX ISA, "redux.sync", sm_80 and later.
    """

    name = "nvvm.redux"
    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """i32 in and out, a known kind."""
        if self.kind.data not in REDUX_KINDS:
            raise VerifyException(f"nvvm.redux: unknown kind '{self.kind.data}'")
        element = scalar_of(self.value.type)
        if self.value.type != self.result.type or element != IntegerType(32):
            raise VerifyException(f"nvvm.redux: {self.value.type} to {self.result.type}, want i32")


@irdl_op_definition
class ElectOp(IRDLOperation):
    """True in exactly one lane of the converged warp (PTX ISA, "elect.sync", sm_90 and later)."""

    name = "nvvm.elect"
    result = result_def(IntegerType(1))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
