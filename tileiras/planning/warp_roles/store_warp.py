"""Whether a warp beside the producer stores, and what of the kernel it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.memory_order import follows_write, precedes_write
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.operands.tma_stores import TmaWrite, is_in_loop
from tileiras.planning.resources.cta import CtaConfig, launched_registers
from tileiras.planning.warp_roles.producer_layouts import ProducerLayouts, producer_layouts
from tileiras.planning.warp_roles.producer_slice import ProducerSlice, producer_slice


@dataclass(frozen=True)
class StoreSlice:
    """What the store warp does of the kernel, and where it holds tiles of indices."""

    kept: ProducerSlice
    layouts: ProducerLayouts


def with_store_warp(func: aa.FuncOp, plan: HopperPlan, target: GpuTarget) -> HopperPlan:
    """The plan with a store warp, if tiles of loops leave by TMA and a warp can walk these loops.

    Not where the wait for a store is to follow it at once: waiting later is what the warp role is
    for.
    """
    if not plan.are_stores_delayed or not any(is_in_loop(store) for store in plan.stores):
        return plan
    shape = _with_warp(plan, target)
    if shape is None or store_slice(func, plan.stores) is None:
        return plan
    return replace(plan, shape=shape, has_store_warp=True)


def _with_warp(plan: HopperPlan, target: GpuTarget) -> CtaConfig | None:
    """The shape with a warp for the warp role, None if that would cost the others registers."""
    shape = plan.shape
    if any(pipeline.gathers for pipeline in plan.pipelines):
        return None
    if shape.producer_warps > 1:
        return shape
    warps = shape.consumer_warps + shape.producer_warps + 1
    if launched_registers(warps, shape.ctas, target) < shape.registers:
        return None
    return replace(shape, producer_warps=shape.producer_warps + 1)


def store_slice(func: aa.FuncOp, stores: Sequence[TmaWrite]) -> StoreSlice | None:
    """The warp role's part; None where it depends on what only the consumers compute, or in time.

    What the warp role loads for itself must be the same whenever it does: no write may be ordered
    before or after it.
    """
    kept = producer_slice(func, stores)
    layouts = producer_layouts(kept) if kept is not None else None
    if kept is None or layouts is None:
        return None
    if any(follows_write(load) or precedes_write(load) for load in kept.own_loads):
        return None
    return StoreSlice(kept, layouts)
