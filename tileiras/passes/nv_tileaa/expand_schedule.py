"""The pass `tileas-expand-schedule`: rebuilds loops as their schedules say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import LoopScheduleAttr, erase_schedule, loop_schedule
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import put_in_place


@dataclass(frozen=True)
class ExpandSchedulePass(IrPass):
    """Expands scheduled loops into a prologue, the steady state and, where needed, an epilogue.

    Operations of a later stage run in a later interval than their iteration's first ones: values
    between stages are carried by the new loop, tiles of prefetched loads stand in shared memory.

    A schedule that says how many `ctas` have to share an SM is acted on in a copy of the kernel,
    which takes the kernel's place, with its strategy, if so many do. Otherwise the schedule is
    given up.

    Before   for %i attributes {loop_schedule = <stages = 2>} {
               %s = dot(%q, %k) {schedule = <stage = 0, order = 0>}
               %p = exp2(%s) {schedule = <stage = 0, order = 2>}
               %o2 = dot(%p, %v, %o) {schedule = <stage = 1, order = 1>} }
    After    if lower < upper { the first %s and %p;
             for %i { %s = dot(%q, %k); %o2 = dot(%p_before, %v_before, %o); %p = exp2(%s) };
             the last %o2 }
    Requires nv_tileaa, schedules as `tileas-generate-schedule` writes them; a kernel that it
             changes at once loses its strategy
    Leaves   loops without a schedule alone; one of one stage is put into the order of its schedule
    """

    name = "tileas-expand-schedule"
    title: ClassVar[str] = "Expand schedules of loops"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Expands the loops of all functions that have scheduled ones."""
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp):
                continue
            schedules = [schedule for _, schedule in _scheduled(func)]
            if any(schedule.has("ctas") for schedule in schedules):
                _expand_if_it_pays(func, schedules, ctx)
            elif schedules:
                from tileiras.passes.nv_tileaa.schedule.expand import expand_schedules
                from tileiras.planning.strategy import drop_strategy

                if expand_schedules(func):
                    drop_strategy(func)


def _scheduled(func: aa.FuncOp) -> list[tuple[aa.ForOp, LoopScheduleAttr]]:
    """The loops of a kernel that have schedules."""
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    found = ((loop, loop_schedule(loop)) for loop in loops)
    return [(loop, schedule) for loop, schedule in found if schedule is not None]


def _expand_if_it_pays(
    func: aa.FuncOp, schedules: list[LoopScheduleAttr], ctx: CompileContext
) -> None:
    """Puts the kernel with expanded loops in its place, if enough of its CTAs share an SM."""
    from tileiras.passes.nv_tileaa.explain_overlap import no_overlap, overlap
    from tileiras.passes.nv_tileaa.schedule.expand import expand_schedules
    from tileiras.planning.strategy import without_strategy, would_specialise

    name, wanted = ExpandSchedulePass.name, max(schedule.integer("ctas") for schedule in schedules)
    expanded = without_strategy(func)
    if expand_schedules(expanded):
        plan = would_specialise(expanded, ctx.require_target())
        ctas = plan.shape.ctas if plan is not None else 0
        if ctas < wanted:
            ctx.remarks.add(no_overlap(name, func, f"{ctas} of {wanted} CTAs would share an SM"))
            _erase_schedules(func)
            return
        put_in_place(expanded, func)
    else:
        expand_schedules(func)  # nothing moves: the program is the same, and its plan stands
    ctx.remarks.add(overlap(name, expanded, schedules))


def _erase_schedules(func: aa.FuncOp) -> None:
    for loop, _ in _scheduled(func):
        erase_schedule(loop)
