"""Matrices in shared memory as wgmma and tcgen05 see them (PTX ISA, "Matrix Descriptor",
"Shared Memory Matrix Layout", "Strides").

In units of 16 bytes the canonical layouts are, with m along M or N, k along K, and w = W / 16:

| major | no swizzle                  | swizzle of W bytes                              |
|-------|-----------------------------|-------------------------------------------------|
| K     | m % 8 + (m / 8) SBO + k LBO | (m % 8) w + (m / 8) SBO + k                     |
| MN    | k % 8 + (k / 8) LBO + m SBO | m % w + (m / w) LBO + (k % 8) w + (k / 8) SBO   |

The swizzle then permutes the bits of the address. One that keeps 32 bytes together starts again
after 4 rows: for 8 the table has 4 then, and so have CUTLASS (`make_umma_desc`) and DeepGEMM.
Operands of 32 bits are MN-major with it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileiras.interpreter.ptx.elements import BITS, element_values
from tileiras.interpreter.ptx.memory import Bytes
from tileiras.interpreter.ptx.tma import swizzled

UNIT = 16
"""Bytes that stay together under every swizzle, and in which descriptors count."""

_MASK = (1 << 14) - 1
_WGMMA_SWIZZLES = {0: (0, "16B"), 1: (128, "16B"), 2: (64, "16B"), 3: (32, "16B")}
_TCGEN05_SWIZZLES = {
    0: (0, "16B"),
    1: (128, "32B"),
    2: (128, "16B"),
    4: (64, "16B"),
    6: (32, "16B"),
}


@dataclass(frozen=True)
class Descriptor:
    """Start address and strides in bytes; `width` is the swizzle's (0: none)."""

    start: int
    leading: int
    stride: int
    width: int
    atomicity: str = "16B"

    def place(self, offsets: np.ndarray) -> np.ndarray:
        """Byte addresses of offsets into the matrix, swizzled."""
        at = self.start + offsets
        if not self.width:
            return at
        return swizzled(at, f"{self.width}B", self.atomicity)


def wgmma_descriptor(word: int) -> Descriptor:
    """The 64 bits of a wgmma descriptor."""
    width, atomicity = _WGMMA_SWIZZLES[word >> 62 & 3]
    return _fields(word, width, atomicity)


def tcgen05_descriptor(word: int) -> Descriptor:
    """The 64 bits of a tcgen05 descriptor; ValueError for an unknown swizzle or version."""
    mode = word >> 61 & 7
    if mode not in _TCGEN05_SWIZZLES:
        raise ValueError(f"swizzle mode {mode} in a shared memory descriptor")
    if word >> 46 & 7 != 1:
        raise ValueError("bits 46 to 48 of a shared memory descriptor must be 0b001")
    return _fields(word, *_TCGEN05_SWIZZLES[mode])


def _fields(word: int, width: int, atomicity: str) -> Descriptor:
    start, leading, stride = (UNIT * (word >> at & _MASK) for at in (0, 16, 32))
    if word >> 49 & 7:
        raise ValueError("descriptors with a base offset are not supported")
    return Descriptor(start, leading, stride, width, atomicity)


def byte_offsets(d: Descriptor, rows: int, columns: int, size: int, mn_major: bool) -> np.ndarray:
    """The offset of the first byte of each element: shape (rows, columns), `size` bytes each."""
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if not mn_major:
        byte = column * size
        if not d.width:
            return row % 8 * UNIT + row // 8 * d.stride + byte // UNIT * d.leading + byte % UNIT
        return (
            row % 8 * d.width + row // 8 * d.stride + byte % d.width + byte // d.width * d.leading
        )
    byte = row * size
    if size == 4 and d.atomicity != "32B":
        raise ValueError("MN-major operands of 32 bits want a swizzle of 128 bytes by 32")
    chunk, inside = byte // UNIT, byte % UNIT
    if not d.width:
        return column % 8 * UNIT + column // 8 * d.leading + chunk * d.stride + inside
    wide = d.width // UNIT
    across = chunk % wide * UNIT + chunk // wide * d.leading + inside
    lines = 4 if d.atomicity == "32B" else 8
    return across + column % lines * d.width + column // lines * d.stride


def read_matrix(
    shared: Bytes, d: Descriptor, rows: int, columns: int, name: str, mn_major: bool, packed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of float64 (rows, columns) and the byte addresses it was read from.

    Elements of less than 8 bits lie 16 to 16 bytes (`packed`: 4 bits each, dense).
    """
    bits = BITS[name]
    if bits >= 8:
        width = bits // 8
        at = d.place(byte_offsets(d, rows, columns, width, mn_major))
        return element_values(shared.views[width][at // width], name), at
    if mn_major:
        raise ValueError("elements of less than 8 bits are K-major")
    if packed:
        at = d.place(byte_offsets(d, rows, columns // 2, 1, False))
        codes = np.stack((shared.data[at] & 15, shared.data[at] >> 4), axis=2)
        return element_values(codes.reshape(rows, columns), name), at
    at = d.place(byte_offsets(d, rows, columns, 1, False))
    raw = shared.data[at].reshape(rows, columns // 16, 16)
    words = np.unpackbits(raw, axis=2, bitorder="little")[:, :, : 16 * bits]
    parts = words.reshape(rows, columns, bits)
    codes = (parts << np.arange(bits, dtype=np.uint8)).sum(axis=2).astype(np.uint8)
    return element_values(codes, name), at
