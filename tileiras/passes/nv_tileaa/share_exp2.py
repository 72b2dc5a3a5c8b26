"""The pass `tileas-share-exp2`: FMA units compute powers of 2 where special functions are slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.errors import UsageError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import EXP2_ON_FMA
from tileiras.planning.layouts.written import kernel_plan
from tileiras.remarks import Remark


@dataclass(frozen=True)
class ShareExp2Pass(IrPass):
    """Lets FMA units compute some powers of 2 of loops that special functions hold up.

    An SM computes 16 powers in a cycle and 128 multiply-adds. In attention with short heads on
    sm_100 the former takes longer than products do (`planning/schedule/exp2_share`).

    Before   for { %s = dot %q, %k {mma = tcgen05};  %p = exp2 %s {flush_to_zero} }
    After    for { ...  %p = exp2 %s {flush_to_zero, fma_share = #nv_tileaa.fma_share<pairs = 2,
             of = 8>} }
    Requires products that run beside their loop (wgmma, tcgen05), said by `mma` beside them
    Leaves   loops that another unit holds up; powers that keep subnormal results; tiles of less
             than 16 elements a thread. The environment variable TILEIR_EXP2_ON_FMA says how many
             eighths instead, 0 to 8
    """

    name = "tileas-share-exp2"
    title: ClassVar[str] = "Share powers of 2"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all loops with products."""
        target = ctx.require_target()
        forced = _forced(ctx.options.knobs.get(EXP2_ON_FMA, ""))
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            if not any(isinstance(inner, aa.ProductOp) for inner in func.walk()):
                continue
            if not any(isinstance(inner, aa.Exp2Op) for inner in func.walk()):
                continue
            eighths = _share(func, target, forced)
            if eighths:
                ctx.remarks.add(_remark(func, eighths))


def _forced(knob: str) -> int | None:
    """The eighths that the environment asks for, if any."""
    if not knob:
        return None
    from tileiras.planning.schedule.exp2_share import OF

    if knob.isdecimal() and int(knob) <= OF:
        return int(knob)
    raise UsageError(f"{EXP2_ON_FMA} is '{knob}', expected a number from 0 to {OF}")


def _share(func: aa.FuncOp, target: GpuTarget, forced: int | None) -> int:
    """Shares the powers of all loops of a kernel; the largest share of one."""
    from tileiras.planning.schedule.exp2_share import OF, fma_share, loop_work

    plan = kernel_plan(func, ShareExp2Pass.name)
    threads, most = target.warp_size * plan.integer("num_warps"), 0
    for loop in [inner for inner in func.walk() if isinstance(inner, aa.ForOp)]:
        work = loop_work(loop, target, threads)
        if work is None:
            continue
        eighths = fma_share(work, target) if forced is None else forced
        if not eighths:
            continue
        for power in work.powers:
            power.fma_share = aa.FmaShareAttr.of(pairs=eighths, of=OF)
            most = max(most, eighths)
    return most


def _remark(func: aa.FuncOp, eighths: int) -> Remark:
    return remark_about(
        func,
        ShareExp2Pass.name,
        "PowersOnFma",
        f"{eighths} of 8 powers of 2 are computed on FMA units",
    )
