"""The pass `form-clusters`: two tile blocks become a cluster that shares what it loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i1, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.persistent import is_persistent
from tileiras.codegen.target import Feature
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    Signedness,
)
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import element_of
from tileiras.dialects.nv_tileas.warp_roles import TILE_ORDER
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.passes.nv_tileaa.cluster_blocks import LESS, compared, number_blocks, only_if
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op, put_in_place
from tileiras.planning.hints import integer_hint
from tileiras.planning.strategy import strategy_of, without_strategy, would_specialise
from tileiras.planning.tiling.product_region import STORES
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.clusters import FutureCluster
    from tileiras.planning.model.kernel import RolePlan

CLUSTER = 2
"""Policy: CTAs of a cluster that is formed."""
BRIEF = 6
"""Policy: iterations of attention at most, of whose time start and end are much (an H200, D = 64,
window of 128, 512 and 1024 keys: 2, 5 and 9 iterations: 0.90, 0.99 and 1.03 of the time; D = 128,
window of 128: 0.88).
"""


@dataclass(frozen=True)
class FormClustersPass(IrPass):
    """Runs neighbouring tile blocks of a kernel with products as clusters of two CTAs.

    A kernel in which each tile block computes one large tile becomes persistent first: as many tile
    blocks as SMs go through all tiles (`static_tile_scheduler.py`). So a CTA has something to do
    while a tile is stored. Some kernels become persistent without clusters. If their loops are all
    of one length: those whose threads gather rows for one product that fills an SM; decoding, whose
    few rows of queries warps have copies of; attention of f8 whose values idle warps transpose. And
    attention to a few tiles of keys, whatever the length of its loops.

    Clusters that divide a tile of wgmma, one for each tile block, become persistent, too: as many
    as SMs have room for. Of a cluster whose CTAs divide a tile of products that go to tensor
    memory, two CTAs become a pair that multiplies together (`pair_ctas.py`).

    Before   %p = get_program_id 0;  for %t in [%p, %n) step %s { ... tiled_store }
    After    %c = get_program_id 0;  %r = get_cluster_rank;  %base = 2 * %c
             for %b in [%base, %n) step %s {
               %t = %b + %r, or %b if there is no such tile block
               ... if it exists { tiled_store }
             }
    Before   %p = get_program_id 0;  for %k { load of rows; dot };  store
    After    func {static_tile_scheduler} { for %t in [get_program_id 0, get_grid_size 0)
             step get_num_programs 0 { for %k { load of rows; dot };  store } }
    Before   func {cluster = 2} { for %k { %b = tiled_load; dot %a, %b } }
    After    func {cluster = 2, pair} { for %k { %b = tiled_load {halved = 1}; dot %a, %b } }
    Requires nv_tileaa, with the strategies of kernels; a target with TMA, clusters, and wgmma or
             tcgen05
    Leaves   kernels that are not specialised; kernels whose tile blocks may wait for each other;
             kernels in which control flow around copies depends on the tile block in another way
             than shown; loops over tiles that carry more than tokens, since one CTA of a cluster
             may run an iteration more; kernels whose neighbours seldom have a tile in common
    """

    name = "form-clusters"
    title: ClassVar[str] = "Form clusters"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Pairs the tile blocks of all functions that gain by it."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            form = _form_of(func) if isinstance(func, aa.FuncOp) else None
            if isinstance(func, aa.FuncOp) and form is not None:
                changed = form(func, target, ctx.options)
                if changed is not None:
                    put_in_place(changed, func)
                    ctx.remarks.add(_remark_of(changed))
        if target.has(Feature.TCGEN05):
            from tileiras.passes.nv_tileaa.pair_ctas import paired

            for func in list(op.body.ops):
                if isinstance(func, aa.FuncOp) and func.cluster_size > 1:
                    pair, remark = paired(func, target)
                    put_in_place(pair, func)
                    if remark is not None:
                        ctx.remarks.add(remark)


def _form_of(func: aa.FuncOp) -> Callable[..., aa.FuncOp | None] | None:
    """What may become of a kernel; None if nothing may."""
    if _has_divided_tile(func):
        return _scheduled_in_clusters
    if not _is_candidate(func):
        return None
    return _with_clusters if _shares_work(func) else _statically_scheduled


def _has_divided_tile(func: aa.FuncOp) -> bool:
    """Whether clusters of two divide a tile, each its own."""
    # Of larger ones fewer find room than SMs are for them: those left would come behind the rest.
    if func.cluster_size != CLUSTER or func.clustered is not None or func.two_tiles is not None:
        return False
    from tileiras.planning.tile_scheduler.communication import may_communicate

    if not any(isinstance(op, aa.DotOp) for op in func.walk()):
        return False
    return not any(map(may_communicate, func.walk()))


def _scheduled_in_clusters(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel whose clusters go through the tiles of the grid, each of which they divide."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.planning.tile_scheduler.joinable import (
        is_large_and_plain,
        is_repeatable,
        may_loop_over_tiles,
    )

    plan = strategy_of(func, target)
    if plan is None or plan.is_in_tmem or plan.shape.ctas > 1 or not is_large_and_plain(plan):
        return None
    if not may_loop_over_tiles(func) or not all(map(is_repeatable, func.walk())):
        return None
    # Beside partial sums and fragments there are no registers for the elements of narrow stores.
    is_full = any(dot.fragments == "rhs" and dot.is_two_level for dot in plan.dots.values())
    if is_full and not _are_widest(func, plan):
        return None
    return _alone(with_static_tile_scheduler(func), target)


def _are_widest(func: aa.FuncOp, plan: RolePlan) -> bool:
    """Whether a thread could store as much at once as it can."""
    from tileiras.planning.access import is_widest, plan_view_access

    warps = plan.shape.consumer_warps
    stores = [op for op in func.walk() if isinstance(op, STORES)]
    return all(
        isinstance(op, aa.TiledStoreOp)
        and is_widest(plan_view_access(op.view, warps), storage_bits(element_of(op.value)))
        for op in stores
    )


def _remark_of(func: aa.FuncOp) -> Remark:
    shared = "two tile blocks are a cluster of two CTAs: operands that both read are loaded once"
    divided = "one for each SM, they divide the work of all by a static tile scheduler"
    parts = f"as many as SMs have room for; each divides a tile among {func.cluster_size} CTAs"
    if func.cluster_size == 1:
        return _remark(func, "StaticPersistent", f"tile blocks go through the grid: {divided}")
    if func.clustered is None:
        return _remark(func, "StaticPersistent", f"clusters go through the grid: {parts}")
    text = shared if func.static_tile_scheduler is None else f"{shared}; {divided}"
    return _remark(func, "Cluster", text)


def _remark(func: aa.FuncOp, name: str, text: str) -> Remark:
    return remark_about(func, FormClustersPass.name, name, text)


def _is_candidate(func: aa.FuncOp) -> bool:
    """Whether tile blocks divide many tiles, or a cluster is asked for, and none waits for
    another.

    Where each has one tile, an idle cluster takes as long as the sharing saves.
    """
    operations = list(func.walk())
    if not any(isinstance(op, aa.DotOp) for op in operations):
        return False
    from tileiras.planning.tile_scheduler.communication import may_communicate

    asked = integer_hint(func, "num_cta_in_cga")
    if func.cluster_size > 1 or asked == 1 or func.two_tiles is not None:
        return False
    if func.static_tile_scheduler is not None:
        return False
    return not any(map(may_communicate, operations))


def _shares_work(func: aa.FuncOp) -> bool:
    """Whether tile blocks divide many tiles, or a cluster is asked for."""
    return is_persistent(func) or integer_hint(func, "num_cta_in_cga") is not None


def _statically_scheduled(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel whose tile blocks divide those of the grid by a static tile scheduler, None if it
    gains nothing by it.

    What it gains is that a tile is stored, and the next one loaded, while products go on: a
    warp of its own has to store. Attention, tiles of one warpgroup, products that are transposed
    without need, and those with an operand that threads transpose are 1 to 9 % slower (measured).
    """
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.planning.clusters import FutureCluster
    from tileiras.planning.stores import plan_of_loop, plan_with_stores
    from tileiras.planning.tile_scheduler.joinable import is_large_and_plain, may_loop_over_tiles

    if False in (options.switch(PREFER_TMA), options.switch(DELAY_TMA_STORE_WAIT)):
        return None
    plan = strategy_of(func, target)
    # Measured with wgmma alone: whether it pays beside a warp that issues products is not known.
    if plan is None or plan.is_in_tmem:
        return None
    if _attends_briefly(func, plan):
        return _alone(with_static_tile_scheduler(func, may_have_several=True), target)
    if not may_loop_over_tiles(func):
        return None
    if _gathers(plan) or _decodes(plan) or _transposes_values(func, plan):
        return _scheduled_alone(func, target)
    numbers = [op for op in func.body.block.ops if isinstance(op, aa.GetProgramIdOp)]
    cluster = FutureCluster(CLUSTER, tuple(op.result for op in numbers))
    if not is_large_and_plain(plan) or not _may_cluster(func, plan, cluster, target):
        return None
    if plan_of_loop(func, plan, plan, target, options) is None:
        return None
    looped = with_static_tile_scheduler(func)
    if looped is None or not _cluster(looped, plan, target):
        return None
    again = plan_with_stores(looped, target, options)
    return looped if again is not None and again.has_store_warp else None


