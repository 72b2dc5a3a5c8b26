"""The pass `tileas-generate-schedule`: decides in which stage of a loop each operation runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target.features import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.schedule import loop_schedule
from tileiras.errors import UsageError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.operands.tma import root_load
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind, counted
from tileiras.suggestions import did_you_mean

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.schedule.prefetch import PrefetchPlan
    from tileiras.planning.schedule.prefetch_distance import LoadSchedule

SCHEDULERS = ("modulo", "serial")


@dataclass(frozen=True)
class GenerateSchedulePass(IrPass):
    """Writes at the operations of a loop in which stage they run, and when.

    `scheduler=modulo` (the default): products run beside the vector work of another iteration where
    a product's left operand is computed in the loop and the kernel will be specialised. Where none
    can be put off, each is issued as early as it may be, in one stage. Loops of kernels that will
    not be specialised get their loads prefetched. `scheduler=serial`: every
    operation of every `for` is in stage 0, in the order of the program.

    Before   for %i { %s = dot(%q, %k); %p = exp2(%s); %o2 = dot(%p, %v, %o) }
    After    for %i attributes {loop_schedule = <stages = 2, initiation_interval = 1024>} {
               %s = dot(%q, %k) {schedule = <stage = 0, order = 0, cycle = 0>}
               %p = exp2(%s) {schedule = <stage = 0, order = 2, cycle = 512>}
               %o2 = dot(%p, %v, %o) {schedule = <stage = 1, order = 1, cycle = 0>} }
    Requires nv_tileaa, with the strategies of kernels; a target with cp.async; for products wgmma
             and TMA
    Leaves   the program: nothing but attributes is written. Loops for which no schedule fits or
             pays get none; functions with a scheduled loop, or whose loads `tileas-expand-schedule`
             has put into circular buffers, are left alone
    """

    name = "tileas-generate-schedule"
    title: ClassVar[str] = "Generate schedules of loops"
    scheduler: str = "modulo"
    """`modulo` or `serial`."""

    def __post_init__(self) -> None:
        """Raises UsageError for a scheduler that does not exist."""
        if self.scheduler not in SCHEDULERS:
            raise UsageError(
                f"unknown scheduler '{self.scheduler}', expected one of {', '.join(SCHEDULERS)}",
                label=did_you_mean(self.scheduler, SCHEDULERS),
            )

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Schedules the loops of all functions."""
        target = ctx.require_target()
        has_wgmma = target.has(Feature.WGMMA) and target.has(Feature.TMA)
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            loops = [inner for inner in func.walk() if isinstance(inner, aa.ForOp)]
            if not loops or _is_scheduled(func, loops):
                continue
            if self.scheduler == "serial":
                _schedule_serially(func, target)
            elif not has_wgmma and _has_roles(ctx.remarks, self.name, func, target):
                continue
            elif not has_wgmma or not _schedule_products(ctx.remarks, func, target):
                _schedule_loads(ctx.remarks, func, target)


def _is_scheduled(func: aa.FuncOp, loops: list[aa.ForOp]) -> bool:
    """Whether schedules stand in the function, or have been expanded there."""
    if any(loop_schedule(loop) for loop in loops):
        return True
    return any(isinstance(op, aa.CircularBufferOp) for op in func.walk())


def _has_roles(
    remarks: RemarkCollector, pass_name: str, func: aa.FuncOp, target: GpuTarget
) -> bool:
    """Whether a kernel's loads will be those of a producer warp."""
    if not target.has(Feature.TMA) or not any(isinstance(op, aa.ProductOp) for op in func.walk()):
        return False
    from tileiras.planning.strategy import refusals_of, strategy_of

    if strategy_of(func, target) is not None:
        return True
    from tileiras.passes.nv_tileaa.explain_products import explain_operands, explain_refusals

    refusals = refusals_of(func)
    # Pipelined loads leave no trace of what there was to plan.
    explain_refusals(remarks, pass_name, func, refusals)
    explain_operands(remarks, pass_name, func, target, refusals)
    return False


