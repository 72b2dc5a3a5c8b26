"""The pass `tileas-expand-schedule`: rebuilds loops as their schedules say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import loop_schedule
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class ExpandSchedulePass(IrPass):
    """Expands scheduled loops into a prologue, the steady state and, where needed, an epilogue.

    Operations of a later stage run in a later interval than their iteration's first ones: values
    between stages are carried by the new loop, tiles of prefetched loads stand in shared memory.

    Before   for %i attributes {loop_schedule = <stages = 2>} {
               %s = dot(%q, %k) {schedule = <stage = 0, order = 0>}
               %p = exp2(%s) {schedule = <stage = 0, order = 2>}
               %o2 = dot(%p, %v, %o) {schedule = <stage = 1, order = 1>} }
    After    if lower < upper { the first %s and %p;
             for %i { %s = dot(%q, %k); %o2 = dot(%p_before, %v_before, %o); %p = exp2(%s) };
             the last %o2 }
    Requires nv_tileaa, schedules as `tileas-generate-schedule` writes them; a kernel that it
             changes loses its strategy
    Leaves   loops without a schedule alone; one of one stage is put into the order of its schedule
    """

    name = "tileas-expand-schedule"
    title: ClassVar[str] = "Expand schedules of loops"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Expands the loops of all functions that have scheduled ones."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            if any(isinstance(inner, aa.ForOp) and loop_schedule(inner) for inner in func.walk()):
                from tileiras.passes.nv_tileaa.schedule.expand import expand_schedules
                from tileiras.planning.strategy import drop_strategy

                if expand_schedules(func):
                    drop_strategy(func)
