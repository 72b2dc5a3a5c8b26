"""Planning `convert_layout`: the cheapest way from one distributed layout to another.

Both layouts place the same tile on the same threads. The planner asks, for each destination
register, lane and warp bit, which source registers and lanes of the same warp hold its element;
all answers are linear. No lane moves: a rename. Lanes of the warp suffice: shuffles. Otherwise the
data goes through shared memory, with the swizzle that the two layouts determine.
"""

from __future__ import annotations

from functools import lru_cache

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import storage_bytes
from tileiras.dialects.layout.plans import (
    ConversionPlan,
    Identity,
    RegisterPermutation,
    SharedMemory,
    WarpShuffle,
)
from tileiras.dialects.layout.shuffles import plan_in_warp
from tileiras.dialects.layout.staging import plan_staging

THREAD_DIMS = ("register", "lane", "warp")

# Estimates in issue slots of one warp, to choose between shuffles and shared memory. Throughput
# per clock and SM (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"):
# 32 lanes of shuffle, 128 bytes of shared memory, at least 64 selects.
_SELECTS_PER_SHUFFLE = 2
# Our estimate of what a trip through shared memory adds in latency: a store, a load, two barriers.
_SHARED_LATENCY = 64


@lru_cache(maxsize=4096)
def plan_conversion(src: LinearLayout, dst: LinearLayout, element_bits: int) -> ConversionPlan:
    """How to bring a tile of `element_bits`-bit elements from layout `src` to layout `dst`.

    LayoutError if the layouts are of different tiles or thread counts, or if `src` does not hold
    the whole tile.
    """
    check_convertible(src, dst)
    if src == dst:
        return Identity()
    plan = plan_in_warp(src, dst, element_bits)
    match plan:
        case RegisterPermutation(sources):
            is_identity = sources == tuple(range(src.in_size("register")))
            return Identity() if is_identity else plan
        case WarpShuffle() if _shuffles_pay(plan, src, dst, element_bits):
            return plan
        case _:
            return plan_staging(src, dst, element_bits)


def check_convertible(src: LinearLayout, dst: LinearLayout) -> None:
    """LayoutError unless the two layouts place the same tile on the same threads, the first all of
    it.
    """
    for layout in (src, dst):
        if layout.in_dims != THREAD_DIMS:
            raise LayoutError(f"expected input dims {list(THREAD_DIMS)}, found {layout}")
    if src.shape != dst.shape:
        raise LayoutError(f"cannot convert a tile of shape {src.shape} to {dst.shape}")
    for name in ("lane", "warp"):
        if src.in_bits(name) != dst.in_bits(name):
            raise LayoutError(
                f"cannot convert from {src.in_size(name)} to {dst.in_size(name)} {name}s"
            )
    if not src.is_surjective:
        raise LayoutError(f"the source layout does not hold the whole tile: {src}")


def _shuffles_pay(
    plan: WarpShuffle, src: LinearLayout, dst: LinearLayout, element_bits: int
) -> bool:
    """Whether the shuffles are estimated to cost no more than shared memory."""
    words = -(-element_bits * plan.pack // 32)
    moving = sum(not plan.is_local(exchange) for exchange in plan.rounds)
    swaps_before = sum(map(bool, plan.before_by_lane + plan.before_by_warp))
    swaps_after = sum(map(bool, plan.after_by_lane))
    selects = (
        swaps_before * src.in_size("register") + swaps_after * dst.in_size("register")
    ) // plan.pack
    shuffle_cost = words * (moving + selects // _SELECTS_PER_SHUFFLE)
    held = src.in_size("register") + dst.in_size("register")
    shared_cost = _SHARED_LATENCY + held * storage_bytes(element_bits) // 4
    return shuffle_cost <= shared_cost


__all__ = [
    "ConversionPlan",
    "Identity",
    "RegisterPermutation",
    "SharedMemory",
    "WarpShuffle",
    "check_convertible",
    "plan_conversion",
]
