"""Bulk copies, their groups, and asynchronous stores (PTX ISA, "cp.async.bulk",
"cp.reduce.async.bulk", "cp.async.bulk.commit_group", "st.async", "red.async")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import ASYNCHRONOUS, combination, locate
from tileiras.interpreter.ptx.barriers import complete_bytes, find_mbarrier, owner_of
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Immediate
from tileiras.interpreter.ptx.types import U32, PtxType, bits_type


@dataclass
class BulkWork:
    """A copy that a bulk group waits for; finishing twice does nothing.

    `start`: what it relied on when it was issued, where races are looked for.
    """

    action: Callable[[], None]
    start: Any = None
    is_done: bool = False

    def finish(self) -> None:
        """Performs the copy once."""
        if not self.is_done:
            self.is_done = True
            self.action()


@dataclass
class BulkGroups:
    """The bulk groups of one thread."""

    open: list[BulkWork] = field(default_factory=list)
    committed: list[list[BulkWork]] = field(default_factory=list)


def groups_of(cta: Cta, thread: int) -> BulkGroups:
    """The bulk groups of a thread."""
    groups: Any = cta.bulk_groups
    return groups.setdefault(thread, BulkGroups())


def start_grouped(
    cta: Cta, thread: int, action: Callable[[], None], line: int, what: str, start: Any = None
) -> None:
    """Starts work that the thread's open bulk group covers."""
    work = BulkWork(action, start)
    groups_of(cta, thread).open.append(work)
    cta.cluster.later(work.finish, line, what)


@rule("cp.async.bulk")
def bulk_copy(d: Decoder) -> Execute:
    """`cp.async.bulk` in all directions; commit and wait of groups; prefetches do nothing."""
    if d.flag("commit_group"):
        return _commit
    if d.flag("wait_group"):
        d.flag("read")
        return _wait(d)
    if d.flag("prefetch"):
        d.modifiers.clear()
        return lambda cta, on: None
    return _copy(d, None)


@rule("cp.reduce.async.bulk")
def bulk_reduce(d: Decoder) -> Execute:
    """`cp.reduce.async.bulk`: the destination's elements combined with the source's."""
    return _copy(d, d.type())


def _commit(cta: Cta, on: Active) -> None:
    for thread in on.index:
        groups = groups_of(cta, int(thread))
        groups.committed.append(groups.open)
        groups.open = []


def _wait(d: Decoder) -> Execute:
    operand = d.operands[0]
    if not isinstance(operand, Immediate) or not isinstance(operand.value, int):
        d.error("expected a number of groups")
    allowed = operand.value

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:
            groups = groups_of(cta, int(thread))
            while len(groups.committed) > allowed:
                for work in groups.committed.pop(0):
                    work.finish()
                    # What the work read may be written over by whoever knows of this wait.
                    if cta.shadow is not None and work.start is not None:
                        cta.shadow.join(int(thread), work.start)

    return run


def _copy(d: Decoder, type_: PtxType | None) -> Execute:
    if d.flag("multicast::cluster"):
        d.error("not supported")
    while d.choice("L2::cache_hint", "cp_mask", "noftz"):
        pass
    by_barrier = d.flag("mbarrier::complete_tx::bytes")
    if not by_barrier and not d.flag("bulk_group"):
        d.error("expected .mbarrier::complete_tx::bytes or .bulk_group")
    to = d.choice("shared::cluster", "shared::cta", "global")
    from_ = d.choice("global", "shared::cta")
    if to == "shared::cta" and from_ is None:
        from_, to = "shared::cta", "global"
    if to is None or from_ is None:
        d.error("expected two state spaces")
    name = d.choice("add", "min", "max", "inc", "dec", "and", "or", "xor") if type_ else None
    combine = combination(d, name or "", type_) if type_ else None
    target, source, size = d.address(0), d.address(1), d.src(2, U32)
    barrier_at = d.address(3) if by_barrier else None
    line = d.line

    def run(cta: Cta, on: Active) -> None:
        wheres, froms, sizes = (spread(r(cta), cta) for r in (target, source, size))
        for thread in on.index:
            count = int(sizes[thread])
            if count % 16:
                cta.fault(line, f"{count} bytes, expected a multiple of 16", int(thread))
            place = (int(wheres[thread]), int(froms[thread]), count, int(thread))

            def move(place: tuple[int, int, int, int] = place) -> None:
                _move(cta, place, (to, from_), line, type_, combine)

            if barrier_at is None:
                start_grouped(cta, int(thread), move, line, d.text)
                continue
            barrier = find_mbarrier(cta, int(spread(barrier_at(cta), cta)[thread]), line)

            def finish(move: Any = move, barrier: Any = barrier, count: int = count) -> None:
                move()
                complete_bytes(cta, barrier, count)

            cta.cluster.later(finish, line, d.text)

    return run


