"""Barriers between accesses of one tile block that tokens order."""

from __future__ import annotations

from tileiras.analysis.memory_hazards import find_hazards
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas


def insert_barriers(func: aa.FuncOp) -> None:
    """Puts a barrier before every operation that the hazard analysis names."""
    hazards = find_hazards(func)
    for op in hazards.before:
        block = op.parent_block()
        if block is not None:
            block.insert_op_before(tas.BarrierOp.create(location=op.location), op)
