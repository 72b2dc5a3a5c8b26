"""The pass `tileas-dynamic-persistent`: a tile block takes over others that have not started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerType, ModuleOp

from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileas.warp_roles import TILE_ORDER
from tileiras.errors import UsageError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import (
    DELAY_TMA_STORE_WAIT,
    DYNAMIC_PERSISTENT,
    PREFER_TMA,
    CompileOptions,
)
from tileiras.passes.rewriting import put_in_place
from tileiras.remarks import Remark
from tileiras.suggestions import did_you_mean

if TYPE_CHECKING:
    from tileiras.planning.model.kernel import RolePlan

QUEUES = ("auto", "on", "off")
"""Whether tile blocks draw others from a queue, on targets that cannot take them over."""


@dataclass(frozen=True)
class DynamicPersistentPass(IrPass):
    """Lets a CTA go on with the work of a tile block that has not started, as long as there is one.

    The next tile is loaded, and the last one stored, while products go on. No schedule is made
    beforehand: an SM that another kernel keeps busy takes over fewer tile blocks, and a grid that
    fills the GPU once is launched as it is.

    A cluster that divides a tile block, and waits for its copies longer than for its products,
    computes several neighbours at once: each more brings its own operand, and not the one that all
    have in common (`planning/tile_scheduler/tiles_at_once.py`). Their sums lie side by side in
    tensor memory. Where a grid is so small that it does not pay the kernel computes one by one.

    Where the target has no launch control, as many CTAs as SMs draw tile blocks from a queue. They
    do where lengths of loops, or whether there is work at all, depend on what is loaded; in other
    kernels than attention also where they depend on the number of the tile block, and for large
    products of one length. `queue=on`: wherever it is possible, in rounds of two tiles, too;
    `queue=off`: nowhere.

    Before   %p = get_program_id 0;  loop over K;  tiled_store
    After    for %t in [%p, %all) step %all {takes_over} { %p = %t;  loop over K;  tiled_store }
    Before   %x = get_program_id 0;  %y = get_program_id 1
             for %k { %a = load %A[%x, %k];  %b = load %B[%k, %y];  dot %a, %b };  tiled_store
    After    for %t in [%p, %groups) step %groups {takes_over} {
               %x, %y = the first tile of a group;  %z = %y + 1;  %there = %z is in the group
               for %k { %a = load %A[%x, %k];  %b = load %B[%k, %y];  dot %a, %b
                        %c = load %B[%k, %z];  dot %a, %c if %there }
               tiled_store;  if %there { tiled_store }
             }
    Before   %n = tiled_load %l[get_program_id 0];  for %k in [0, %n) { dot };  tiled_store
    After    func {static_tile_scheduler, tile_queue = 1} {
               for %t in [get_program_id 0, get_grid_size 0) step get_num_programs 0 {takes_over} {
                 %n = tiled_load %l[%t];  for %k in [0, %n) { dot };  tiled_store } }
    Requires nv_tileaa, with the strategies of kernels; a target with TMA, and clusterlaunchcontrol
             or wgmma
             Where some tile blocks take longer than others the order in which they start, long
             ones before short ones, is written on the kernel: what is taken over follows it
    Leaves   tiles that leave room for a second CTA on an SM; tile blocks that may wait for each
             other; everything, if the environment variable TILEIR_DYNAMIC_PERSISTENT is 0
             With launch control: kernels whose products do not go to tensor memory, for those of
             warps keep fewer stages then. Unless some tile blocks take longer than others, and
             pipelines keep two stages, or the environment variable is 1; operands that threads
             read; products that depend on each other (attention) where stores would leave a
             pipeline a single stage; tile blocks that no warp of their own stores for.
             One by one: tile blocks of which it is not plain that they have an operand in common,
             and those with scales that threads copy
             With a queue: kernels that say how many CTAs a cluster has; products whose operands
             threads read; attention whose lengths are not loaded; clusters, and other kernels with
             a static schedule
    """

    name = "tileas-dynamic-persistent"
    title: ClassVar[str] = "Take over tile blocks"
    queue: str = "auto"
    """`on`, `off`, or `auto`: where it pays."""

    def __post_init__(self) -> None:
        """Raises UsageError for another word."""
        if self.queue not in QUEUES:
            raise UsageError(
                f"option 'queue' of pass '{self.name}' is '{self.queue}', expected one of "
                f"{', '.join(QUEUES)}",
                label=did_you_mean(self.queue, QUEUES),
            )

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all kernels with products."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if not isinstance(func, aa.FuncOp) or not _is_candidate(func):
                continue
            if target.has(Feature.CLUSTER_LAUNCH_CONTROL):
                changed = _taking_over(func, target, ctx.options)
            else:
                changed = _drawing(func, target, ctx.options, self._is_asked(ctx.options))
            if changed is not None:
                put_in_place(changed, func)
                ctx.remarks.add(_remark(changed))

    def _is_asked(self, options: CompileOptions) -> bool | None:
        """Whether there shall be a queue, or none; None if that is left to the pass."""
        asked = {"on": True, "off": False, "auto": None}[self.queue]
        return options.switch(DYNAMIC_PERSISTENT) if asked is None else asked


def _remark(func: aa.FuncOp) -> Remark:
    text = "a CTA goes on with tile blocks that have not started"
    if func.tile_queue is not None:
        text = "one CTA for each SM: whoever is done draws the next tile block from a queue"
    if func.tiles_at_once is not None:
        text += f", and computes {func.tiles_at_once.data} neighbours at once where there are many"
    return remark_about(func, DynamicPersistentPass.name, "DynamicPersistent", text)


def _is_candidate(func: aa.FuncOp) -> bool:
    """Whether a kernel has products, and its CTAs a tile block each."""
    if func.clustered is not None or func.tile_queue is not None:
        return False
    if func.two_tiles is not None and func.static_tile_scheduler is None:
        return False
    return any(isinstance(op, aa.ProductOp) for op in func.walk())


def _taking_over(func: aa.FuncOp, target: GpuTarget, options: CompileOptions) -> aa.FuncOp | None:
    """The kernel whose tile blocks take over others, None if it is to stay as it is."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_dynamic_tile_scheduler
    from tileiras.planning.resources.stages import keeps_two_stages
    from tileiras.planning.stores import plan_of_loop, plan_with_stores
    from tileiras.planning.strategy import strategy_of, would_specialise
    from tileiras.planning.tile_scheduler.communication import may_communicate
    from tileiras.planning.tile_scheduler.joinable import (
        is_large_and_plain,
        is_repeatable,
        may_loop_over_tiles,
    )
    from tileiras.planning.tile_scheduler.longest_tile_first import longest_tile_first

    switches = (DYNAMIC_PERSISTENT, PREFER_TMA, DELAY_TMA_STORE_WAIT)
    plan, asked = strategy_of(func, target), options.switch(DYNAMIC_PERSISTENT)
    if plan is None or False in map(options.switch, switches):
        return None
    order = longest_tile_first(func) if func.cluster_size == 1 else None
    if not plan.is_in_tmem and not ((asked or order is not None) and _fills_an_sm(plan)):
        return None
    operations = list(func.walk())
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return None
    if plan.is_in_tmem and (joined := _several_at_once(func, plan, target, options)) is not None:
        return joined
    is_chain = _is_chain_that_fills_an_sm(plan)
    if plan.is_in_tmem and not is_chain and not is_large_and_plain(plan):
        return None
    if not may_loop_over_tiles(func, may_have_several=True):
        return None
    if plan.is_in_tmem:
        looped_plan = plan_of_loop(func, plan, plan, target, options)
        if looped_plan is None:
            return None
        if is_chain and not keeps_two_stages(func, looped_plan, target):
            return None
    elif not asked and not keeps_two_stages(func, replace(plan, becomes_loop=True), target):
        return None
    looped = with_dynamic_tile_scheduler(func)
    if looped is None:
        return None
    if order is not None:
        looped.attributes[TILE_ORDER] = IntTupleAttr(order)
    again = would_specialise(looped, target)
    if again is None or again.is_in_tmem != plan.is_in_tmem:
        return None
    if plan.is_in_tmem:
        again = plan_with_stores(looped, target, options)
        return looped if again is not None and again.has_store_warp else None
    return looped if _fills_an_sm(again) else None


