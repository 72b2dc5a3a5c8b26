"""Acts on the schedules of a function: prologue, steady state and epilogue of every loop."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import loop_schedule, prefetch_of
from tileiras.passes.nv_tileaa.schedule.pipeline_loads import pipeline_loads
from tileiras.passes.nv_tileaa.schedule.reorder import reorder
from tileiras.passes.nv_tileaa.schedule.rotate import rotate
from tileiras.passes.nv_tileaa.schedule.unroll import unroll


def expand_schedules(func: aa.FuncOp) -> bool:
    """Expands the scheduled loops, outer ones first, and takes the schedules away.

    False if that is all: every loop runs its iterations one after another.

    Raises BytecodeError for a schedule that cannot be run.
    """
    buffers: dict[int, SSAValue] = {}
    waits: list[aa.AsyncWaitGroupOp] = []
    has_changed = False
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp) and loop_schedule(op)]
    for loop in loops:
        schedule = loop_schedule(loop)
        if any(prefetch_of(op) for op in loop.body.block.ops):
            waits.append(pipeline_loads(loop, buffers))
            has_changed = True
        elif schedule is not None and schedule.integer("stages") > 1:
            rotate(loop)
            has_changed = True
        elif schedule is not None and schedule.has("unrolled"):
            unroll(loop, schedule.integer("unrolled"))
            has_changed = True
        else:
            has_changed |= reorder(loop)
    # The next loop has the same memory, and threads read what others have copied to it.
    if any(wait.meet is not None or wait.frees is not None for wait in waits):
        for op in func.walk():
            if isinstance(op, aa.AsyncWaitGroupOp):
                op.properties["meet"] = UnitAttr()
    return has_changed
