"""Whose first tiles the consumers fetch: they have nothing to do while tensor maps are made.

A kernel that makes one tile a block spends its first microseconds with claiming a slot for tensor
maps, filling them in, publishing them, and the first copies fetch them back. The consumers load the
first tiles of the loop by cp.async meanwhile, as many as the pipeline has stages; the producer goes
on behind them.

Attention starts in the same way, with the first tile of every operand of its first product, where
a CTA has the SM to itself: the client's decoding of 64x256 tiles 17.8, 17.2; full 128x64 960, 925;
causal D = 64 128x128 673, 622; causal D = 128 128x128 440, 434, 128x64 491, 500; two CTAs lose
(64x64 1003, 1062).

On one H100, f16 without and with it, us: 12288x4096x2560 128x256 384, 376; batched 4096x4096x2048
128x256 850, 818; 8192^3 64x256 1901, 1855; 12288x4096x2560 128x128 449, 432; 1024^3 64x128 8.5,
7.3. Operands that threads read into registers lose where the product is small: tf32 8192^3 128x128
3652, 3774.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.tma_boxes import CHUNK_BYTES, thread_rows
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.nesting import comes_before, op_block
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.planning.clusters import Multicast
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.pipelines import Pipeline
from tileiras.planning.operands.tma import contiguous_axis, has_renewed_map, is_by_tma
from tileiras.planning.operands.uniform import uniform_loads_of
from tileiras.planning.warp_roles.producer_slice import ProducerSlice

LEAST_ELEMENTS = 128 * 256
"""Policy: of the results of the products in the loop, if threads read their operands."""


@dataclass(frozen=True)
class PrologueFill:
    """Stages of a pipeline that the consumers fill, with `loads` in the order of their places.

    They do so before `before`: the loop whose first iterations the stages are for, or what comes
    once and has the loads in it: a branch, a load itself. `stages` are so many of the first ones,
    None for all that the pipeline has. `by_bytes` copies take more instructions and fewer
    predicates: where the loop's registers are scarce, ptxas spills its bound otherwise. `hurried`
    ones start a kernel whose first cycles count (decision 0018); partial sums leave no registers
    for that. Those `at_start` come where the loop over tiles in front of theirs runs no iteration:
    its stages lie in the same memory. Those of a `first_tile` are for the first iteration of the
    loop over tiles around theirs. Those before a branch come `if_taken` where its stages get
    tiles of loops outside of it, too: threads would write zeros where it is not, beside the tile
    for a later loop. Where none comes they may: a condition costs full attention of 128x64 5 %
    (921, 966 us on one H100).
    """

    before: Operation
    pipeline: int
    loads: tuple[aa.TiledLoadOp, ...]
    stages: int | None = None
    by_bytes: bool = False
    hurried: bool = False
    if_taken: bool = False
    at_start: bool = False
    first_tile: bool = False


def prologue_fills(
    func: aa.FuncOp, plan: RolePlan, multicast: Multicast, kept: ProducerSlice
) -> tuple[PrologueFill, ...]:
    """The pipelines that the consumers begin to fill; none where threads cannot, or do not gain by
    it.

    What they copy comes once in a tile block, and every index is the number of an iteration or
    made before. The producer passes over iterations: it must not compute anything in them.
    """
    found = _wanted(func, plan, multicast)
    loops = [start.before for start in found if isinstance(start.before, aa.ForOp)]
    carried = (value for loop in loops for value in (*loop.body.block.args[1:], *loop.results))
    if any(map(kept.carries, carried)):
        return ()
    return tuple(replace(start, if_taken=serves_others(start, found, plan)) for start in found)


def serves_others(start: PrologueFill, fills: Sequence[PrologueFill], plan: RolePlan) -> bool:
    """Whether a branch, whose first tiles some fills bring, shares stages with loops outside."""
    branch = start.before
    if not isinstance(branch, aa.IfOp):
        return False
    beside = [plan.pipelines[other.pipeline] for other in fills if other.before is branch]
    return not all(branch.is_ancestor(load) for pipeline in beside for load in pipeline.loads)


def _wanted(func: aa.FuncOp, plan: RolePlan, multicast: Multicast) -> tuple[PrologueFill, ...]:
    """The pipelines whose first tiles threads would copy."""
    if multicast.loads or plan.is_in_tmem:
        return ()
    if plan.stores or func.static_tile_scheduler is not None:
        if plan.stores and not plan.has_store_warp:
            return ()
        return _of_last_tile(func, plan) or _of_first_tile(func, plan)
    for number, pipeline in enumerate(plan.pipelines):
        if pipeline.within is None and (found := _of_memory(func, plan, number)):
            return found
    if any(planned.lhs is None for planned in plan.dots.values()) and plan.shape.ctas == 1:
        return _of_first_product(func, plan)
    return ()


def _of_first_product(func: aa.FuncOp, plan: RolePlan) -> tuple[PrologueFill, ...]:
    """One stage of each pipeline that the first product reads, and of those its loop fills with
    them.
    """
    first = next(iter(plan.dots.values()))
    before = _outermost(first.dot, func)
    if first.lhs is None or before is None:
        return ()
    numbers = [plan.pipeline_of(operand.load) for operand in (first.lhs, first.rhs)]
    if isinstance(before, aa.ForOp):
        if first.dot.parent_op() is not before or not _counts_up(before):
            return ()
        pipelines = plan.pipelines
        numbers += [i for i, pipeline in enumerate(pipelines) if _is_filled_in(pipeline, before)]
    starts = [_one_stage(plan, number, before) for number in dict.fromkeys(numbers)]
    return tuple(start for start in starts if start) if all(starts) else ()


def _is_filled_in(pipeline: Pipeline, loop: aa.ForOp) -> bool:
    """Whether a pipeline gets tiles in a loop."""
    return any(loop.is_ancestor(load) for load in pipeline.loads)


def _one_stage(plan: RolePlan, number: int | None, user: Operation) -> PrologueFill | None:
    """The first stage of a pipeline, filled before the operation or, where that is outside, at its
    load.

    In a loop all loads of the pipeline are those of the stage.
    """
    if number is None:
        return None
    pipeline = plan.pipelines[number]
    loads = tuple(load for load in pipeline.contents[0] if isinstance(load, aa.TiledLoadOp))
    if len(loads) != len(pipeline.contents[0]):
        return None
    parents = {load.parent_op() for load in loads}
    outside = [load for load in loads if not user.is_ancestor(load)]
    if len(parents) != 1 or (outside and len(loads) > 1):
        return None
    before = outside[0] if outside else user
    if isinstance(before, aa.ForOp):
        if len(pipeline.contents) > 1 or parents != {before}:
            return None
        simple = all(_is_simple(load, before, plan) for load in loads)
    else:
        simple = all(_comes_once(load, before) and _is_copied(load, plan) for load in loads)
    return PrologueFill(before, number, loads, 1) if simple else None


def _comes_once(load: aa.TiledLoadOp, before: Operation) -> bool:
    """Whether a load is the operation or stands where its condition holds, indices made before."""
    is_taken = isinstance(before, aa.IfOp) and load.parent_block() is before.then_region.first_block
    if load is not before and not is_taken:
        return False
    return all(_is_before(index, before) for index in load.indices)


def _outermost(op: Operation, func: aa.FuncOp) -> Operation | None:
    """The operation of the function's body that a product is, or the loop or branch it is in."""
    outer: Operation | None = op
    while outer is not None and outer.parent_op() is not func:
        outer = outer.parent_op()
    return outer if outer is op or isinstance(outer, aa.ForOp | aa.IfOp) else None


