"""How many slots rings would get, as far as that is known before consumers are placed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.planning.hints import USUAL_LATENCY_HINT, latency_hint
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.operands.tma import is_by_tma
from tileiras.planning.operands.tma_stores import own_store_bytes
from tileiras.planning.resources.cta import (
    FIXED_BYTES,
    LEAST_SCRATCH,
    SLOT_BARRIER_BYTES,
    WARP_THREADS,
    RingDemand,
    most_slots,
    ring_stages,
    shared_bytes,
)
from tileiras.planning.resources.requirements import ring_demands

UNLIMITED_BYTES = 2**31
"""Policy: more than all rings could use."""
BARRIER_BYTES = 384
"""Fixed: shared memory of a CTA for mbarriers, a pointer to the tensor maps, and gaps."""
STORE_BARRIER_BYTES = 128
"""Fixed: shared memory for the mbarriers of a store agent's first buffers and tensor maps."""
GAP_BYTES = 128
"""Fixed: for other mbarriers, a pointer to the tensor maps, and gaps."""
MAP_BYTES = 128
"""Fixed: a tensor map in shared memory."""
MOST_SCRATCH = 16 * 1024
"""Policy: larger layout changes are done in rounds, for the rings' sake."""


def slots_ahead(ring: Pipeline) -> int:
    """Slots for the latency that hints promise beyond the usual one."""
    latency = max((latency_hint(load) or USUAL_LATENCY_HINT for load in ring.loads), default=0)
    return max(0, -(-(latency - USUAL_LATENCY_HINT) // USUAL_LATENCY_HINT))


def ring_room(plan: HopperPlan, target: GpuTarget) -> int:
    """Shared memory for the rings of a plan whose consumers are not placed yet."""
    return shared_bytes(plan.shape, target) - FIXED_BYTES - max(LEAST_SCRATCH, plan.scratch)


def has_spare_slots(plan: HopperPlan, target: GpuTarget) -> bool:
    """Whether every ring that would use more slots than must be held at once gets some."""
    rings = ring_demands(plan.pipelines, list(plan.dots.values()))
    stages = ring_stages(rings, ring_room(plan, target))
    if stages is None:
        return False
    pairs = zip(rings, stages, strict=True)
    return all(count > ring.least for ring, count in pairs if ring.may_grow)


def fixed_bytes(rings: Iterable[RingDemand], maps: int, has_store_warp: bool) -> int:
    """Shared memory for mbarriers, for making `maps` tensor maps, and for handing a scalar on."""
    slots = sum(map(most_slots, rings))
    barriers = max(BARRIER_BYTES, GAP_BYTES + SLOT_BARRIER_BYTES * slots)
    barriers += STORE_BARRIER_BYTES if has_store_warp else 0
    return max(FIXED_BYTES, barriers + maps * MAP_BYTES)


def has_room(func: aa.FuncOp, plan: HopperPlan, target: GpuTarget) -> bool:
    """Whether the least slots fit shared memory, whatever else the kernel turns out to need.

    With as many tensor maps as there may be, buffers of their own for stores by TMA, and what a
    cluster sends beside the rings if it is more than the largest of them holds.
    """
    dots = list(plan.dots.values())
    rings = ring_demands([replace(ring, within=None) for ring in plan.pipelines], dots)
    pairs = zip(rings, plan.pipelines, strict=True)
    own = [ring for ring, planned in pairs if planned.within is None]
    room = shared_bytes(plan.shape, target) - plan.turned - max(LEAST_SCRATCH, plan.scratch)
    room -= fixed_bytes(rings, _most_maps(func, plan), plan.has_store_agent)
    room -= own_store_bytes(func, plan, plan.stores)
    stages = ring_stages(own, room)
    if stages is None:
        return False
    if func.cluster_size == 1:
        return True
    largest = max(ring.slot_bytes * count for ring, count in zip(own, stages, strict=True))
    sent = [_most_sent(op, plan, func) for op in func.walk() if isinstance(op, aa.ShareTilesOp)]
    room -= sum(size for size in sent if size + MOST_SCRATCH > largest)
    return ring_stages(own, room) is not None


def _most_maps(func: aa.FuncOp, plan: HopperPlan) -> int:
    """Tensor maps of loads and stores: of loads that CTAs share there may be one for each box."""
    loads = {
        (memref_of(load.view).result, load.view.type)
        for ring in plan.pipelines
        for load in ring.loads
        if isinstance(load, aa.TiledLoadOp) and is_by_tma(load)
    }
    stores = {store.view for store in plan.stores}
    return len(loads) * min(2, func.cluster_size) + len(stores)


def _most_sent(op: aa.ShareTilesOp, plan: HopperPlan, func: aa.FuncOp) -> int:
    """Shared memory for tiles that a cluster sends to one CTA, spread over all its threads."""
    threads = plan.shape.consumer_warps * WARP_THREADS
    cells = sum(-(-value_bytes(tile) // (CELL_BYTES * threads)) for tile in op.tiles)
    return cells * CELL_BYTES * threads * func.cluster_size