def _gathers(plan: RolePlan) -> bool:
    """Whether threads gather rows for one product of two warpgroups that fill an SM.

    The next tile's rows are under way while a tile is stored, a third of a tile's time with short
    loops: decision 0064.
    """
    is_alone = plan.shape.ctas == 1 and plan.warpgroups > 1 and len(plan.dots) == 1
    return is_alone and any(isinstance(load, aa.LoadOp) for load in _gathered(plan))


def _gathered(plan: RolePlan) -> list[Operation]:
    return [load for pipeline in plan.pipelines if pipeline.gathers for load in pipeline.loads]


def _decodes(plan: RolePlan) -> bool:
    """Whether few rows of queries, of which warps have copies, read keys as fast as they come."""
    return plan.shape.ctas == 1 and all(planned.copies > 1 for planned in plan.dots.values())


def _transposes_values(func: aa.FuncOp, plan: RolePlan) -> bool:
    """Whether idle warps transpose the values of attention of f8: the first ones of the next tile
    while this one ends.

    Without a softmax ptxas spills 56 bytes.
    """
    if not any(isinstance(op, aa.ReduceOp) for op in func.walk()):
        return False
    has_idle_warps = plan.shape.producer_warps > 1 and plan.warpgroups > 1
    transposes = any(planned.is_smem_transposed for planned in plan.dots.values())
    return plan.shape.ctas == 1 and has_idle_warps and transposes and _computes_operands(plan)


