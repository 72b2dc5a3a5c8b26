"""The pass `tiles-per-cta`: a tile block computes two neighbouring tiles at once.

Neighbours mostly read the same rows of A or the same columns of B. Which, is often plain (a row of
the grid's blocks), else the kernel finds out while it runs (`planning/operands/uniform`): the
operand comes to shared memory once, for both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.passes.nv_tileaa.form_clusters import carries, is_repeatable
from tileiras.passes.nv_tileaa.two_tiles import TILES, product_loop
from tileiras.passes.rewriting import put_in_place
from tileiras.planning.hints import integer_hint
from tileiras.planning.operands.tma import is_by_tma
from tileiras.planning.tiling.product_region import STORES
from tileiras.remarks import Remark, RemarkCategory, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan

_WORD_BYTES = 4
"""Fixed: the shortest copy of cp.async (PTX ISA, "cp.async")."""
WORD_BITS = 32
"""Fixed: of a register."""


@dataclass(frozen=True)
class TilesPerCtaPass(IrPass):
    """Lets tile blocks compute two neighbouring tiles in one loop.

    What both tiles read is loaded once. Where the kernel finds out which that is, it may have a
    loop for it (`known_common_tile.py`). In a persistent kernel these are tiles of two neighbouring
    iterations. In a kernel of one tile per block they are its own and the next block's, if the grid
    is large (`two_tiles_of_grid.py`): by one program, where a tile alone loses nothing by it, whose
    second product has a condition. If a warp of its own can store, such a kernel becomes
    persistent: as many tile blocks as SMs go through all tiles (`two_tiles_in_rounds.py`). Two
    tiles of 64 rows whose rows follow each other may be one large tile (`tiles_as_one.py`), and two
    wide ones whose columns threads read, in two parts of half of the columns. No tile block has
    more to do than before: if in the last round there are no more tiles than tile blocks,
    each block computes one.

    Before   for %t in [program_id, %n) step num_programs { pre(%t); for %k { body }; post(%t) }
    After    for %t in [2 * program_id, ..) step 2 * num_programs {
               if %t + 1 is its tile, too {
                 pre(%t); pre(%t + 1)
                 for %k { body of %t; body of %t + 1 }
                 post(%t); post(%t + 1)
               } else { the same as before }
             }
    Requires nv_tileaa, with the strategies of kernels; a target with wgmma and TMA
    Leaves   kernels that are not specialised, that ask for clusters, or whose tile blocks may wait
             for each other; loops over K that depend on the tile, or do more than to add products
             up; tiles that could have nothing in common, or need more registers or stages than
             there are; operands that threads transpose, or views that they copy for one tile only
    """

    name = "tiles-per-cta"
    title: ClassVar[str] = "Two tiles per CTA"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Joins the tiles of all functions that gain by it."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if isinstance(func, aa.FuncOp) and any(
                isinstance(inner, aa.DotOp) for inner in func.walk()
            ):
                two_tiles = _two_tiles_of(func, target, ctx.options)
                if two_tiles is not None:
                    put_in_place(two_tiles, func)
                    ctx.remarks.add(_remark(two_tiles))


def _remark(func: aa.FuncOp) -> Remark:
    is_one = func.two_tiles is not None and func.two_tiles.data == "rows"
    return Remark(
        RemarkCategory.SCHEDULE,
        RemarkKind.PASSED,
        TilesPerCtaPass.name,
        "TilesPerCTA",
        "two tiles whose rows follow each other are computed as one"
        if is_one
        else "two tiles at once: an operand that both read is loaded once",
        func.sym_name.data,
        place_of(func),
    )


def _two_tiles_of(func: aa.FuncOp, target: GpuTarget, options: CompileOptions) -> aa.FuncOp | None:
    """The kernel that computes two tiles at once, whose work may be under a condition."""
    from tileiras.passes.nv_tileaa.opened_guards import guard_of, is_of_the_first, with_opened_guard
    from tileiras.planning.strategy import strategy_of, would_specialise

    if func.two_tiles is not None:
        return None
    if _is_candidate(func):
        return _two_tiles(func, strategy_of(func, target), target, options)
    opened = with_opened_guard(func)
    products = product_loop(opened.body.block) if opened is not None else None
    guard = guard_of(products) if products is not None else None
    if opened is None or guard is None or not is_of_the_first(guard) or not _is_candidate(opened):
        return None
    return _two_tiles(opened, would_specialise(opened, target), target, options)


def _is_candidate(func: aa.FuncOp) -> bool:
    """Whether it does not matter which tile block computes a tile."""
    operations = list(func.walk())
    from tileiras.planning.memory_order import follows_write
    from tileiras.planning.tile_scheduler.communication import may_communicate

    asked = integer_hint(func, "num_cta_in_cga")
    if (func.cluster_size > 1 and func.in_rows is None) or asked not in (None, 1):
        return False
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return False
    if _has_one_tile(func):
        return True
    if _tile_loop(func) is None:
        return False
    # A tile must not need what the same tile block has stored before: another one does that tile.
    loads = [op for op in operations if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    return not any(map(follows_write, loads))


def _has_one_tile(func: aa.FuncOp) -> bool:
    """Whether a tile block computes one tile, that of its number, and stores it at the end."""
    products = product_loop(func.body.block)
    operations = list(func.walk())
    if products is None:
        return False
    axis = func.row_axis or 0
    numbers = [op for op in operations if isinstance(op, aa.GetProgramIdOp) and _axis(op) == axis]
    returns = [op for op in operations if isinstance(op, aa.ReturnOp)]
    before = operations[: operations.index(products)]
    if not numbers or any(op.parent_op() is not func or op not in before for op in numbers):
        return False
    from tileiras.planning.warp_roles.early_exit import early_exit

    # Clusters in rows end where none of their tile blocks is there: whatever a pair of them does.
    left = early_exit(func.body.block) if func.in_rows is not None else None
    ends = [op for op in returns if left is None or not left.is_ancestor(op)]
    return len(ends) == 1 and not any(isinstance(op, STORES) for op in before)


def _tile_loop(func: aa.FuncOp) -> aa.ForOp | None:
    """The loop over tiles: the number of the tile block is its start, and nothing else."""
    numbers = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp) and not _axis(op)]
    counts = [op for op in func.walk() if isinstance(op, aa.GetNumProgramsOp) and not _axis(op)]
    starts = [use for op in numbers for use in op.result.uses]
    steps = [use for op in counts for use in op.result.uses]
    if len(starts) != 1 or len(steps) != 1:
        return None
    loop = starts[0].operation
    if not isinstance(loop, aa.ForOp) or steps[0].operation is not loop:
        return None
    if starts[0].index != 0 or steps[0].index != 2 or loop.parent_op() is not func:
        return None
    if carries(loop) or product_loop(loop.body.block) is None:
        return None
    return None if any(map(_leaves_early, loop.walk())) else loop


def _leaves_early(op: Operation) -> bool:
    """Whether an iteration or the tile block ends here, not at the end of the loop's body."""
    if isinstance(op, aa.ContinueOp):
        return op.parent_op() is not enclosing(op, aa.ForOp, aa.LoopOp)
    return isinstance(op, aa.ReturnOp)


