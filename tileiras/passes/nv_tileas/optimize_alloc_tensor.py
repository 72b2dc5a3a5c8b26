"""The pass `tileas-optimize-alloc-tensor`: who has which bytes of shared memory.

Buffers of pipelined loads get their places, those of loops one after another the same. In kernels
whose warps have roles, what the consumers' program needs beside the pipelines is known once it is
written; the rest of the memory is for stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memory import AllocTensorOp
from tileiras.dialects.nv_tileas.plan import PLAN, KernelPlanAttr
from tileiras.errors import CompileError
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass


@dataclass(frozen=True)
class OptimizeAllocTensorPass(IrPass):
    """Gives buffers their places, and pipelines the stages that shared memory has room for.

    Before   func attributes {plan = #nv_tileas.kernel_plan<ctas = 1, scratch = 0, ...>}
             %p = create_pipeline {stages = 2, stage_bytes = 32768}
                 {plan = #nv_tileas.pipeline_plan}
    After    %p = create_pipeline {stages = 4, stage_bytes = 32768};  in the consumers' program
             free_pipelines %p behind the last that reads stages; stores go through an alloc_tensor
             of what is left, or through %p once it is free
             %b = alloc_tensor {stages = 3, offset = 24576} instead of one without a place
    Requires nv_tileas in which products are waited for; the plans of `tileas-plan-cta` beside the
             function and its pipelines, which are taken away
    Leaves   pipelines without a plan, which keep their stages
    """

    name = "tileas-optimize-alloc-tensor"
    title: ClassVar[str] = "Share shared memory out"

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Every buffer has its place."""
        for inner in op.walk():
            if _has_place(inner) and inner.offset is None:
                raise BrokenPromise("a buffer without a place", inner)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Does so in all functions whose warps have roles."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            buffers = [buffer for buffer in func.walk() if _has_place(buffer)]
            if buffers:
                from tileiras.passes.nv_tileas.place_buffers import place_buffers

                place_buffers(buffers)
            for switch in pl.switches_of(func):
                plan = _plan_of(func)
                if plan is None:
                    continue
                from tileiras.passes.nv_tileas.explain_pipelines import explain_pipelines
                from tileiras.passes.nv_tileas.pipeline_stages import PlannedKernel

                target = ctx.require_target()
                free_pipelines(switch.consumer.block)
                kernel = PlannedKernel.of(func, switch, plan, target)
                kernel.choose_stages()
                explain_pipelines(ctx.remarks, kernel)
                kernel.forget_plan()
            if not ctx.remarks.filter.is_empty:
                from tileiras.passes.nv_tileas.explain import explain_operations

                explain_operations(ctx.remarks, func, ctx.require_target())


def _has_place(op: Operation) -> TypeGuard[AllocTensorOp]:
    """Whether an operation allocates a buffer that shares its memory with others."""
    return isinstance(op, AllocTensorOp) and op.has_place


def _plan_of(func: aa.FuncOp) -> KernelPlanAttr | None:
    """The plan of a kernel with roles, None where its pipelines have their stages already."""
    plan = func.attributes.get(PLAN)
    if isinstance(plan, KernelPlanAttr) and plan.has("warpgroups"):
        return plan
    for op in func.body.block.ops:
        if isinstance(op, pl.CreatePipelineOp) and PLAN in op.attributes:
            raise CompileError(
                f"kernel '{func.sym_name.data}' is not planned, but its pipelines are: "
                f"{OptimizeAllocTensorPass.name} comes after tileas-plan-cta",
                place_of(op),
            )
    return None


def free_pipelines(body: Block) -> None:
    """Behind the last of the consumers' program that needs them, the stages are free memory."""
    last = None
    for op in body.ops:
        if any(isinstance(inner, wg.CONSUMER_OPS) for inner in op.walk()):
            last = op
    if last is not None:
        body.insert_op_after(pl.FreePipelinesOp.create(location=last.location), last)