def _computes_operands(plan: RolePlan) -> bool:
    """Whether a product waits for an operand that threads compute: attention."""
    return any(planned.lhs is None for planned in plan.dots.values())


def _attends_briefly(func: aa.FuncOp, plan: RolePlan) -> bool:
    """Whether attention to a few tiles of keys has an SM to itself: it mostly starts and ends.

    That the first blocks have fewer tiles does not matter then.
    """
    from tileiras.planning.tile_scheduler.loop_lengths import most_iterations

    if plan.shape.ctas > 1 or plan.warpgroups == 1 or not _computes_operands(plan):
        return False
    most = most_iterations(func)
    return most is not None and most <= BRIEF


def _alone(looped: aa.FuncOp | None, target: GpuTarget) -> aa.FuncOp | None:
    """A kernel with a static tile scheduler, if its CTAs still have an SM each."""
    plan = would_specialise(looped, target) if looped is not None else None
    return looped if plan is not None and plan.shape.ctas == 1 else None


def _scheduled_alone(func: aa.FuncOp, target: GpuTarget) -> aa.FuncOp | None:
    """The kernel whose tile blocks divide those of the grid, each for itself; None where their
    loops are not of one length: whoever has ended takes the next one of a grid, which evens out.
    """
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.planning.tile_scheduler.joinable import product_loop, varying_operations

    products = product_loop(func.body.block)
    if products is None:
        return None
    varying = varying_operations(func)
    bounds = (products.lower_bound, products.upper_bound, products.step)
    if any(bound.owner in varying for bound in bounds):
        return None
    return _alone(with_static_tile_scheduler(func), target)


def _with_clusters(func: aa.FuncOp, target: GpuTarget, options: CompileOptions) -> aa.FuncOp | None:
    """The kernel for a cluster, None if nothing would be shared."""
    from tileiras.planning.clusters import FutureCluster

    plan = strategy_of(func, target)
    if plan is None:
        return None
    loops = [op for op in func.body.block.ops if _starts_from_number(op)]
    numbers = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp) and _is_first(op)]
    cluster = FutureCluster(
        CLUSTER,
        tuple(op.result for op in numbers),
        tuple(loop for loop in loops if isinstance(loop, aa.ForOp)),
    )
    if not _may_cluster(func, plan, cluster, target):
        return None
    changed = without_strategy(func)
    return changed if _cluster(changed, plan, target) else None