def _counts_up(loop: aa.ForOp) -> bool:
    """Whether the threads can count the iterations of a loop."""
    return loop.unsigned_cmp is None and loop.lower_bound.type == IntegerType(32)


def _of_memory(func: aa.FuncOp, plan: RolePlan, first: int) -> tuple[PrologueFill, ...]:
    """The prologue fill of a loop's pipeline, or of pipelines that share memory: one is used."""
    pipelines = [
        (number, pipeline)
        for number, pipeline in enumerate(plan.pipelines)
        if number == first or pipeline.within == first
    ]
    loops = [pipeline.loads[0].parent_op() for _, pipeline in pipelines]
    if not _one_runs(loops, func):
        return ()
    # What clusters for locks have beside them on an SM are CTAs that leave at once.
    if plan.shape.ctas > 1 and func.cluster_axis is None:
        return ()
    starts = [_of_loop(plan, number, pipeline) for number, pipeline in pipelines]
    found = tuple(start for start in starts if start is not None)
    return found if len(found) == len(starts) else ()


def _of_last_tile(func: aa.FuncOp, plan: RolePlan) -> tuple[PrologueFill, ...]:
    """The prologue fill of the loop for a tile behind those that a loop over tiles computes.

    It starts a kernel in whose small grid there is no more for a tile block to do.
    """
    for number, pipeline in enumerate(plan.pipelines):
        loop = pipeline.loads[0].parent_op()
        is_shared = pipeline.within is not None or func.static_tile_scheduler is not None
        if not is_shared or not isinstance(loop, aa.ForOp) or loop.parent_op() is not func:
            continue
        start, tiles = _of_loop(plan, number, pipeline), loop_over_tiles(loop)
        if start is None or tiles is None:
            continue
        indices = [index for load in start.loads for index in load.indices]
        needed = [loop.lower_bound, loop.upper_bound, loop.step]
        needed += [index for index in indices if not is_number_of(index, loop)]
        if all(_is_made_before(value, tiles) for value in needed):
            return (replace(start, at_start=True),)
    return ()


