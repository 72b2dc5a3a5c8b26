"""Who runs and who waits: elected threads, memory barriers in shared memory, groups of copies.

An mbarrier is an i64 in shared memory; operations take the pointer to it.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute_nvgpu.rows import effect, row

MAX_COUNT = (1 << 20) - 1
"""PTX ISA, "Size and alignment of mbarrier object": valid range of counts."""
MOST_CTAS = 8
"""Of a cluster that every GPU with clusters can launch (PTX ISA, "Cluster of CTAs")."""
MOST_PENDING = 7
"""Groups that a wait may leave unfinished."""


def check_barrier(pointer: Any) -> None:
    """AlgebraError unless the pointer is that of an mbarrier."""
    if (pointer.element, pointer.space) != ("i64", "smem"):
        raise AlgebraError(
            f"an mbarrier is an i64 in smem, found {pointer.element} in {pointer.space}"
        )


def _init(pointer: Any, count: int) -> None:
    """A legal count."""
    check_barrier(pointer)
    check_count(count)


def check_count(count: int) -> None:
    """AlgebraError for a count of arrivals or bytes that no barrier has."""
    if not 1 <= count <= MAX_COUNT:
        raise AlgebraError(f"a barrier counts 1 to {MAX_COUNT}, found {count}")


def _wait(pointer: Any, phase: Leaf) -> None:
    """A parity."""
    check_barrier(pointer)
    if isinstance(phase, int) and phase not in (0, 1):
        raise AlgebraError(f"the parity of a phase is 0 or 1, found {phase}")


def _try_wait(pointer: Any, phase: Leaf) -> Dynamic:
    _wait(pointer, phase)
    return Dynamic.symbol(UNKNOWN)


def check_rank(rank: Leaf) -> None:
    """AlgebraError for a static number that is no CTA of any cluster."""
    if isinstance(rank, int) and not 0 <= rank < MOST_CTAS:
        raise AlgebraError(f"a cluster has CTAs 0 to {MOST_CTAS - 1}, found {rank}")


def check_mask(mask: Leaf) -> None:
    """AlgebraError for a static mask of CTAs that is none."""
    if isinstance(mask, int) and not 1 <= mask < 1 << 16:
        raise AlgebraError(f"a mask of CTAs has 16 bits and at least one of them set, found {mask}")


def _arrive(pointer: Any, rank: Leaf | None = None) -> None:
    check_barrier(pointer)
    if rank is not None:
        check_rank(rank)


def check_pending(count: int) -> None:
    """AlgebraError for a number of groups that no wait leaves."""
    if not 0 <= count <= MOST_PENDING:
        raise AlgebraError(f"a wait leaves 0 to {MOST_PENDING} groups, found {count}")


def nothing() -> None:
    """There is nothing to check."""


def _unknown() -> Dynamic:
    return Dynamic.symbol(UNKNOWN)


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect("elect_sync", "-> bool", _unknown, "One lane of the warp: `lane = 0`."),
    row("warp_idx", "-> int", _unknown, "The warp in its CTA: `warp_idx() = threadIdx.x / 32`."),
    row("lane_idx", "-> int", _unknown, "The lane in its warp: `lane_idx() = threadIdx.x % 32`."),
    effect(
        "mbarrier_init",
        "ptr",
        _init,
        "A barrier whose phases end with n arrivals: `init<n>: pending := n`.",
        statics=1,
    ),
    effect(
        "mbarrier_init_fence",
        "",
        nothing,
        "Makes new barriers known to all: `inits before < uses after`.",
    ),
    effect(
        "mbarrier_arrive",
        "ptr, int?",
        _arrive,
        "An arrival, at the barrier of another CTA if one is given: `pending := pending - 1`.",
    ),
    effect(
        "mbarrier_arrive_and_expect_tx",
        "ptr",
        _init,
        "An arrival that announces bytes: `pending := pending - 1, tx := tx + n`.",
        statics=1,
    ),
    effect(
        "mbarrier_wait",
        "ptr, int",
        _wait,
        "Waits for the end of a phase: `until parity(phase) != p`.",
    ),
    effect(
        "mbarrier_try_wait",
        "ptr, int -> bool",
        _try_wait,
        "Whether a phase is over, perhaps after a while: `parity(phase) != p`.",
    ),
    effect(
        "mbarrier_arrive_copies",
        "ptr",
        check_barrier,
        "An arrival when this thread's cp.async are done: `copies before < arrival`.",
    ),
    effect(
        "fence_proxy_async",
        "",
        nothing,
        "Orders stores with TMA and wgmma: `stores before < async reads after`.",
    ),
    effect("sync_warp", "", nothing, "The warp meets: `writes before < reads after`."),
    effect("cp_async_commit_group", "", nothing, "Closes a group: `group := cp.async so far`."),
    effect(
        "cp_async_wait_group",
        "",
        check_pending,
        "Waits for groups: `wait<n>: unfinished groups <= n`.",
        statics=1,
    ),
)
"""The operations of this chapter."""
