"""How many warps a tile block gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa

if TYPE_CHECKING:
    from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan

ELEMENTS_PER_WARP = 256
"""A warp per so many elements, up to four: 8 a thread, two 16-byte accesses of f32."""
EIGHT_WARPS_FROM = 16384
SIXTEEN_WARPS_FROM = 65536
"""Larger tiles get more warps, so that a tile of f32 takes at most 128 registers of a thread."""


@dataclass(frozen=True)
class CtaPlan:
    """What is decided for a whole kernel: warps of a tile block, and the target."""

    num_warps: int
    target: GpuTarget
    hopper: HopperPlan | None = None
    """How the kernel is specialised, None for a kernel whose warps all do the same."""

    @property
    def num_threads(self) -> int:
        """Threads of a tile block."""
        return 32 * self.num_warps


def plan_cta(func: aa.FuncOp, target: GpuTarget) -> CtaPlan:
    """Warps by the largest tile, or as the hint `num_worker_warps_per_cta` asks."""
    asked = _hint(func, "num_worker_warps_per_cta")
    if asked is not None and 1 <= asked <= 32 and asked & (asked - 1) == 0:
        return CtaPlan(asked, target)
    largest = 1
    for op in func.walk():
        for result in op.results:
            if isinstance(result.type, TensorType):
                count = 1
                for dim in result.type.get_shape():
                    count *= dim
                largest = max(largest, count)
    if largest >= SIXTEEN_WARPS_FROM:
        return CtaPlan(16, target)
    if largest >= EIGHT_WARPS_FROM:
        return CtaPlan(8, target)
    warps = 1
    while warps < 4 and warps * ELEMENTS_PER_WARP < largest:
        warps *= 2
    return CtaPlan(warps, target)


def _hint(func: aa.FuncOp, key: str) -> int | None:
    """An integer hint of the kernel."""
    hints = func.hints
    value = hints.data.get(key) if isinstance(hints, DictionaryAttr) else None
    return value.value.data if isinstance(value, IntegerAttr) else None
