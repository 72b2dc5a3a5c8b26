"""Clusters of CTAs, and moving registers between warpgroups."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import GLOBAL, PointerType, vector_type
from tileiras.dialects.nvvm.mbarrier import check_shared

SHARED_CLUSTER = 7
"""LLVM's address space of another CTA's shared memory."""
ANSWER_WORDS = 4
"""Words of what is known of a cluster that was asked for."""


@irdl_op_definition
class ClusterArriveOp(IRDLOperation):
    """Arrives at the cluster's barrier; `relaxed` orders no memory.

    Every thread of the cluster must arrive, and wait before it arrives again. PTX ISA,
    "barrier.cluster".
    """

    name = "nvvm.cluster_arrive"
    relaxed = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ClusterWaitOp(IRDLOperation):
    """Waits until all threads of the cluster have arrived."""

    name = "nvvm.cluster_wait"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class MapSharedOp(IRDLOperation):
    """The address of `pointer` in the shared memory of CTA `rank` of the cluster (PTX "mapa")."""

    name = "nvvm.mapa"
    pointer = operand_def(PointerType)
    rank = operand_def(IntegerType(32))
    result = result_def(PointerType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Shared in, shared::cluster out."""
        check_shared(self.name, self.pointer.type)
        if self.result.type != PointerType(SHARED_CLUSTER):
            raise VerifyException(f"nvvm.mapa: result {self.result.type}, expected space 7")


@irdl_op_definition
class StoreAsyncOp(IRDLOperation):
    """Stores 1, 2 or 4 words into the shared memory of CTA `rank` of the cluster.

    `pointer` and `barrier` are this CTA's addresses of what is meant there. The bytes are counted
    at the mbarrier when they have arrived; nobody else learns that. PTX ISA, "st.async".
    """

    name = "nvvm.store_async"
    pointer = operand_def(PointerType)
    barrier = operand_def(PointerType)
    rank = operand_def(IntegerType(32))
    words = var_operand_def(IntegerType(32))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Shared pointers and as many words as one instruction takes."""
        check_shared(self.name, self.pointer.type)
        check_shared(self.name, self.barrier.type)
        if len(self.words) not in (1, 2, 4):
            raise VerifyException(f"nvvm.store_async: {len(self.words)} words, expected 1, 2 or 4")


@irdl_op_definition
class TryCancelOp(IRDLOperation):
    """Asks for a cluster that has not started, where the guard holds; it will never start then.

    The answer, 16 bytes at `pointer`, is counted at the mbarrier. With `of_cluster` it comes to the
    same place in all CTAs of the cluster. PTX ISA, "clusterlaunchcontrol.try_cancel".
    """

    name = "nvvm.try_cancel"
    pointer = operand_def(PointerType)
    barrier = operand_def(PointerType)
    predicate = operand_def(IntegerType(1))
    of_cluster = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Shared pointers."""
        check_shared(self.name, self.pointer.type)
        check_shared(self.name, self.barrier.type)


@irdl_op_definition
class QueryCancelOp(IRDLOperation):
    """Reads an answer: whether a cluster was taken over (1 or 0), and x, y, z of its first CTA.

    These are 0 where none was. PTX ISA, "clusterlaunchcontrol.query_cancel".
    """

    name = "nvvm.query_cancel"
    pointer = operand_def(PointerType)
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """A shared pointer, and four words."""
        check_shared(self.name, self.pointer.type)
        if self.result.type != vector_type(IntegerType(32), ANSWER_WORDS):
            raise VerifyException(f"{self.name}: result {self.result.type}, expected four words")


@irdl_op_definition
class TakeNumberOp(IRDLOperation):
    """Draws the next number of this launch: `first`, `first + 1`, ..; `end` and more: no more.

    `first` threads of a launch draw, until each has got `end` or more once: who draws the last of
    all numbers gives the slot back. `state` is what the same thread's last one gave, 0 at first.
    Threads for which the guard does not hold draw none, and have `end`.

    `table` (global, zero before the first launch) has `slots` slots of 16 bytes: whose it is, and
    how many numbers were drawn. A launch is told from those that run at the same time by `%gridid`,
    and takes the slot that is the remainder of that.

    A slot that another launch has is passed over for the next one, and counted as passed until this
    launch ends. So all threads of a launch go the same way, and nobody takes a slot on it. Where
    all slots are passed the numbers are `own + first`: a static schedule. Nobody waits.
    """

    name = "nvvm.take_number"
    slots = prop_def(IntAttr)
    table = operand_def(PointerType)
    state = operand_def(IntegerType(32))
    own = operand_def(IntegerType(32))
    first = operand_def(IntegerType(32))
    end = operand_def(IntegerType(32))
    predicate = operand_def(IntegerType(1))
    new_state = result_def(IntegerType(32))
    number = result_def(IntegerType(32))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Global memory and a power of two."""
        count = self.slots.data
        if self.table.type != PointerType(GLOBAL) or count < 1 or count & (count - 1):
            raise VerifyException(f"{self.name}: {count} slots at {self.table.type}")


@irdl_op_definition
class SetMaxRegistersOp(IRDLOperation):
    """Raises (`inc`) or lowers (`dec`) the registers of each thread of this warpgroup.

    `inc` waits until the CTA has given back enough. All warps of the warpgroup must execute it; the
    kernel needs a fixed number of threads. PTX ISA, "setmaxnreg".
    """

    name = "nvvm.setmaxnreg"
    registers = prop_def(IntAttr)
    action = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """24 to 256 in steps of 8."""
        count = self.registers.data
        if not 24 <= count <= 256 or count % 8:
            raise VerifyException(
                f"nvvm.setmaxnreg: {count} registers, expected 24 to 256 in steps of 8"
            )
        if self.action.data not in ("inc", "dec"):
            raise VerifyException(f"nvvm.setmaxnreg: unknown action '{self.action.data}'")


LAUNCH_CONTROL_OPS = (TryCancelOp, QueryCancelOp)
QUEUE_OPS = (TakeNumberOp,)
CLUSTER_OPS = (ClusterArriveOp, ClusterWaitOp, MapSharedOp, StoreAsyncOp, SetMaxRegistersOp)