def _several_at_once(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel that computes several neighbouring tile blocks at once, None if that gains
    nothing.
    """
    if func.cluster_size == 1:
        return None
    from tileiras.planning.tile_scheduler.tiles_at_once import tiles_at_once

    tiles = tiles_at_once(func, plan, target, options)
    if tiles is None:
        return None
    from tileiras.passes.nv_tileaa.neighbours_at_once import NeighboursAtOnce
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_groups_of_tiles
    from tileiras.planning.stores import plan_with_stores
    from tileiras.planning.strategy import would_specialise

    groups = with_groups_of_tiles(func, tiles)
    if groups is None or not NeighboursAtOnce(groups).join():
        return None
    changed = groups.func
    changed.properties["tiles_at_once"] = IntAttr(tiles.count)
    again = would_specialise(changed, target)
    if again is None or not again.is_in_tmem:
        return None
    again = plan_with_stores(changed, target, options)
    return changed if again is not None and again.has_store_warp else None


def _drawing(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions, asked: bool | None
) -> aa.FuncOp | None:
    """The kernel whose tile blocks draw tiles from a queue, None if it is to stay as it is."""
    from tileiras.passes.nv_tileaa.opened_guards import without_early_return
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_tile_queue
    from tileiras.planning.strategy import strategy_of, would_specialise
    from tileiras.planning.tile_scheduler.communication import may_communicate
    from tileiras.planning.tile_scheduler.joinable import is_repeatable
    from tileiras.planning.tile_scheduler.longest_tile_first import longest_tile_first

    # Each CTA draws for itself: those of a cluster would have different tiles.
    may_draw = asked is not False and func.cluster_size == 1
    plan = strategy_of(func, target) if may_draw else None
    if plan is None or not _fills_an_sm(plan):
        return None
    if func.static_tile_scheduler is not None:
        return _drawing_rounds(func, target, options) if asked else None
    operations = list(func.walk())
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return None
    one = without_early_return(func)
    if not asked and not _gains_by_queue(one, plan, target, options):
        return None
    looped = with_tile_queue(one, longest_tile_first(func))
    again = would_specialise(looped, target) if looped is not None else None
    return looped if again is not None and _fills_an_sm(again) else None


def _drawing_rounds(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """A kernel with a static tile scheduler whose rounds are drawn from a queue instead."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import drawing_from_queue
    from tileiras.planning.stores import plan_with_stores
    from tileiras.planning.strategy import would_specialise

    changed = drawing_from_queue(func)
    if changed is None or would_specialise(changed, target) is None:
        return None
    again = plan_with_stores(changed, target, options)
    return changed if again is not None and _fills_an_sm(again) else None


def _gains_by_queue(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> bool:
    """Whether tile blocks take different times, and gain more by the next tile's copies than by a
    start of their own. Or whether they take the same time, and would have a static schedule.

    Attention does only where lengths are loaded. If numbers of tile blocks say how long they are,
    the longest start first (D = 64 would take 625 us, not 595; H200), and full attention starts
    late (`schedule/starts.py`). Products whose operands threads read stay, too, for registers are
    scarce.
    """
    from tileiras.dialects.nv_tileaa.types import element_of
    from tileiras.planning.hints import integer_hint
    from tileiras.planning.stores import plan_of_loop
    from tileiras.planning.tile_scheduler.joinable import LARGE_TILE
    from tileiras.planning.tile_scheduler.uneven import Lengths, lengths_of

    if integer_hint(func, "num_cta_in_cga") is not None:
        return False
    if False in (options.switch(PREFER_TMA), options.switch(DELAY_TMA_STORE_WAIT)):
        return False
    if any(planned.fragments not in (None, "smem_transpose") for planned in plan.dots.values()):
        return False
    lengths = lengths_of(func)
    if lengths is Lengths.LOADED:
        return True
    if any(planned.lhs is None for planned in plan.dots.values()):
        return False
    if lengths is not Lengths.EVEN:
        return True
    [planned] = plan.dots.values() if len(plan.dots) == 1 else [None]
    # Of integers a cluster is quicker: 8192^3 698 us, 709 with a queue (H200).
    if planned is None or isinstance(element_of(planned.dot.lhs), IntegerType):
        return False
    is_large = planned.rows * planned.columns >= LARGE_TILE
    return is_large and plan_of_loop(func, plan, plan, target, options) is not None


def _fills_an_sm(plan: RolePlan) -> bool:
    """Whether one CTA of two warpgroups is alone on an SM, so that nobody else hides its start."""
    return plan.shape.ctas == 1 and plan.warpgroups > 1


def _is_chain_that_fills_an_sm(plan: RolePlan) -> bool:
    """Whether products read what others make, by a CTA that fills an SM."""
    if not _fills_an_sm(plan):
        return False
    return len(plan.dots) > 1 and any(planned.lhs is None for planned in plan.dots.values())
