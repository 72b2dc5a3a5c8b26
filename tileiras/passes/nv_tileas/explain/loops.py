"""Loops: how often they run if that is known, and how their loads are waited for."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from tileiras.codegen.atoms.tcgen05 import allocated_columns
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout.tmem import TMEM_COLUMNS
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.passes.nv_tileas.explain.telling import Teller
from tileiras.planning.critical_sections import constant_scalar
from tileiras.remarks import RemarkCategory, RemarkKind, counted


def explain_stages(teller: Teller) -> None:
    """Notes what the remark about resources says of pipelines and tensor memory."""
    stages = [op.stages.data for op in teller.func.walk() if isinstance(op, pl.CreatePipelineOp)]
    if not stages:
        buffers = [op for op in teller.func.walk() if isinstance(op, tas.AllocTensorOp)]
        stages = [op.stages.data for op in buffers]
    if stages:
        teller.note("stages", max(stages))
    sums = [op for op in teller.func.walk() if isinstance(op, tc.CreateAccumulatorOp)]
    if sums:
        used = max(op.column.data + op.stages.data * op.columns.data for op in sums)
        teller.note("tensor_memory_columns", allocated_columns(min(used, TMEM_COLUMNS)))


def explain_loop(teller: Teller, op: Operation) -> None:
    """A remark if the operation is a loop; that it misses something if it waits for its loads."""
    if not isinstance(op, aa.ForOp | aa.LoopOp):
        return
    inner = list(_own(op))
    stages = [
        made.stages.data
        for wait in inner
        if isinstance(wait, pl.ConsumerWaitOp)
        and isinstance(made := wait.pipeline.owner, pl.CreatePipelineOp)
    ]
    reads = [
        made.stages.data
        for read in inner
        if isinstance(read, tas.ReadStageOp)
        and isinstance(made := read.buffer.owner, tas.AllocTensorOp)
    ]
    waited = sum(isinstance(load, tas.TiledLoadOp | tas.LoadOp) for load in inner)
    trips = _trips(op)
    often = counted(trips, "iteration") if trips is not None else "as often as the kernel is told"
    words = [often]
    if stages:
        words.append(f"tiles arrive through a pipeline of {max(stages)} stages, filled by a warp")
    if reads:
        ahead = max(reads) - 1
        words.append(f"{counted(len(reads), 'load')} started up to {ahead} iterations ahead")
    if waited:
        words.append(f"{counted(waited, 'load')} waited for where they stand")
    # A load of one element that computes addresses is no reason to complain.
    is_missed = waited and not (stages or reads)
    teller.tell(
        op,
        RemarkKind.MISSED if is_missed else RemarkKind.ANALYSIS,
        RemarkCategory.SCHEDULE,
        "Loop",
        f"loop: {'; '.join(words)}",
        Iterations=trips if trips is not None else "unknown",
        Stages=max(stages or reads, default=0),
        LoadsAhead=len(reads) + len(stages),
        LoadsWaitedFor=waited,
    )


def _own(loop: Operation) -> Iterator[Operation]:
    """The operations of a loop that are in no loop inside it."""
    for region in loop.regions:
        for block in region.blocks:
            for op in block.ops:
                yield op
                if not isinstance(op, aa.ForOp | aa.LoopOp):
                    yield from _own(op)


def _trips(loop: Operation) -> int | None:
    """How often a loop runs, None if its bounds are not constants."""
    if not isinstance(loop, aa.ForOp):
        return None
    bounds = [constant_scalar(value) for value in (loop.lower_bound, loop.upper_bound, loop.step)]
    if None in bounds:
        return None
    lower, upper, step = (bound or 0 for bound in bounds)
    return max(0, -(-(upper - lower) // step)) if step > 0 else None
