"""Addresses, loads and stores, of shared and of global memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.llvm import memory
from tileiras.dialects.llvm.types import bit_width
from tileiras.dialects.nvvm import access
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.shared import is_shared
from tileiras.interpreter.threads.state import Lockstep, Rule
from tileiras.interpreter.threads.values import (
    Bytes,
    Value,
    element_bits,
    from_bytes,
    signed,
    to_bytes,
)

WIDEST = 16
"""Bytes of the widest access, which is as far as addresses must be aligned."""
UNSPECIFIED = 0xDB
"""The bytes of lanes whose guard is false and which pass nothing through."""


def _check_alignment(addresses: Value, size: int, what: str) -> None:
    wrong = addresses % np.uint64(min(size, WIDEST)) != 0
    if wrong.any():
        raise InterpreterError(
            f"misaligned {what} of {size} bytes at {int(addresses[wrong][0]):#x}"
        )


def read(run: Lockstep, threads: np.ndarray, addresses: Value, size: int) -> Bytes:
    """`size` bytes at the address of each of some threads (by number), of whichever memory."""
    _check_alignment(addresses, size, "read")
    if not len(addresses):
        return np.zeros((0, size), np.uint8)
    if is_shared(addresses):
        return run.shared.load(run.clock, threads, addresses, size)
    places = addresses.astype(np.int64)[:, None] + np.arange(size)
    return run.memory.gather(places, np.dtype(np.uint8))


def write(run: Lockstep, threads: np.ndarray, addresses: Value, data: Bytes) -> None:
    """The inverse of `read`."""
    size = data.shape[1]
    _check_alignment(addresses, size, "write")
    if not len(addresses):
        return
    if is_shared(addresses):
        run.program.stored.append(run.shared.store(run.clock, threads, addresses, data))
        return
    places = addresses.astype(np.int64)[:, None] + np.arange(size)
    run.memory.scatter(places, np.ascontiguousarray(data))


def _offset(run: Lockstep, op: memory.GEPOp) -> Value:
    base, offset = run.operands(op.operands)
    moved = signed(offset, element_bits(op.offset.type)).view(np.uint64)
    if base.ndim < moved.ndim:
        base = base[:, None]
    if moved.ndim < base.ndim:
        moved = moved[:, None]
    return base + moved


def _load(run: Lockstep, op: memory.LoadOp) -> Value:
    size = bit_width(op.result.type) // 8
    step = min(size, op.align.data)
    addresses = run.values[op.pointer]
    parts = [
        read(run, run.ids, addresses + np.uint64(start), step) for start in range(0, size, step)
    ]
    return from_bytes(np.concatenate(parts, axis=1), op.result.type)


def _store(run: Lockstep, op: memory.StoreOp) -> None:
    """Threads that write the same bytes to one place of shared memory count as one."""
    data = to_bytes(run.values[op.value], op.value.type)
    step = min(data.shape[1], op.align.data)
    for start in range(0, data.shape[1], step):
        addresses, piece = run.values[op.pointer] + np.uint64(start), data[:, start : start + step]
        rows = run.rows
        if is_shared(addresses):
            _, rows = np.unique(addresses, return_index=True)
            _check_one_value(addresses, piece)
        write(run, run.ids[rows], addresses[rows], piece[rows])


def _check_one_value(addresses: Value, data: Bytes) -> None:
    """Raises where threads write different bytes to one place."""
    order = np.argsort(addresses, kind="stable")
    is_same_place = addresses[order][1:] == addresses[order][:-1]
    is_other = (data[order][1:] != data[order][:-1]).any(axis=1)
    if (is_same_place & is_other).any():
        raise InterpreterError("race: two threads write different bytes to one place at once")


class _Groups:
    """The accesses of a guarded operation: a run of bytes for each thread and pointer."""

    def __init__(self, run: Lockstep, op: Any, type_: Any):
        self.run = run
        self.pointers = run.values[op.pointers].reshape(run.count, -1)
        self.count = self.pointers.shape[1]
        self.size = bit_width(type_) // 8 // self.count
        self.step = min(self.size, op.align.data)
        guards = np.ones((run.count, 1), np.bool_)
        if op.predicate is not None:
            guards = (run.values[op.predicate] != 0).reshape(run.count, -1)
        self.guards = np.broadcast_to(guards, self.pointers.shape)

    def __iter__(self) -> Iterator[tuple[np.ndarray, Value, slice]]:
        """Each access: the rows that do it, their addresses, and the bytes of the value."""
        for group in range(self.count):
            rows = self.run.rows[self.guards[:, group]]
            for start in range(0, self.size, self.step):
                first = group * self.size + start
                addresses = self.pointers[rows, group] + np.uint64(start)
                yield rows, addresses, slice(first, first + self.step)


def _guarded_load(run: Lockstep, op: access.GuardedLoadOp) -> Value:
    groups = _Groups(run, op, op.result.type)
    if op.passthru is None:
        result = np.full((run.count, groups.count * groups.size), UNSPECIFIED, np.uint8)
    else:
        result = to_bytes(run.values[op.passthru], op.passthru.type).copy()
    for rows, addresses, columns in groups:
        result[rows, columns] = read(run, run.ids[rows], addresses, groups.step)
    return from_bytes(result, op.result.type)


def _guarded_store(run: Lockstep, op: access.GuardedStoreOp) -> None:
    data = to_bytes(run.values[op.value], op.value.type)
    for rows, addresses, columns in _Groups(run, op, op.value.type):
        write(run, run.ids[rows], addresses, data[rows, columns])


def _allocate(run: Lockstep, op: memory.AllocaOp) -> Value:
    places = [run.memory.allocate(op.size.data).address for _ in run.rows]
    return np.array(places, np.uint64)


def _nothing(run: Lockstep, op: Operation) -> None:
    """Operations act in program order: a fence orders nothing further.

    The place of a variable that a debugger reads is none of the program's.
    """


RULES: dict[type[Operation], Rule] = {
    memory.GEPOp: _offset,
    memory.LoadOp: _load,
    memory.StoreOp: _store,
    memory.AllocaOp: _allocate,
    memory.FenceOp: _nothing,
    memory.DebugValueOp: _nothing,
    access.GuardedLoadOp: _guarded_load,
    access.GuardedStoreOp: _guarded_store,
}
"""Operations on memory."""