def _of_first_tile(func: aa.FuncOp, plan: RolePlan) -> tuple[PrologueFill, ...]:
    """The prologue fill of the first iteration of a loop over tiles, around the loop of a product.

    Where its tiles lie follows from the number of the tile in most kernels, so that consumers
    compute it before the loop; else the fill stands in the loop, and is passed over later.
    """
    if len(plan.pipelines) != 1 or uniform_loads_of(plan.pipelines):
        return ()
    loop = plan.pipelines[0].loads[0].parent_op()
    if not isinstance(loop, aa.ForOp) or tiles_around(loop) is None:
        return ()
    start = _of_loop(plan, 0, plan.pipelines[0])
    if start is None or not start.hurried or any(map(has_renewed_map, start.loads)):
        return ()
    return (replace(start, first_tile=True),)


def tiles_around(loop: Operation) -> aa.ForOp | None:
    """The loop over tiles in whose body a loop stands, or in a branch of that."""
    tiles = loop.parent_op()
    while isinstance(tiles, aa.IfOp):
        tiles = tiles.parent_op()
    is_outermost = isinstance(tiles, aa.ForOp) and isinstance(tiles.parent_op(), aa.FuncOp)
    return tiles if isinstance(tiles, aa.ForOp) and is_outermost else None


def first_tile_scalars(start: PrologueFill) -> list[Operation] | None:
    """What computes, in a loop over tiles, where a tile's operands lie; in its order.

    None if that is not computed from the number of the tile alone.
    """
    loop, tiles = start.before, start.before.parent_op()
    if not isinstance(loop, aa.ForOp) or not isinstance(tiles, aa.ForOp):
        return None
    wanted = [loop.lower_bound, loop.upper_bound, loop.step]
    wanted += [i for load in start.loads for i in load.indices if not is_number_of(i, loop)]
    body, found = tiles.body.block, dict[Operation, None]()
    while wanted:
        value = wanted.pop()
        owner = value.owner
        if not isinstance(owner, Operation):
            if owner is body and not is_number_of(value, tiles):
                return None
            continue
        if owner in found or owner.parent_block() is not body:
            continue
        if not isinstance(owner, ElementwiseOp | aa.ConstantOp) or _has_tensors(owner):
            return None
        found[owner] = None
        wanted += owner.operands
    return [op for op in body.ops if op in found]


