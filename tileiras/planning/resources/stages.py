"""How many slots rings would get, as far as that is known before consumers are placed."""

from __future__ import annotations

from dataclasses import replace

from tileiras.codegen.target import GpuTarget
from tileiras.planning.hints import USUAL_LATENCY_HINT, latency_hint
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.resources.cta import FIXED_BYTES, LEAST_SCRATCH, ring_stages, shared_bytes
from tileiras.planning.resources.requirements import ring_demands

UNLIMITED_BYTES = 2**31
"""Policy: more than all rings could use."""


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


def wanted_stages(plan: HopperPlan, is_shared: bool) -> tuple[int, ...]:
    """The slots that rings with memory of their own would get if an SM had more shared memory.

    `is_shared`: CTAs of a cluster fill them together.
    """
    demands = ring_demands(plan.pipelines, list(plan.dots.values()))
    rings = [replace(ring, is_shared=is_shared) for ring in demands]
    return ring_stages(rings, UNLIMITED_BYTES) or ()
