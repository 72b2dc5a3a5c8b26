"""Shared memory that a single operation needs for a moment: layout changes, reductions, slices.

Regions are handed out one after another; a barrier makes all of them free. A region must not be
written while another thread may still read what was there, so when the space runs out, or nothing
is known (at the start of a block), a barrier comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.errors import CompileError

ALIGNMENT = 128
"""Bytes; regions start where a wavefront of shared memory does."""
PIPELINE_BYTES = 48 * 1024
"""Policy: regions follow each other up to here before a barrier recycles them."""

LEAST_LEFT = 16 * 1024
"""Bytes of moved memory that stay for regions."""


def aligned(size: int) -> int:
    """`size` rounded up to where a region may start."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Scratch:
    """Hands out regions; the global grows to the largest need.

    A region is valid until the next one is asked for: that may recycle it. `too_large` makes the
    error for an operation that needs more bytes (first) than there are (second).
    """

    def __init__(
        self,
        builder: ThreadBuilder,
        prologue: ThreadBuilder,
        memory: llvm_memory.GlobalOp,
        limit: int,
        too_large: Callable[[int, int], CompileError],
    ):
        self._b = builder
        self._prologue = prologue
        self._memory = memory
        self._limit = limit
        self._too_large = too_large
        self._pipeline = min(PIPELINE_BYTES, limit)
        self._base: SSAValue | None = None
        self._next = 0
        self._known = False
        self._moved = False

    @property
    def limit(self) -> int:
        """Bytes that there are for one operation."""
        return self._limit

    def reserve(self, size: int) -> None:
        """Takes `size` bytes away for something that lives as long as the kernel."""
        self._limit -= size
        self._pipeline = min(PIPELINE_BYTES, self._limit)

    def keep(self, size: int) -> SSAValue | None:
        """The last `size` bytes of the memory that regions were moved to, for as long as it lasts.

        No thread uses them for anything else any more. None if there is no such memory.
        """
        size = aligned(size)
        if self._base is None or not self._moved or size + LEAST_LEFT > self._limit:
            return None
        self.reserve(size)
        if not self._known or self._next > self._limit:
            self._b.barrier()
            self.synchronized()
        return self._b.gep(self._base, self._limit)

    def move(self, base: SSAValue, size: int, always: bool = False) -> None:
        """From here on regions lie in other memory, once all threads are done with that.

        If there is more of it, or `always`: so that the kernel takes less.
        """
        if size <= self._limit and not always:
            return
        self._base = base
        self._limit = size
        self._pipeline = min(PIPELINE_BYTES, size)
        self._moved = True
        self._known = False

    def synchronized(self) -> None:
        """A barrier has just been passed: every region is free."""
        self._next = 0
        self._known = True

    def unknown(self) -> None:
        """Control came from elsewhere: any region may still be in use."""
        self._known = False

    def region(self, size: int) -> SSAValue:
        """A pointer to `size` bytes that no thread reads any more (a barrier is added if need be).

        Raises CompileError if the target has not so much.
        """
        size = aligned(size)
        if size > self._limit:
            raise self._too_large(size, self._limit)
        if not self._known or (self._next and self._next + size > self._pipeline):
            self._b.barrier()
            self.synchronized()
        offset = self._next
        self._next += size
        if not self._moved:
            total = max(self._memory.size.data, offset + size)
            self._memory.properties["size"] = IntAttr(total)
        if self._base is None:
            self._base = self._prologue.address_of(self._memory)
        return self._b.gep(self._base, offset)