def _may_cluster(
    func: aa.FuncOp, plan: RolePlan, cluster: FutureCluster, target: GpuTarget
) -> bool:
    """Whether neighbouring tile blocks may run as a cluster, and share what they load."""
    from tileiras.planning.clusters import would_share
    from tileiras.planning.tile_scheduler.joinable import carries, is_repeatable

    if plan.shape.ctas > 1 or not all(map(is_repeatable, func.walk())):
        return False
    if not plan.is_in_tmem and not target.has(Feature.WGMMA):
        return False
    # Of tcgen05 a cluster multiplies together, too; who asks for one gets it.
    in_any_case = plan.is_in_tmem or integer_hint(func, "num_cta_in_cga") is not None
    if any(map(carries, cluster.loops)):
        return False
    return would_share(func, plan, cluster, mostly=not in_any_case)


def _cluster(changed: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> bool:
    """Makes clusters of a copy of a kernel; whether its plan is what `plan` has promised."""
    changed.properties["cluster"] = IntegerAttr(CLUSTER, i32)
    changed.properties["clustered"] = UnitAttr()
    # Neighbours are as long as each other, and start in the order of the grid.
    changed.attributes.pop(TILE_ORDER, None)
    _renumber(changed)
    again = would_specialise(changed, target)
    return again is not None and again.is_in_tmem == plan.is_in_tmem


def _is_first(op: aa.GetProgramIdOp) -> bool:
    """Whether it numbers tile blocks along the axis of clusters."""
    return op.axis.value.data == 0


def _starts_from_number(op: Operation) -> bool:
    """Whether an operation of the function's body is a loop from its tile block's number on."""
    if not isinstance(op, aa.ForOp) or not isinstance(op.parent_op(), aa.FuncOp):
        return False
    number = op.lower_bound.owner
    return isinstance(number, aa.GetProgramIdOp) and number.axis.value.data == 0


def _renumber(func: aa.FuncOp) -> None:
    """Numbers of tile blocks in place of those of clusters; stores only where there is one."""
    first = func.body.block.first_op
    if first is None:
        return
    blocks, made = number_blocks(first, 0, CLUSTER)
    for op in list(func.walk()):
        if isinstance(op, aa.GetProgramIdOp) and op not in made and op.axis.value.data == 0:
            for use in list(op.result.uses):
                user = use.operation
                if isinstance(user, aa.ForOp) and use.index == 0 and _starts_from_number(user):
                    user.operands[0] = blocks.base
                    _renumber_loop(user, blocks.rank, blocks.exists)
                else:
                    user.operands[use.index] = blocks.own
            erase_op(op)
    for op in list(func.walk()):
        if isinstance(op, STORES):
            only_if(op, blocks.exists)


def _renumber_loop(loop: aa.ForOp, rank: SSAValue, exists: SSAValue) -> None:
    """A loop over tiles, from the number of the tile block on: the same for both CTAs."""
    body = loop.body.block
    first, number = body.first_op, body.args[0]
    if first is None:
        return
    uses = list(number.uses)
    stores = [op for op in loop.walk() if isinstance(op, STORES)]
    start = _before(first)
    tile = start.binary(aa.AddIOp, number, rank)
    less = LESS if loop.unsigned_cmp is None else _BELOW
    inside = start.emit(aa.CmpIOp, [tile, loop.upper_bound], [i1], less).results[0]
    both = start.emit(aa.AndIOp, [inside, exists], [i1]).results[0]
    own = start.emit(aa.SelectOp, [both, tile, number], [i32]).results[0]
    start.put_before(first)
    for use in uses:
        use.operation.operands[use.index] = own
    for op in stores:
        only_if(op, inside)


def _before(op: Operation) -> ScalarBuilder:
    """A builder of what comes before an operation."""
    builder = ScalarBuilder()
    builder.location = op.location
    return builder


_BELOW = compared(ComparisonPredicate.LESS_THAN, Signedness.UNSIGNED)
