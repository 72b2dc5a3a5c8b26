"""Asynchronous copies of a simulated thread block: they arrive when somebody waits, not before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from simulated_ops import Machine, Rule, read


def start(machine: Machine, op: Any) -> None:
    """Under way: what was in shared memory is gone, what comes is not there yet."""
    target, source = machine.values[op.target].copy(), machine.values[op.source].copy()
    size = op.bytes.data
    read_bytes = np.full(machine.threads, size)
    if op.source_bytes is not None:
        read_bytes = machine.values[op.source_bytes].astype(np.int64)
    if op.ignore is not None:
        read_bytes = np.where(machine.values[op.ignore].astype(bool), 0, size)
    machine.shared.store(machine.thread_ids, target, np.zeros((machine.threads, size), np.uint8))
    machine.shared.forget(target, size)
    machine.copies[-1].append((target, source, size, read_bytes))


def wait(machine: Machine, op: Any) -> None:
    """The copies of all but the newest groups arrive."""
    while len(machine.copies) - 1 > op.pending.data:
        _land(machine, machine.copies.pop(0))


def arrive(machine: Machine, op: Any) -> None:
    """Whoever passes the mbarrier has waited for all copies so far: they arrive."""
    for group in machine.copies:
        _land(machine, group)
        group.clear()


def _land(machine: Machine, group: Sequence[Any]) -> None:
    """What is copied, and zeros behind the bytes to be read."""
    for target, source, size, read_bytes in group:
        data = np.zeros((machine.threads, size), np.uint8)
        for count in sorted(set(read_bytes.tolist()) - {0}):
            chosen = machine.thread_ids[read_bytes == count]
            if np.any(source[chosen] % np.uint64(size)):
                raise RuntimeError(f"misaligned copy of {size} bytes")
            whole = count & -count
            for first in range(0, count, whole):
                piece = source[chosen] + np.uint64(first)
                data[chosen, first : first + whole] = read(machine, chosen, piece, whole)
        machine.shared.store(machine.thread_ids, target, data)


COPY_RULES: dict[str, Rule] = {
    "nvvm.cp_async": start,
    "nvvm.cp_async_commit": lambda machine, op: machine.copies.append([]),
    "nvvm.cp_async_wait": wait,
    "nvvm.mbarrier_arrive_copies": arrive,
}
