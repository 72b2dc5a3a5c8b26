"""Whose first tiles the consumers fetch: they have nothing to do while tensor maps are made.

A kernel that makes one tile a block spends its first microseconds with claiming a slot for tensor
maps, filling them in, publishing them, and the first copies fetch them back. The consumers load the
first tiles of the loop by cp.async meanwhile, as many as the ring has slots; the producer goes on
behind them.

Only for large products: smaller ones read so much of L2 that it must answer several SMs at once,
and CTAs that start by themselves are not in step (cta_shape.py). On one H100, f16 without and with
it, us: 12288x4096x2560 128x256 384, 376; batched 4096x4096x2048 128x256 850, 818; 8192^3 128x128
1692, 1898; 64x256 1801, 2323; 1024^3 64x128 8.5, 9.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.tma_boxes import thread_rows
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.operands import contiguous_axis
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.plan import HopperPlan, Pipeline
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.sharing import Sharing

LEAST_ELEMENTS = 128 * 256
"""Of the results of the products in the loop."""


@dataclass(frozen=True)
class HeadStart:
    """The loop with the loads of a pipeline, in the order of their places in a slot."""

    loop: aa.ForOp
    pipeline: int
    loads: tuple[aa.TiledLoadOp, ...]


def head_start(func: aa.FuncOp, plan: HopperPlan, sharing: Sharing) -> HeadStart | None:
    """The ring that the consumers begin to fill; None where threads cannot, or it is not worth it.

    Its loop comes once in a tile block, and every index is the loop's own number or made before it.
    """
    if plan.stores or sharing.loads:
        return None
    for number, pipeline in enumerate(plan.pipelines):
        found = _of_pipeline(func, plan, number, pipeline)
        if found is not None:
            return found
    return None


def _of_pipeline(
    func: aa.FuncOp, plan: HopperPlan, number: int, pipeline: Pipeline
) -> HeadStart | None:
    loop = pipeline.loads[0].parent_op()
    if len(pipeline.fillings) != 1 or not pipeline.may_grow or not isinstance(loop, aa.ForOp):
        return None
    if loop.parent_op() is not func or loop.unsigned_cmp is not None:
        return None
    if loop.lower_bound.type != IntegerType(32):
        return None
    results = [p.rows * p.columns for p in plan.dots.values() if p.dot.parent_op() is loop]
    if sum(results) < LEAST_ELEMENTS:
        return None
    others = [ring for ring in plan.pipelines if ring is not pipeline]
    if any(load.parent_op() is loop for ring in others for load in ring.loads):
        return None
    loads: list[aa.TiledLoadOp] = []
    for load in pipeline.loads:
        if not isinstance(load, aa.TiledLoadOp) or not _is_simple(load, loop, plan):
            return None
        loads.append(load)
    return HeadStart(loop, number, tuple(loads))


def _is_simple(load: aa.TiledLoadOp, loop: aa.ForOp, plan: HopperPlan) -> bool:
    """Whether the threads of the consumers can copy the tile row by row."""
    axis = contiguous_axis(load)
    if axis is None or load.parent_op() is not loop:
        return False
    if thread_rows(view_type_of(load.view), axis, 32 * plan.shape.consumer_warps) is None:
        return False
    return all(is_number_of(index, loop) or _is_before(index, loop) for index in load.indices)


def is_number_of(value: SSAValue, loop: aa.ForOp) -> bool:
    """Whether a value is the number of the iteration."""
    return value is loop.body.block.args[0]


def _is_before(value: SSAValue, loop: aa.ForOp) -> bool:
    """Whether a value is made before the loop."""
    owner = value.owner
    if isinstance(owner, Operation):
        return not loop.is_ancestor(owner)
    return owner is not loop.body.block
