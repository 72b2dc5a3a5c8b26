"""Columns of tensor memory are allocated and given back (PTX ISA, "tcgen05.alloc",
"tcgen05.dealloc", "tcgen05.relinquish_alloc_permit").

CTAs that share an SM (`Limits.ctas_per_sm`) share its columns. Who finds too few waits until others
give theirs back, or until a CTA that may allocate relinquishes that. The two CTAs of a
`cta_group::2` allocate together, the same columns of both SMs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileiras.interpreter.ptx.access import locate
from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta, Waiter
from tileiras.interpreter.ptx.tmem import (
    SMALLEST,
    Allocation,
    cta_group,
    pair_of,
    sync_aligned,
    tmem_of,
)
from tileiras.interpreter.ptx.types import U32


@dataclass(eq=False)
class Request:
    """An allocation for one CTA, or for a pair; `place` is where it was made."""

    ctas: list[Cta]
    units: int
    line: int
    arrived: list[Cta] = field(default_factory=list)
    place: int | None = None

    def try_allocate(self) -> bool:
        """Whether the columns are there now: all CTAs have come, and there is room for them."""
        if self.place is not None:
            return True
        if len(self.arrived) < len(self.ctas):
            return False
        memories = [tmem_of(cta).sm for cta in self.ctas]
        if any(sm.permit not in (None, cta) for sm, cta in zip(memories, self.ctas)):
            return False
        common = set.intersection(*(set(sm.free(self.units)) for sm in memories))
        if not common:
            return False
        self.place = place = min(common)
        for sm, cta in zip(memories, self.ctas):
            sm.take(place, self.units, Allocation(cta, self.line))
        return True


def _request(cta: Cta, group: int, units: int, line: int) -> Request:
    """The request that the CTA takes part in: the other CTA of its pair may have begun it."""
    ctas = pair_of(cta, group)
    for request in cta.cluster.tmem_requests:
        if request.ctas == ctas and cta not in request.arrived:
            if request.units != units:
                cta.fault(line, "the CTAs of a pair allocate different numbers of columns")
            break
    else:
        request = Request(ctas, units, line)
        cta.cluster.tmem_requests.append(request)
    request.arrived.append(cta)
    if len(request.arrived) == len(ctas):
        cta.cluster.tmem_requests.remove(request)
    return request


@rule("tcgen05.alloc")
def allocate(d: Decoder) -> Execute:
    """`tcgen05.alloc [dst], columns`: writes the address to shared memory."""
    group = cta_group(d)
    sync_aligned(d)
    space = d.choice("shared", "shared::cta") or ""
    if not d.flag("b32"):
        d.error("expected .b32")
    address, count, line = d.address(0), d.src(1, U32), d.line

    def write(cta: Cta, thread: int, request: Request) -> None:
        assert request.place is not None
        where = spread(address(cta), cta)[thread : thread + 1]
        value = np.array([[request.place * SMALLEST]], np.uint32)
        for place in locate(cta, np.array([thread]), space, where, 4, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.write(cta, np.array([thread]), place.at, 4, line)
            place.bytes.scatter(place.at, value)
        cta.cluster.ends_turn = cta.grid.limits.ctas_per_sm > 1

    def run(cta: Cta, on: Active) -> None:
        for warp in on.warps:
            mask = on.mask & (np.arange(cta.threads) // WARP == warp)
            thread = int(np.flatnonzero(mask)[0])
            columns = int(spread(count(cta), cta)[thread])
            _check(cta, columns, thread, line)
            request = _request(cta, group, columns // SMALLEST, line)
            if request.try_allocate():
                write(cta, thread, request)
                continue
            cta.block(
                mask,
                Waiter(
                    mask,
                    request.try_allocate,
                    lambda thread=thread, request=request: write(cta, thread, request),
                    line,
                    f"{columns} columns of tensor memory",
                    is_for_others=True,
                ),
            )

    return run


def _check(cta: Cta, columns: int, thread: int, line: int) -> None:
    """Faults for an allocation that is wrong whatever other CTAs do."""
    if columns not in (32, 64, 128, 256, 512):
        cta.fault(line, f"{columns} columns, expected a power of two, 32 to 512", thread)
    memory = tmem_of(cta)
    if not memory.can_allocate:
        cta.fault(line, "an allocation after relinquish_alloc_permit", thread)
    units = columns // SMALLEST
    own = [owner is not None and owner.cta is cta for owner in memory.sm.owners]
    if all(any(own[at : at + units]) for at in range(0, len(own), units)):
        cta.fault(line, f"{columns} columns of tensor memory are not free", thread)


@rule("tcgen05.dealloc")
def deallocate(d: Decoder) -> Execute:
    """`tcgen05.dealloc address, columns`."""
    cta_group(d)
    sync_aligned(d)
    if not d.flag("b32"):
        d.error("expected .b32")
    address, count, line = d.src(0, U32), d.src(1, U32), d.line

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        first = int(spread(address(cta), cta)[on.first]) & 0xFFFF
        columns = int(spread(count(cta), cta)[on.first])
        memory.check_owned(cta, np.arange(first, first + columns), line)
        units = columns // SMALLEST
        memory.sm.owners[first // SMALLEST : first // SMALLEST + units] = [None] * units

    return run


@rule("tcgen05.relinquish_alloc_permit")
def relinquish(d: Decoder) -> Execute:
    """The CTA allocates no more: others of its SM may."""
    cta_group(d)
    sync_aligned(d)

    def run(cta: Cta, on: Active) -> None:
        memory = tmem_of(cta)
        memory.can_allocate = False
        if memory.sm.permit is cta:
            memory.sm.permit = None

    return run
