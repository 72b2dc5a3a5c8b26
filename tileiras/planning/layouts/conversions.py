"""How a tile goes from one layout to another, as an attribute (`dialects/nv_tileas/ways.py`)."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import IntAttr

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.plans import Identity, RegisterPermutation, SharedMemory, WarpShuffle
from tileiras.dialects.layout.staging import plan_staging
from tileiras.dialects.nv_tileas.assigned import layout_attribute
from tileiras.dialects.nv_tileas.ways import InRegistersAttr, ThroughSmemAttr, WayAttr, shuffles

IN_REGISTERS = InRegistersAttr()


@lru_cache(maxsize=1024)
def way_between(source: LinearLayout, target: LinearLayout, element_bits: int) -> WayAttr:
    """The cheapest way; elements have `element_bits` in registers."""
    plan = plan_conversion(source, target, element_bits)
    match plan:
        case Identity() | RegisterPermutation():
            return IN_REGISTERS
        case WarpShuffle():
            return shuffles(plan)
        case SharedMemory():
            return _through_smem(plan)


def way_through_smem(
    source: LinearLayout, target: LinearLayout, element_bits: int
) -> ThroughSmemAttr:
    """The way through shared memory: also where only some threads have what `source` says."""
    return _through_smem(plan_staging(source, target, element_bits))


def _through_smem(plan: SharedMemory) -> ThroughSmemAttr:
    return ThroughSmemAttr(
        IntAttr(plan.store_vector), IntAttr(plan.load_vector), layout_attribute(plan.shared)
    )
