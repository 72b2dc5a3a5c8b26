"""Tiles that were copied to shared memory and are read there."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.rearranged import result_layout


@dataclass(frozen=True)
class SmemTile:
    """A tile in a stage: its first byte, and "offset" (elements) -> coordinates."""

    region: SSAValue
    layout: LinearLayout

    def seen_through(self, op: Operation) -> SmemTile:
        """As the result of a reshape or permutation."""
        return SmemTile(self.region, result_layout(op, self.layout))
