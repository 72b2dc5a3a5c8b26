"""Swizzles of shared memory, which TMA writes by and wgmma reads by."""

from __future__ import annotations

import numpy as np

LINE = 128


def swizzled(address: np.ndarray, span: int) -> np.ndarray:
    """Where the byte of an address lies if lines of `span` bytes are swizzled; 0 is no swizzle.

    PTX ISA, "Swizzling modes": chunk c (16 bytes) of 128 bytes number l goes to chunk c ^ l % 8, as
    far as it stays within its line.
    """
    if span == 0:
        return address
    return address ^ (address // LINE & span // 16 - 1) << 4
