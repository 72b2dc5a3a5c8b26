"""Bytes of every state space, accessed by many threads at once (PTX ISA, "State Spaces").

Generic addresses are laid out as follows; an address of the shared window carries the rank of
its CTA in the cluster in bits 24 and up, also in 32-bit shared addresses, as on the hardware.

| what                        | address                          |
|-----------------------------|----------------------------------|
| global, const, kernel param | `ARENA` + offset                 |
| shared                      | `SHARED_WINDOW` + rank << 24 + offset |
| local                       | `LOCAL_WINDOW` + offset          |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx.errors import PtxRuntimeError

ARENA = 1 << 36
SHARED_WINDOW = 1 << 44
LOCAL_WINDOW = 1 << 45
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
GUARD = 256
"""Bytes between allocations, so that an access past an end is seen."""

_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Bytes:
    """A range of bytes, read and written as words of 1, 2, 4 or 8 bytes."""

    def __init__(self, size: int):
        self.size = size
        self.data = np.zeros(-(-size // 16) * 16, np.uint8)
        self.views = {width: self.data.view(kind) for width, kind in _UNSIGNED.items()}

    def gather(self, at: np.ndarray, width: int, count: int) -> np.ndarray:
        """`count` words from each (aligned) offset: shape (offsets, count)."""
        first = at // width
        view = self.views[width]
        if count == 1:
            return view[first][:, None]
        return view[first[:, None] + np.arange(count)]

    def scatter(self, at: np.ndarray, values: np.ndarray) -> None:
        """Writes words of shape (offsets, count); of equal offsets the last one stays."""
        width = values.dtype.itemsize
        first = at // width
        view = self.views[width]
        for column in range(values.shape[1]):
            view[first + column] = values[:, column]


class Arena(Bytes):
    """Global memory: allocations with gaps between them; offsets count from `ARENA`."""

    def __init__(self, size: int):
        super().__init__(size)
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.top = GUARD

    def allocate(self, size: int, align: int = 256) -> int:
        """The address of a new allocation; PtxRuntimeError when the arena is full."""
        align = max(align, 16)
        start = -(-self.top // align) * align
        if start + size > self.size:
            raise PtxRuntimeError(f"{size} bytes do not fit into the {self.size} of the device")
        self.starts.append(start)
        self.ends.append(start + size)
        self.top = start + size + GUARD
        return ARENA + start

    def outside(self, at: np.ndarray, width: int) -> np.ndarray | None:
        """Which accesses are in no allocation; None if all are in one."""
        if not at.size:
            return None
        low, high = int(at.min()), int(at.max()) + width
        index = int(np.searchsorted(self.starts, low, "right")) - 1
        if index >= 0 and high <= self.ends[index]:
            return None
        owner = np.searchsorted(self.starts, at, "right") - 1
        bad = (owner < 0) | (at + width > np.asarray(self.ends)[np.maximum(owner, 0)])
        return bad if bad.any() else None
