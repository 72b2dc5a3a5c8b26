"""What remarks tell of a kernel whose warps have roles: these, and the stages of its pipelines."""

from __future__ import annotations

from tileiras.codegen.atoms.store_pieces import piece_bytes
from tileiras.codegen.atoms.wgmma import ROWS
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.memdesc import MemDescType, is_in_tmem
from tileiras.passes.nv_tileas.pipeline_stages import PASS_NAME, PlannedKernel, wanted_stages
from tileiras.remarks import RemarkCategory, RemarkCollector, RemarkKind, counted

WARP_THREADS = 32


def explain_pipelines(remarks: RemarkCollector, kernel: PlannedKernel) -> None:
    """One remark about roles; one more if pipelines are shorter than they should be."""
    _add(remarks, kernel, RemarkKind.PASSED, "Specialized", _roles(kernel), 1)
    own = kernel.own
    short = [
        f"{pipeline.op.stages.data} instead of {most} stages of {pipeline.op.stage_bytes.data} "
        "bytes"
        for pipeline, most in zip(own, wanted_stages(kernel), strict=True)
        if pipeline.op.stages.data < most
    ]
    if short:
        text = f"{'; '.join(short)}: a CTA has {kernel.available} bytes of shared memory"
        count = sum(pipeline.op.stages.data for pipeline in own)
        _add(remarks, kernel, RemarkKind.MISSED, "PipelineStages", text, count)


def _roles(kernel: PlannedKernel) -> str:
    """The roles and pipelines of a kernel."""
    plan, made = kernel.plan, [pipeline.op for pipeline in kernel.pipelines]
    stages = ((counted(op.stages.data, "stage"), op.stage_bytes.data) for op in made)
    pipelines = ", ".join(f"{count} of {size} bytes" for count, size in stages)
    for op in kernel.func.body.block.ops:
        if isinstance(op, ts.CreateStorePipelineOp):
            stage = op.pieces.data * piece_bytes(op.rows.data if op.rows else ROWS)
            count = counted(op.stages.data, "stage")
            pipelines += f"; for stores {count} of {stage} bytes a warpgroup"
    copying = max((op.gather_threads.data for op in made), default=0) // WARP_THREADS
    producer = f"{copying} gathering producer warps" if copying > 1 else "1 producer warp"
    if kernel.has_store_warp:
        producer += ", 1 store warp"
    sums = [op for op in kernel.func.body.block.ops if isinstance(op, tc.CreateAccumulatorOp)]
    if sums:
        columns = sum(op.stages.data * op.columns.data for op in sums)
        for op in kernel.func.body.block.ops:
            if not isinstance(op, tc.CreateLeftOperandOp) or op.stride is not None:
                continue
            type = op.result.type
            if isinstance(type, MemDescType) and is_in_tmem(type):
                columns += type.tmem_columns
        producer += f", 1 warp for products into {columns} columns of tensor memory"
    warpgroups = counted(plan.integer("warpgroups"), "consumer warpgroup")
    ctas = counted(plan.integer("ctas"), "CTA")
    return (
        f"{producer}, {warpgroups} of {plan.integer('registers')} registers, {ctas} per SM, "
        f"pipelines: {pipelines}"
    )


def _add(
    remarks: RemarkCollector,
    kernel: PlannedKernel,
    kind: RemarkKind,
    name: str,
    message: str,
    value: int,
) -> None:
    """Adds a remark about a kernel."""
    func = kernel.func
    remarks.add(
        remark_about(
            func,
            PASS_NAME,
            name,
            message,
            kind=kind,
            category=RemarkCategory.TENSOR_CORE,
            arguments=((name, str(value)),),
        )
    )
