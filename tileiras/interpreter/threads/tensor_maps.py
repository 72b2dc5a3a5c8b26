"""What a tensor map says: which elements of a tensor a box holds, and how it lies in shared memory.

PTX ISA, "Tensor Copies" and "tensormap.replace".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileiras.interpreter.threads.swizzles import swizzled

SIZES = {
    "u8": 1,
    "u16": 2,
    "f16": 2,
    "bf16": 2,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "tf32": 4,
    "u64": 8,
    "s64": 8,
    "f64": 8,
}
"""Bytes by element type."""
NAN_FILL = {"f16": 0x7FF7, "bf16": 0x7FF7, "f32": 0x7FF77FF7, "tf32": 0x7FF77FF7}
"""What an H200 writes where a map asks for NaN (tests/gpu/ptx_machine); zero for other types."""


@dataclass(frozen=True)
class TensorMap:
    """A map in global memory; the fastest dim first, strides in bytes without its.

    `swizzle` is its span in bytes, 0 for none.
    """

    base: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element: str
    swizzle: int
    fills_nan: bool = False

    @property
    def storage(self) -> np.dtype:
        """The bits of an element."""
        return np.dtype(f"u{SIZES[self.element]}")

    @property
    def outside(self) -> int:
        """The bits of elements outside of the tensor."""
        return NAN_FILL.get(self.element, 0) if self.fills_nan else 0

    def elements(self, coordinates: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of a box's elements in its order in shared memory, and which are inside."""
        steps = (SIZES[self.element], *self.strides)
        address = np.full((1,) * len(self.box), self.base, np.int64)
        inside = np.ones(address.shape, np.bool_)
        for dim, (start, extent) in enumerate(zip(coordinates, self.box, strict=True)):
            shape = [1] * len(self.box)
            shape[len(self.box) - 1 - dim] = extent
            index = (start + np.arange(extent)).reshape(shape)
            address = address + index * steps[dim]
            inside = inside & (index >= 0) & (index < self.sizes[dim])
        return address.reshape(-1), np.broadcast_to(inside, address.shape).reshape(-1)

    def places(self, start: int) -> np.ndarray:
        """Where the bytes of a box that starts there lie, (elements, bytes of one)."""
        size = SIZES[self.element]
        place = start + np.arange(int(np.prod(self.box)) * size)
        return swizzled(place, self.swizzle).reshape(-1, size)