def _move(
    cta: Cta,
    place: tuple[int, int, int, int],
    spaces: tuple[str, str],
    line: int,
    type_: PtxType | None,
    combine: Any,
) -> None:
    where, from_, size, thread = place
    width = 8 if type_ is None else type_.bytes
    steps = np.arange(0, size, width, dtype=np.uint64)
    threads = np.full(len(steps), thread)
    data = np.empty((0, 1), np.uint8)
    for found in locate(cta, threads, spaces[1], steps + np.uint64(from_), width, line):
        data = found.bytes.gather(found.at, width, 1)
    for found in locate(cta, threads, spaces[0], steps + np.uint64(where), width, line):
        if combine is not None:
            old = found.bytes.gather(found.at, width, 1)
            data = combine(old[:, 0].copy(), data[:, 0].copy())[:, None]
        found.bytes.scatter(found.at, data)


def _remote(d: Decoder) -> tuple[PtxType, int, Read, Read]:
    """The common operands of `st.async` and `red.async`: type, vector, address, mbarrier."""
    type_ = d.type()
    while d.choice("weak", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes"):
        pass
    vector = {"v2": 2, "v4": 4}.get(d.choice("v2", "v4") or "", 1)
    return type_, vector, d.address(0), d.address(2)


def store_async(d: Decoder) -> Execute:
    """`st.async [a], b, [mbar]`: a store to another CTA that counts bytes there."""
    return _remote_access(d, None)


def reduce_async(d: Decoder) -> Execute:
    """`red.async.op [a], b, [mbar]`."""
    name = d.choice("add", "min", "max", "inc", "dec", "and", "or", "xor")
    return _remote_access(d, name)


def _remote_access(d: Decoder, name: str | None) -> Execute:
    type_, vector, address, barrier_at = _remote(d)
    combine = combination(d, name, type_) if name else None
    reads = [d.src(item, bits_type(type_.bits)) for item in d.items(1)]
    if len(reads) != vector:
        d.error(f"{len(reads)} registers for a vector of {vector}")
    line, size = d.line, type_.bytes * vector

    def run(cta: Cta, on: Active) -> None:
        where, barriers = spread(address(cta), cta), spread(barrier_at(cta), cta)
        values = np.stack([spread(read(cta), cta) for read in reads], axis=1)
        for thread in on.index:
            barrier = find_mbarrier(cta, int(barriers[thread]), line, int(thread))
            owner, offset = owner_of(cta, int(where[thread]), line)
            at, data = np.array([offset]), values[thread : thread + 1].copy()

            def finish(
                owner: Any = owner, at: Any = at, data: Any = data, barrier: Any = barrier
            ) -> None:
                if combine:
                    old = owner.shared.gather(at, type_.bytes, 1)
                    data = combine(old[:, 0].copy(), data[:, 0].copy())[:, None]
                owner.shared.scatter(at, data)
                complete_bytes(cta, barrier, size)

            cta.cluster.later(finish, line, d.text)

    return run


ASYNCHRONOUS["st"] = store_async
ASYNCHRONOUS["red"] = reduce_async
