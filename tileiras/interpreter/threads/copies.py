"""Asynchronous copies by threads (cp.async): they arrive when somebody waits, not before."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.nvvm import copies, mbarrier
from tileiras.interpreter.threads.access import read, write
from tileiras.interpreter.threads.barriers import mbarrier_at
from tileiras.interpreter.threads.state import Lockstep, PendingCopy, Rule


def _start(run: Lockstep, op: copies.CpAsyncOp) -> None:
    """Under way: what was in shared memory is gone, what comes is not there yet."""
    targets, size = run.values[op.target].copy(), op.bytes.data
    read_bytes = np.full(run.count, size)
    if op.source_bytes is not None:
        read_bytes = run.values[op.source_bytes].astype(np.int64)
    if op.ignore is not None:
        read_bytes = np.where(run.values[op.ignore] != 0, 0, size)
    write(run, run.ids, targets, np.zeros((run.count, size), np.uint8))
    run.shared.forget(run.shared.offsets(targets, size))
    sources = run.values[op.source].copy()
    run.program.copies[-1].append(PendingCopy(run.ids, targets, sources, size, read_bytes))


def _commit(run: Lockstep, op: copies.CpAsyncCommitOp) -> None:
    run.program.copies.append([])


def _wait(run: Lockstep, op: copies.CpAsyncWaitOp) -> None:
    """The copies of all but the newest groups arrive."""
    groups = run.program.copies
    while len(groups) - 1 > op.pending.data:
        _land(run, groups.pop(0))


def _arrive(run: Lockstep, op: mbarrier.MbarrierArriveCopiesOp) -> None:
    """All copies so far arrive at some time, and then the threads at the mbarrier."""
    under_way = [copy for group in run.program.copies for copy in group]
    for group in run.program.copies:
        group.clear()
    addresses, counts = np.unique(run.values[op.barrier], return_counts=True)
    if op.unexpected is not None:
        for address, count in zip(addresses, counts, strict=True):
            mbarrier_at(run.cta, int(address)).pending += int(count)

    def land() -> None:
        _land(run, under_way)
        told = run.clock.release()
        for address, count in zip(addresses, counts, strict=True):
            mbarrier_at(run.cta, int(address)).arrive(int(count), told)

    run.schedule.land_later(land)


def _land(run: Lockstep, group: Iterable[PendingCopy]) -> None:
    """What is copied, and zeros behind the bytes to be read."""
    for copy in group:
        data = np.zeros((len(copy.threads), copy.size), np.uint8)
        for count in np.unique(copy.read_bytes[copy.read_bytes > 0]).tolist():
            rows = np.flatnonzero(copy.read_bytes == count)
            whole = count & -count
            for first in range(0, count, whole):
                place = copy.sources[rows] + np.uint64(first)
                piece = read(run, copy.threads[rows], place, whole)
                data[rows, first : first + whole] = piece
        write(run, copy.threads, copy.targets, data)


RULES: dict[type[Operation], Rule] = {
    copies.CpAsyncOp: _start,
    copies.CpAsyncCommitOp: _commit,
    copies.CpAsyncWaitOp: _wait,
    mbarrier.MbarrierArriveCopiesOp: _arrive,
}
"""Operations on cp.async."""
