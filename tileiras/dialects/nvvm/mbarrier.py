"""Memory barriers in shared memory (mbarrier), and the fences between proxies that go with them."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import SHARED, PointerType
from tileiras.dialects.operations import SegmentedOp, operations_in

MAX_MBARRIER_COUNT = (1 << 20) - 1
"""PTX ISA, "Size and alignment of mbarrier object": valid range of counts."""
PROXY_SPACES = ("shared::cta", "shared::cluster", "global", "")
MEMORY = traits_def(MemoryReadEffect(), MemoryWriteEffect())


def check_shared(name: str, pointer: Attribute) -> None:
    """Raises unless `pointer` is the type of a shared memory pointer."""
    if pointer != PointerType(SHARED):
        raise VerifyException(f"{name}: expected a shared memory pointer, found {pointer}")


def _check_count(name: str, count: int) -> None:
    if not 1 <= count <= MAX_MBARRIER_COUNT:
        raise VerifyException(f"{name}: count {count}, expected 1 to {MAX_MBARRIER_COUNT}")


@irdl_op_definition
class MbarrierInitOp(IRDLOperation):
    """Makes an mbarrier of 8 bytes whose phases complete after `count` arrivals.

    One thread does it; `FenceMbarrierInitOp` and a barrier come before its first use by others.
    PTX ISA, "mbarrier.init".
    """

    name = "nvvm.mbarrier_init"
    count = prop_def(IntAttr)
    barrier = operand_def(PointerType)
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer and a legal count."""
        check_shared(self.name, self.barrier.type)
        _check_count(self.name, self.count.data)


@irdl_op_definition
class MbarrierArriveOp(SegmentedOp):
    """Arrives `count` times at a barrier, with release semantics, where the guard holds.

    With `cta` the barrier of that CTA rank of the cluster is meant, at the same shared address. One
    that `drops` out arrives for all phases to come: these expect `count` arrivals less.
    PTX ISA, "mbarrier.arrive", "mbarrier.arrive_drop".
    """

    name = "nvvm.mbarrier_arrive"
    count = prop_def(IntAttr)
    drops = opt_prop_def(UnitAttr)
    barrier = operand_def(PointerType)
    cta = opt_operand_def(IntegerType(32))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer and a legal count."""
        check_shared(self.name, self.barrier.type)
        _check_count(self.name, self.count.data)


@irdl_op_definition
class MbarrierExpectTxOp(SegmentedOp):
    """Announces `bytes` (or `size`) of asynchronous writes to the phase and arrives once.

    PTX ISA, "mbarrier.arrive.expect_tx".
    """

    name = "nvvm.mbarrier_expect_tx"
    bytes = prop_def(IntAttr)
    barrier = operand_def(PointerType)
    predicate = opt_operand_def(IntegerType(1))
    size = opt_operand_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer and a legal transaction count."""
        check_shared(self.name, self.barrier.type)
        _check_count(self.name, self.bytes.data)


@irdl_op_definition
class MbarrierWaitOp(IRDLOperation):
    """Waits until the phase with this `parity` (0 or 1) is complete, with acquire semantics.

    The first phase of a new barrier has parity 0; waiting for parity 1 on it returns at once.
    `of_cluster`: it acquires what other CTAs of the cluster have written, too. PTX ISA,
    "mbarrier.try_wait".
    """

    name = "nvvm.mbarrier_wait"
    barrier = operand_def(PointerType)
    parity = operand_def(IntegerType(32))
    of_cluster = opt_prop_def(UnitAttr)
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer."""
        check_shared(self.name, self.barrier.type)


@irdl_op_definition
class MbarrierTryWaitOp(IRDLOperation):
    """Whether the phase with this `parity` is complete, which may take a while to answer.

    As `nvvm.mbarrier_wait`, which asks until the answer is yes. PTX ISA, "mbarrier.try_wait".
    """

    name = "nvvm.mbarrier_try_wait"
    barrier = operand_def(PointerType)
    parity = operand_def(IntegerType(32))
    of_cluster = opt_prop_def(UnitAttr)
    result = result_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer."""
        check_shared(self.name, self.barrier.type)


@irdl_op_definition
class MbarrierArriveCopiesOp(IRDLOperation):
    """Arrives once all earlier cp.async copies of this thread have landed.

    The arrival counts towards the barrier's expected count (`.noinc`), unless it is `unexpected`:
    then the phase's pending count goes up first. PTX ISA, "cp.async.mbarrier.arrive".
    """

    name = "nvvm.mbarrier_arrive_copies"
    barrier = operand_def(PointerType)
    unexpected = opt_prop_def(UnitAttr)
    traits = MEMORY

    def verify_(self) -> None:
        """A shared pointer."""
        check_shared(self.name, self.barrier.type)


@irdl_op_definition
class FenceMbarrierInitOp(IRDLOperation):
    """Makes earlier mbarrier inits of this thread visible in the cluster and to TMA."""

    name = "nvvm.fence_mbarrier_init"
    traits = MEMORY


@irdl_op_definition
class FenceProxyAsyncOp(IRDLOperation):
    """Orders this thread's ordinary accesses with those of TMA and wgmma (the async proxy).

    `space` limits it to shared::cta, shared::cluster or global; "" is all. PTX ISA, "fence.proxy".
    """

    name = "nvvm.fence_proxy_async"
    space = prop_def(StringAttr)
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A known space."""
        if self.space.data not in PROXY_SPACES:
            raise VerifyException(f"nvvm.fence_proxy_async: unknown space '{self.space.data}'")


MBARRIER_OPS = operations_in(vars())