def _has_tensors(op: Operation) -> bool:
    """Whether an operation computes tiles, not scalars."""
    return any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))


def _is_made_before(value: SSAValue, op: Operation) -> bool:
    """Whether a value is an argument of the kernel, or made by an operation that comes before."""
    owner = value.owner
    if isinstance(owner, Operation):
        return comes_before(owner, op)
    return isinstance(owner.parent_op(), aa.FuncOp)


def loop_over_tiles(loop: aa.ForOp) -> aa.ForOp | None:
    """The loop over tiles in front of one that computes a last tile, if there is one."""
    found: aa.ForOp | None = None
    for op in op_block(loop).ops:
        if op is loop:
            return found
        if isinstance(op, aa.ForOp) and any(isinstance(inner, aa.DotOp) for inner in op.walk()):
            found = op
    return None


def _one_runs(loops: Sequence[Operation | None], func: aa.FuncOp) -> bool:
    """Whether the kernel has one of these loops, or one in each side of a branch, once."""
    branches = {loop.parent_op() for loop in loops if isinstance(loop, aa.ForOp)}
    branch = next(iter(branches), None)
    if len(loops) == 1:
        return branch is func
    if len(branches) > 1 or not isinstance(branch, aa.IfOp) or branch.parent_op() is not func:
        return False
    return len({loop.parent_block() for loop in loops if loop is not None}) == len(loops)


def _of_loop(plan: RolePlan, number: int, pipeline: Pipeline) -> PrologueFill | None:
    """The prologue fill of the loop that a pipeline is for."""
    loop = pipeline.loads[0].parent_op()
    if len(pipeline.contents) != 1 or not pipeline.may_grow or not isinstance(loop, aa.ForOp):
        return None
    if not _counts_up(loop):
        return None
    dots = [planned for planned in plan.dots.values() if planned.dot.parent_op() is loop]
    is_small = sum(planned.rows * planned.columns for planned in dots) < LEAST_ELEMENTS
    if is_small and any(planned.fragments for planned in dots):
        return None
    others = [other for other in plan.pipelines if other is not pipeline]
    if any(_is_filled_in(other, loop) for other in others):
        return None
    loads: list[aa.TiledLoadOp] = []
    for load in pipeline.loads:
        if not isinstance(load, aa.TiledLoadOp) or not _is_simple(load, loop, plan):
            return None
        loads.append(load)
    by_bytes = any(planned.fragments for planned in dots)
    hurried = not any(planned.is_two_level for planned in dots)
    return PrologueFill(loop, number, tuple(loads), by_bytes=by_bytes, hurried=hurried)


def _is_simple(load: aa.TiledLoadOp, loop: aa.ForOp, plan: RolePlan) -> bool:
    """Whether threads can copy the tiles of a loop's load."""
    if load.parent_op() is not loop or not _is_copied(load, plan):
        return False
    return all(is_number_of(index, loop) or _is_before(index, loop) for index in load.indices)


def _is_copied(load: aa.TiledLoadOp, plan: RolePlan) -> bool:
    """Whether the threads of the consumers can copy a tile of TMA's row by row."""
    axis, threads = contiguous_axis(load), 32 * plan.shape.consumer_warps
    if not is_by_tma(load) or axis is None:
        return False
    type = view_type_of(load.view)
    # TMA takes tiles from any element on.
    if type.steps[axis] * storage_bytes(type.memref.element_type) % CHUNK_BYTES:
        return False
    return thread_rows(type, axis, threads) is not None


def is_number_of(value: SSAValue, op: Operation) -> bool:
    """Whether a value is the number of the iteration of a loop."""
    return isinstance(op, aa.ForOp) and value is op.body.block.args[0]


def _is_before(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made before the operation."""
    owner = value.owner
    if isinstance(owner, Operation):
        return owner is not op and not op.is_ancestor(owner)
    return not any(owner is block for region in op.regions for block in region.blocks)
