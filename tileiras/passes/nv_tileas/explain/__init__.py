"""What remarks tell of single operations: which instruction computes each, at which line, and why.

All of it is read off the program as it stands before it becomes instructions: types, layouts and
attributes that passes left. Nothing here is imported unless remarks are asked for.
"""

from __future__ import annotations

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.passes.nv_tileas.explain.computing import explain_computing, note_tile
from tileiras.passes.nv_tileas.explain.loads import explain_load
from tileiras.passes.nv_tileas.explain.loops import explain_loop, explain_stages
from tileiras.passes.nv_tileas.explain.products import explain_product
from tileiras.passes.nv_tileas.explain.stores import explain_store
from tileiras.passes.nv_tileas.explain.telling import Teller
from tileiras.remarks import RemarkCollector


def explain_operations(remarks: RemarkCollector, func: aa.FuncOp, target: GpuTarget) -> None:
    """A remark or more for every load, store, product, reduction and loop of a kernel.

    Copies of an operation, as loops that overlap iterations have them, are told of once. Loops of
    warps that only copy are left out: they follow those of the warps that compute.
    """
    teller = Teller(remarks, func, target)
    explain_stages(teller)
    copying = {
        op
        for switch in pl.switches_of(func)
        for region in (switch.producer, switch.store)
        if region is not None
        for op in region.walk()
    }
    for op in func.walk():
        explain_load(teller, op)
        explain_store(teller, op)
        explain_product(teller, op)
        explain_computing(teller, op)
        if op not in copying:
            explain_loop(teller, op)
            note_tile(teller, op)