def _schedule_serially(func: aa.FuncOp, target: GpuTarget) -> None:
    """Gives every loop the serial schedule."""
    from tileiras.planning.resources.warps import plan_cta
    from tileiras.planning.schedule.costs import TileCosts
    from tileiras.planning.schedule.serial import serial_schedule
    from tileiras.planning.schedule.written import write_serial

    costs = TileCosts(target.warp_size * plan_cta(func, target).num_warps, target)
    for loop in func.walk():
        if isinstance(loop, aa.ForOp):
            write_serial(loop, serial_schedule(loop, costs), costs)


def _schedule_products(remarks: RemarkCollector, func: aa.FuncOp, target: GpuTarget) -> bool:
    """Schedules loops of products; `tileas-expand-schedule` sees how many CTAs that leaves.

    Returns whether the kernel is one that will be specialised.
    """
    from tileiras.planning.schedule.overlap import overlap_products
    from tileiras.planning.schedule.written import write_overlaps
    from tileiras.planning.strategy import refusals_of, strategy_of

    dots = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    plan = strategy_of(func, target)
    if plan is None:
        from tileiras.passes.nv_tileaa.explain_products import explain_operands

        explain_operands(remarks, GenerateSchedulePass.name, func, target, refusals_of(func))
        return False
    if all(root_load(dot.lhs) is not None for dot in dots):
        return True
    loops = overlap_products(func, plan, target)
    if not write_overlaps(loops, plan.shape.ctas) and loops:
        from tileiras.passes.nv_tileaa.explain_overlap import no_overlap

        remarks.add(no_overlap(GenerateSchedulePass.name, func, "no schedule fits or pays"))
    return True


def _schedule_loads(remarks: RemarkCollector, func: aa.FuncOp, target: GpuTarget) -> None:
    """Prefetches the loads of loops, where that pays and fits."""
    from tileiras.planning.schedule.costs import TileCosts
    from tileiras.planning.schedule.prefetch import plan_prefetch
    from tileiras.planning.schedule.written import free_stages, write_prefetch

    plan = plan_prefetch(func, target)
    if plan is None:
        return
    if plan.loops:
        costs = TileCosts(target.warp_size * plan.num_warps, target)
        for loop, schedule in plan.loops:
            write_prefetch(loop, schedule, plan.resident, costs)
        if plan.frees_stages:
            free_stages(plan.loops[-1][0])
    if plan.candidates:
        _explain_loads(remarks, func, plan)


def _explain_loads(remarks: RemarkCollector, func: aa.FuncOp, plan: PrefetchPlan) -> None:
    """One remark for a kernel with loads that could go ahead."""
    schedules = [schedule for _, schedule in plan.loops]
    count = sum(len(schedule.loads) for schedule in schedules)
    if schedules:
        parts = [_explain_loop(schedule) for schedule in schedules]
        text = f"{count} of {plan.candidates} loads in loops are started early: {'; '.join(parts)}"
        if plan.resident is not None:
            text += f"; rows of up to {plan.resident.bytes} bytes are kept from loop to loop"
    else:
        text = "loads in loops are waited for where they stand: no schedule fits or pays"
    remarks.add(
        Remark(
            RemarkCategory.SCHEDULE,
            RemarkKind.PASSED if count else RemarkKind.MISSED,
            GenerateSchedulePass.name,
            "PipelinedLoads",
            text,
            func.sym_name.data,
            place_of(func),
            (("Loads", str(count)),),
        )
    )


def _explain_loop(schedule: LoadSchedule) -> str:
    """What is said of one loop."""
    count = len(schedule.loads)
    if schedule.unrolled:
        return f"{count} of {counted(schedule.unrolled, 'iteration')} at once, in registers"
    return (
        f"{count} by {counted(schedule.distance, 'iteration')} in {schedule.bytes} bytes of shared "
        f"memory"
        + (f", {schedule.interval} of {schedule.serial} cycles" if schedule.serial else "")
        + (", products read them there" if schedule.shared else "")
        + (", for more there is no room" if schedule.is_cut else "")
    )
