"""Asynchronous copies (cp.async) and dependent launch."""

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import PointerType
from tileiras.dialects.operations import SegmentedOp

CACHES = ("ca", "cg")


@irdl_op_definition
class CpAsyncOp(SegmentedOp):
    """Starts copying `bytes` (4, 8 or 16) from global to shared memory.

    With `source_bytes` only so many are read and the rest is filled with zeros (0 reads nothing);
    where `ignore` is true, nothing is read and all is zeros: one instruction, while a number of
    bytes costs four more. At most one of them is given.
    `cache` cg bypasses L1 and needs 16 bytes. PTX ISA, "cp.async", sm_80 and later.
    """

    name = "nvvm.cp_async"
    bytes = prop_def(IntAttr)
    cache = prop_def(StringAttr)
    target = operand_def(PointerType)
    source = operand_def(PointerType)
    source_bytes = opt_operand_def(IntegerType(32))
    ignore = opt_operand_def(IntegerType(1))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """Legal size for the cache, shared target, global source."""
        size, cache = self.bytes.data, self.cache.data
        if size not in (4, 8, 16) or cache not in CACHES or (cache == "cg" and size != 16):
            raise VerifyException(f"nvvm.cp_async: {size} bytes through '{cache}'")
        if self.source_bytes is not None and self.ignore is not None:
            raise VerifyException("nvvm.cp_async: both a number of bytes and a condition")
        if self.target.type != PointerType(3) or self.source.type != PointerType(1):
            raise VerifyException("nvvm.cp_async: expected a shared target and a global source")


@irdl_op_definition
class CpAsyncCommitOp(IRDLOperation):
    """Closes the current group of asynchronous copies."""

    name = "nvvm.cp_async_commit"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class CpAsyncWaitOp(IRDLOperation):
    """Waits until at most `pending` groups of this thread are unfinished."""

    name = "nvvm.cp_async_wait"
    pending = prop_def(IntAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class GridDependencyOp(IRDLOperation):
    """`wait` for the grid before, or `launch_dependents` now (PTX ISA, "griddepcontrol", sm_90)."""

    name = "nvvm.griddepcontrol"
    action = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        """A known action."""
        if self.action.data not in ("wait", "launch_dependents"):
            raise VerifyException(f"nvvm.griddepcontrol: unknown action '{self.action.data}'")