def _axis(op: aa.GetProgramIdOp | aa.GetNumProgramsOp) -> int:
    return op.axis.value.data


def _two_tiles(
    func: aa.FuncOp, plan: RolePlan | None, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel that computes two tiles at once, None if it would not be a good one."""
    from tileiras.planning.strategy import without_strategy

    if plan is None or plan.shape.ctas > 1 or not _only_adds_up(plan):
        return None
    loop = _tile_loop(func)
    if loop is None and func.in_rows is None:
        scheduled = _as_rows(func, plan, target, options)
        if scheduled is not None:
            return scheduled
        scheduled = _statically_scheduled(func, plan, target, options)
        if scheduled is not None:
            return scheduled
        one = _as_one_program(func, plan, target)
        if one is not None:
            return one
    return _joined(without_strategy(func), "blocks" if loop is None else "rounds", target)


def _as_one_program(func: aa.FuncOp, plan: RolePlan, target: GpuTarget) -> aa.FuncOp | None:
    """The kernel whose loop over K serves two tiles, or one alone; None if one alone would lose by
    it: stages, or the time to find out which the second tile is.
    """
    from tileiras.passes.nv_tileaa.two_tiles_of_grid import waits_for_second
    from tileiras.planning.resources.stages import fewest_stages
    from tileiras.planning.strategy import strategy_of, without_strategy

    is_gathered = any(pipeline.gathers for pipeline in plan.pipelines)
    # Clusters in rows make their tensor maps in front of the branch for two tiles.
    if func.in_rows is not None or (not is_gathered and waits_for_second(func)):
        return None
    if is_gathered and _is_gathered_in_words(plan):
        return None
    joined = _joined(without_strategy(func), "blocks", target, as_one=True)
    joined_plan = strategy_of(joined, target) if joined is not None else None
    if joined_plan is None:
        return None
    dots = joined_plan.dots
    alone = {op.parent_op() for op in dots if isinstance(op, aa.DotOp) and op.condition is not None}
    stages = fewest_stages(joined_plan, target, lambda load: load.parent_op() in alone)
    return joined if stages >= fewest_stages(plan, target) else None


def _is_gathered_in_words(plan: RolePlan) -> bool:
    """Whether threads copy rows in pieces of 4 bytes: as one program such a kernel spills 12."""
    from tileiras.planning.operands.gather import chunk_elements

    loads = [load for pipeline in plan.pipelines for load in pipeline.loads]
    return any(
        chunk_elements(load) * storage_bytes(element_of(load.result)) <= _WORD_BYTES
        for load in loads
        if isinstance(load, aa.LoadOp)
    )


def _statically_scheduled(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel of one tile a block whose tile blocks divide all tiles of the grid, two at once;
    None if it gains nothing by it: a warp of its own has to store.
    """
    from tileiras.passes.nv_tileaa.form_clusters import is_plain
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.planning.memory_order import WRITES
    from tileiras.planning.operands.tma_stores import TmaWrite
    from tileiras.planning.stores import plan_with_stores

    if False in (options.switch(PREFER_TMA), options.switch(DELAY_TMA_STORE_WAIT)):
        return None
    if plan.warpgroups == 1 or len(plan.dots) != 1 or not all(map(is_plain, plan.dots.values())):
        return None
    # Of integers the loop for one tile and that for two spill 8 bytes beside each other.
    if any(isinstance(element_of(dot.results[0]), IntegerType) for dot in plan.dots):
        return None
    # Warps that gather leave none to store; what TMA cannot write consumers store.
    gathers = any(pipeline.gathers for pipeline in plan.pipelines)
    writes = [op for op in func.walk() if isinstance(op, WRITES)]
    if gathers or not all(isinstance(op, TmaWrite) for op in writes):
        return None
    looped = with_static_tile_scheduler(func)
    joined = _joined(looped, "blocks", target) if looped is not None else None
    joined_plan = plan_with_stores(joined, target, options) if joined is not None else None
    return joined if joined_plan is not None and joined_plan.has_store_warp else None


def _as_rows(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """The kernel of one tile a block whose tile blocks divide all tiles of the grid, two of them as
    a large one of twice the rows; None if it gains nothing by it.
    """
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.passes.nv_tileaa.tiles_as_one import TilesAsOne
    from tileiras.planning.stores import plan_with_stores
    from tileiras.planning.strategy import would_specialise

    if False in (options.switch(PREFER_TMA), options.switch(DELAY_TMA_STORE_WAIT)):
        return None
    is_whole = _is_half_of_large(plan)
    if not is_whole and not _reads_less_in_parts(plan):
        return None
    changed = with_static_tile_scheduler(func)
    loop = _tile_loop(changed) if changed is not None else None
    dots = [op for op in changed.walk() if isinstance(op, aa.DotOp)] if changed is not None else []
    if changed is None or loop is None or not TilesAsOne(loop, dots[0]).join():
        return None
    if not is_whole and not _cut_columns(changed):
        return None
    changed.properties["two_tiles"] = StringAttr("rows")
    joined = would_specialise(changed, target)
    if joined is None or joined.shape.ctas > 1 or joined.warpgroups == 1 or not _fits(joined):
        return None
    if not is_whole:
        return changed
    with_stores = plan_with_stores(changed, target, options)
    return changed if with_stores is not None and with_stores.has_store_warp else None


def _is_half_of_large(plan: RolePlan) -> bool:
    """Whether a kernel has one product of one warpgroup, and two of its tiles are a large one."""
    from tileiras.codegen.atoms.wgmma import K_BYTES
    from tileiras.passes.nv_tileaa.form_clusters import LARGE_TILE, is_plain

    if plan.warpgroups > 1 or len(plan.dots) != 1:
        return False
    [planned] = plan.dots.values()
    if planned.rows * planned.columns * TILES < LARGE_TILE or not is_plain(planned):
        return False
    # With one step of an instruction a stage, waiting for stages is the limit: K of 16, f16
    # 4096^3, 287 us instead of 278 (H200).
    return shape_of(planned.dot.lhs)[-1] * planned.operand_bits // 8 > K_BYTES


def _reads_less_in_parts(plan: RolePlan) -> bool:
    """Whether a kernel has one product of a tile at least twice as wide as high, whose columns
    threads read to be the rows of instructions.

    With twice the rows and half of the columns instructions have twice the columns, and each
    fragment serves twice as much: shared memory and registers are read less (decision 66).
    """
    from tileiras.planning.resources.cta import MOST_WARPGROUPS, ROWS_PER_WARPGROUP

    if plan.warpgroups == 1 or len(plan.dots) != 1:
        return False
    [planned] = plan.dots.values()
    # Of 8 bits both forms of the loop spill beside each other: 216 bytes, and partial sums 180.
    if planned.fragments != "rhs" or planned.operand_bits < WORD_BITS:
        return False
    least = TILES * max(planned.columns, MOST_WARPGROUPS * ROWS_PER_WARPGROUP)
    return planned.rows >= least and TILES * planned.columns in planned.family.sizes_n


def _cut_columns(func: aa.FuncOp) -> bool:
    """Computes the product of twice the rows in parts of half of its columns, in turn."""
    from tileiras.passes.nv_tileaa.product_loops import build_part_loop
    from tileiras.planning.tiling.product_region import find_region

    dots = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    region = find_region(max(dots, key=lambda dot: shape_of(dot.result)[0]).result, 1, TILES)
    if region is None:
        return False
    build_part_loop(region)
    return True


def _joined(
    changed: aa.FuncOp, how: str, target: GpuTarget, *, as_one: bool = False
) -> aa.FuncOp | None:
    """The kernel, which is changed, with two tiles at once; None if it would not be a good one."""
    from tileiras.planning.resources.stages import has_spare_stages
    from tileiras.planning.strategy import would_specialise

    if not _join(changed, target, as_one=as_one):
        return None
    changed.properties["two_tiles"] = StringAttr(how)
    plan = would_specialise(changed, target)
    if plan is None or plan.shape.ctas > 1 or not _fits(plan):
        return None
    if not _have_in_common(plan) or not has_spare_stages(plan, target):
        return None
    if not _know_common_tile(plan, target, is_in_rounds=how == "rounds"):
        return changed
    return changed if would_specialise(changed, target) is not None else None


def _join(changed: aa.FuncOp, target: GpuTarget, *, as_one: bool) -> bool:
    """Rewrites a kernel for two tiles, if their loops over K are the same."""
    from tileiras.passes.nv_tileaa.two_tiles_in_rounds import TwoTilesInRounds
    from tileiras.passes.nv_tileaa.two_tiles_of_grid import TwoTilesOfGrid
    from tileiras.passes.nv_tileaa.two_tiles_of_loop import TwoTilesOfLoop

    loop = _tile_loop(changed)
    if loop is None:
        return TwoTilesOfGrid(changed, target.performance, as_one=as_one).join()
    if changed.static_tile_scheduler is not None:
        return TwoTilesInRounds(loop).join()
    return TwoTilesOfLoop(loop).join()


def _know_common_tile(plan: RolePlan, target: GpuTarget, *, is_in_rounds: bool) -> bool:
    """Gives the kernel of a plan a loop for a common tile, if there are more stages in that, or in
    rounds room for whole tiles on their way out. Returns whether it did.

    Not in rounds if tiles of both are looked up: f16 in groups 432 us instead of 402 (H100), since
    a tenth of the neighbours differ, and are computed in turn by few stages. Not in the grid if
    stages are not more: f16 128x128, 12288x4096x2560, 389 us instead of 381.
    """
    from tileiras.passes.nv_tileaa.known_common_tile import common_tile, divide, is_looked_up
    from tileiras.passes.nv_tileaa.tiles_in_passes import run_in_passes
    from tileiras.planning.resources.stages import has_more_stages_without

    found = common_tile(plan)
    if found is None:
        return False
    if is_in_rounds and is_looked_up(found):
        return False
    if not is_in_rounds and not has_more_stages_without(plan, found.second, target):
        return False
    is_gathered = any(pipeline.gathers for pipeline in plan.pipelines)
    if is_in_rounds or not is_gathered or not run_in_passes(found):
        divide(found, in_turn=is_in_rounds)
    return True


def _have_in_common(plan: RolePlan) -> bool:
    """Whether both tiles read a tile in common, or may turn out to; copied views in any case."""
    from tileiras.planning.operands.uniform import products_of, uniform_loads_of

    products = Counter(planned.dot.parent_op() for planned in plan.dots.values())
    both = [loop for loop, count in products.items() if count > 1]
    loads = [
        load for pipeline in plan.pipelines for load in pipeline.loads if load.parent_op() in both
    ]
    common = [load for load in loads if len(products_of(load)) > 1]
    copied = [load for load in loads if isinstance(load, aa.TiledLoadOp) and not is_by_tma(load)]
    if any(load not in common for load in copied):
        return False
    return bool(common or uniform_loads_of(plan.pipelines))


def _only_adds_up(plan: RolePlan) -> bool:
    """Whether all products run on while the next iteration's are issued."""
    from tileiras.planning.mma.accumulation import is_running

    products = list(plan.dots.values())
    return is_running(products) and not any(product.is_smem_transposed for product in products)


def _fits(plan: RolePlan) -> bool:
    """Whether the sums of both tiles take no more registers than one sum may."""
    from tileiras.planning.resources.cta import MAX_ACCUMULATORS

    sums: Counter[Operation | None] = Counter()
    for product in plan.dots.values():
        sums[product.dot.parent_op()] += product.accumulator_registers(plan.warpgroups)
    return max(sums.values()) <= MAX_ACCUMULATORS
