"""A simulated flat device memory: allocations with gaps between, every access checked.

Addresses are bytes, start far from zero and have nothing to do with host addresses. Two arrays that
share host memory share simulated memory, so aliasing arguments alias in the run too.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array

FIRST_ADDRESS = 1 << 32
"""Where allocations start, so that small integers and 32-bit truncations never are addresses."""

GUARD_BYTES = 4096
"""At least this much unmapped space lies between two allocations."""

ALIGNMENT = 256
"""Alignment of every allocation, as cudaMalloc grants it."""


@dataclass(frozen=True)
class DeviceBuffer:
    """An allocation: its address and its size in bytes."""

    address: int
    size: int


class SimulatedMemory:
    """Bytes by address; reads and writes whole arrays of addresses at once."""

    def __init__(self) -> None:
        self._bytes = np.zeros(1 << 16, dtype=np.uint8)
        self._used = 0
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._as_arrays: tuple[Array, Array] | None = None

    def allocate(self, size: int, alignment: int = ALIGNMENT) -> DeviceBuffer:
        """Reserves `size` zeroed bytes at a multiple of `alignment`, behind a guard gap."""
        step = max(alignment, ALIGNMENT)
        start = -(-(self._used + GUARD_BYTES) // step) * step
        self._reserve(start + size)
        self._used = start + size
        address = FIRST_ADDRESS + start
        self._starts.append(address)
        self._ends.append(address + size)
        self._as_arrays = None
        return DeviceBuffer(address, size)

    def upload(self, data: Array, alignment: int = ALIGNMENT) -> DeviceBuffer:
        """Allocates a copy of a contiguous array's bytes."""
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        buffer = self.allocate(raw.size, alignment)
        self.write_bytes(buffer.address, raw)
        return buffer

    def read_bytes(self, address: int, size: int) -> Array:
        """A copy of `size` bytes; the range must be allocated."""
        start = self._check(np.asarray(address, np.int64), size) - FIRST_ADDRESS
        return self._bytes[int(start) : int(start) + size].copy()

    def write_bytes(self, address: int, data: Array) -> None:
        """Overwrites bytes; the range must be allocated."""
        start = int(self._check(np.asarray(address, np.int64), data.size)) - FIRST_ADDRESS
        self._bytes[start : start + data.size] = data

    def gather(self, addresses: Array, storage: np.dtype) -> Array:
        """Reads one element of `storage` (an unsigned type) at every address."""
        offsets = self._check(addresses, storage.itemsize) - FIRST_ADDRESS
        if not np.any(offsets % storage.itemsize):
            return self._bytes.view(storage)[offsets // storage.itemsize]
        lanes = offsets[..., np.newaxis] + np.arange(storage.itemsize)
        return np.ascontiguousarray(self._bytes[lanes]).view(storage)[..., 0]

    def scatter(self, addresses: Array, bits: Array) -> None:
        """Writes one element at every address; where addresses repeat, the last one stays."""
        offsets = self._check(addresses, bits.dtype.itemsize) - FIRST_ADDRESS
        if not np.any(offsets % bits.dtype.itemsize):
            self._bytes.view(bits.dtype)[offsets // bits.dtype.itemsize] = bits
            return
        lanes = offsets[..., np.newaxis] + np.arange(bits.dtype.itemsize)
        self._bytes[lanes] = np.ascontiguousarray(bits)[..., np.newaxis].view(np.uint8)

    def _reserve(self, size: int) -> None:
        """Grows the backing bytes to a multiple of the largest element."""
        if size <= self._bytes.size:
            return
        grown = np.zeros(1 << (size - 1).bit_length(), dtype=np.uint8)
        grown[: self._bytes.size] = self._bytes
        self._bytes = grown

    def _check(self, addresses: Array, size: int) -> Array:
        """Returns the addresses, having made sure that each one's `size` bytes are allocated."""
        addresses = np.asarray(addresses, dtype=np.int64)
        if addresses.size == 0 or size == 0:
            return addresses
        if not self._starts:
            raise InterpreterError("memory access, but nothing is allocated")
        lowest, highest = addresses.min(), addresses.max()
        first = bisect_right(self._starts, lowest) - 1
        if first >= 0 and highest + size <= self._ends[first]:
            return addresses
        if self._as_arrays is None:
            self._as_arrays = np.asarray(self._starts), np.asarray(self._ends)
        starts, ends = self._as_arrays
        owner = np.searchsorted(starts, addresses, side="right") - 1
        is_bad = (owner < 0) | (addresses + size > ends[np.maximum(owner, 0)])
        if np.any(is_bad):
            raise InterpreterError(self._describe(int(addresses[is_bad].flat[0]), size))
        return addresses

    def _describe(self, address: int, size: int) -> str:
        """An out-of-bounds message that names the nearest allocation below."""
        owner = bisect_right(self._starts, address) - 1
        message = f"access of {size} bytes at address {address:#x} is out of bounds"
        if owner < 0:
            return message
        start, end = self._starts[owner], self._ends[owner]
        return (
            f"{message}: byte {address - start} of an allocation of {end - start} bytes "
            f"(allocation {owner})"
        )


@dataclass(frozen=True)
class _HostRange:
    """Host memory of one or several overlapping arrays, and its simulated copy."""

    low: int
    high: int
    is_writable: bool
    buffer: DeviceBuffer

    def host_bytes(self) -> Array:
        """A writable view of the host bytes."""
        size = self.high - self.low
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.low))


class HostArrays:
    """Copies argument arrays into simulated memory before a run and back after it."""

    def __init__(self, memory: SimulatedMemory, arrays: Sequence[Array]):
        self._memory = memory
        self._ranges: list[_HostRange] = []
        self._kept = list(arrays)
        bounds = sorted(
            (*_byte_bounds(array), array.flags.writeable) for array in arrays if array.size
        )
        merged: list[tuple[int, int, bool]] = []
        for low, high, is_writable in bounds:
            if merged and low < merged[-1][1]:
                first, last, was_writable = merged.pop()
                merged.append((first, max(last, high), was_writable and is_writable))
            else:
                merged.append((low, high, is_writable))
        for low, high, is_writable in merged:
            buffer = memory.allocate(high - low)
            self._ranges.append(_HostRange(low, high, is_writable, buffer))

    def copy_in(self) -> None:
        """Host to simulated memory."""
        for span in self._ranges:
            self._memory.write_bytes(span.buffer.address, span.host_bytes())

    def copy_out(self) -> None:
        """Simulated memory to host; only bytes that changed are written.

        Raises InterpreterError where a read-only array would change.
        """
        for span in self._ranges:
            host = span.host_bytes()
            device = self._memory.read_bytes(span.buffer.address, span.buffer.size)
            changed = host != device
            if not np.any(changed):
                continue
            if not span.is_writable:
                raise InterpreterError(f"{changed.sum()} bytes of a read-only array were written")
            host[changed] = device[changed]

    def address_of(self, array: Array) -> int:
        """The simulated address of the array's first element."""
        pointer = array.__array_interface__["data"][0]
        for span in self._ranges:
            if span.low <= pointer < span.high:
                return span.buffer.address + pointer - span.low
        return FIRST_ADDRESS - ALIGNMENT


def _byte_bounds(array: Array) -> tuple[int, int]:
    """First and one-past-last host address that the array's elements use."""
    low = high = array.__array_interface__["data"][0]
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize
