"""Whether a warp beside the producer stores, and what of the kernel it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.memory_order import follows_write, precedes_write
from tileiras.planning.mma.mma_sync import WARPS_PER_WARPGROUP
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.operands.tma import has_renewed_map
from tileiras.planning.operands.tma_stores import TmaWrite, is_again
from tileiras.planning.resources.cta import CtaConfig, launched_registers
from tileiras.planning.warp_roles.producer_layouts import producer_layouts
from tileiras.planning.warp_roles.producer_slice import producer_slice


def with_store_warp(func: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> RolePlan:
    """The plan with a store warp, if tiles of loops leave by TMA and a warp can walk these loops.

    Not where the wait for a store is to follow it at once: waiting later is what the warp role is
    for. Tensor maps of views that are made in loops are made by that warp: without it none of
    the tiles leaves by TMA.
    """
    without = replace(plan, stores=()) if any(map(has_renewed_map, plan.stores)) else plan
    if not plan.are_stores_delayed or not any(is_again(store, plan) for store in plan.stores):
        return without
    shape = _with_warp(plan, target)
    if shape is None or not _can_store(func, plan.stores):
        return without
    return replace(plan, shape=shape, has_store_warp=True)


def _with_warp(plan: RolePlan, target: GpuTarget) -> CtaConfig | None:
    """The shape with a warp for the warp role, None if that would cost the others registers."""
    shape = plan.shape
    if any(pipeline.gathers for pipeline in plan.pipelines):
        return None
    # Of a warpgroup beside the consumers one warp copies, and one may issue products.
    if shape.producer_warps == WARPS_PER_WARPGROUP:
        return shape
    warps = shape.consumer_warps + shape.producer_warps + 1
    if launched_registers(warps, shape.ctas, target) < shape.registers:
        return None
    return replace(shape, producer_warps=shape.producer_warps + 1)


def _can_store(func: aa.FuncOp, stores: Sequence[TmaWrite]) -> bool:
    """Whether the warp role can walk to the stores; not if that depends on what only the consumers
    compute, or on time.

    What the warp role loads for itself must be the same whenever it does: no write may be ordered
    before or after it.
    """
    kept = producer_slice(func, stores)
    if kept is None or producer_layouts(kept) is None:
        return False
    return not any(follows_write(load) or precedes_write(load) for load in kept.own_loads)
