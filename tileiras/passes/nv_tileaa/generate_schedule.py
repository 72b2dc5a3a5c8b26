"""The pass `generate-schedule`: iterations of loops overlap, by products or by early loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target.features import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.operands.tma import root_load
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import HopperPlan
    from tileiras.planning.schedule.overlap import Schedule

RESERVED_REGISTERS = 44
"""Registers of a thread for addresses, barriers, scalars and what is between two operations."""


@dataclass(frozen=True)
class GenerateSchedulePass(IrPass):
    """Rotates loops so that products run beside the vector work of another iteration.

    Kernels that will not be specialised get their loads started early (`pipeline_loads`).

    Before   for %i { %s = dot(%q, %k); %p = exp2(%s); %o2 = dot(%p, %v, %o) }
    After    if lower < upper { the first %s and %p;
             for %i { %s = dot(%q, %k); %o2 = dot(%p_before, %v_before, %o); %p = exp2(%s) };
             the last %o2 }
    Requires nv_tileaa, a target with cp.async; for rotation wgmma and TMA
    Leaves   of specialised kernels, loops without a product whose left operand is computed in the
             loop, and loops whose tiles would not fit into registers; loads for which no schedule
             fits or pays
    """

    name = "generate-schedule"
    title: ClassVar[str] = "Generate schedules of loops with products"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Schedules the loops of all functions that will be specialised."""
        target = ctx.require_target()
        has_wgmma = target.has(Feature.WGMMA) and target.has(Feature.TMA)
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp):
                continue
            if not any(isinstance(inner, aa.ForOp) for inner in func.walk()):
                continue
            if not has_wgmma and _has_roles(func, target):
                continue
            if not has_wgmma or not _schedule_products(ctx, op, func, target):
                from tileiras.passes.nv_tileaa.pipeline_loads import pipeline_loads

                pipeline_loads(ctx.remarks, func, target)


def _has_roles(func: aa.FuncOp, target: GpuTarget) -> bool:
    """Whether a kernel's loads will be those of a producer warp."""
    if not target.has(Feature.TMA) or not any(isinstance(op, aa.DotOp) for op in func.walk()):
        return False
    from tileiras.planning.warp_roles.plan import plan_hopper

    return plan_hopper(func, target) is not None


def _schedule_products(
    ctx: CompileContext, module: ModuleOp, func: aa.FuncOp, target: GpuTarget
) -> bool:
    """Puts the scheduled function in the place of this one, if it can still be specialised.

    Returns whether the kernel is one that will be specialised.
    """
    from tileiras.planning.warp_roles.plan import plan_hopper

    dots = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    if not dots:
        return False
    if all(root_load(dot.lhs) is not None for dot in dots):
        return plan_hopper(func, target) is not None
    changed = func.clone()
    plan = plan_hopper(changed, target)
    if plan is None:
        return False
    schedules = _schedule_loops(changed, plan)
    found = [schedule for schedule in schedules if schedule is not None]
    after = plan_hopper(changed, target) if found else None
    # CTAs that share an SM overlap by themselves, and more than a rotated loop does.
    if after is not None and after.shape.ctas >= plan.shape.ctas:
        module.body.block.insert_op_before(changed, func)
        func.detach()
    else:
        found = []
    if schedules:
        _explain(ctx.remarks, func, found)
    return True


def _schedule_loops(func: aa.FuncOp, plan: HopperPlan) -> list[Schedule | None]:
    """Rotates every loop that gains by it."""
    from tileiras.passes.nv_tileaa.schedule.rotate import is_rotatable, rotate
    from tileiras.planning.schedule.costs import TileCosts
    from tileiras.planning.schedule.loop_body import LoopBody, Product
    from tileiras.planning.schedule.overlap import overlapped

    registers = plan.shape.registers - RESERVED_REGISTERS
    found: list[Schedule | None] = []
    for loop in [op for op in func.walk() if isinstance(op, aa.ForOp)]:
        here = [p for p in plan.dots.values() if p.dot.parent_op() is loop]
        if all(planned.lhs is not None for planned in here) or not is_rotatable(loop):
            continue
        # What threads read or add themselves is finished where it is issued.
        if any(planned.is_promoted or planned.fragments is not None for planned in here):
            continue
        # Products that share a slot stay together.
        if any(len(plan.sharing(planned)) > 1 for planned in here):
            continue
        products = [
            Product(
                planned.dot,
                tuple(
                    operand.load
                    for operand in (planned.lhs, planned.rhs)
                    if operand is not None and operand.load.parent_op() is loop
                ),
                planned.lhs is None,
            )
            for planned in here
        ]
        body = LoopBody(loop, products, TileCosts(128 * plan.warpgroups))
        schedule = overlapped(body, registers)
        if schedule is not None:
            rotate(body, schedule)
        found.append(schedule)
    return found


def _explain(remarks: RemarkCollector, func: aa.FuncOp, schedules: list[Schedule]) -> None:
    """One remark for a kernel that has loops to schedule."""
    if schedules:
        parts = [f"{s.interval} of {s.serial} cycles, {s.registers} registers" for s in schedules]
        text = f"products run beside the iteration after theirs: {'; '.join(parts)}"
    else:
        text = "products are waited for in their own iteration: no schedule fits or pays"
    remarks.add(
        Remark(
            RemarkCategory.SCHEDULE,
            RemarkKind.PASSED if schedules else RemarkKind.MISSED,
            GenerateSchedulePass.name,
            "Overlap",
            text,
            func.sym_name.data,
            place_of(func),
            (("Loops", str(len(schedules))),),
        )
    )
