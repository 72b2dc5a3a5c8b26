"""The pass `tiles-per-cta`: a tile block computes two neighbouring tiles at once.

Neighbours mostly read the same rows of A or the same columns of B. Which, is often plain (a row of
the grid's blocks), else the kernel finds out while it runs (`planning/operands/uniform`): the
operand comes to shared memory once, for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import put_in_place
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.options import CompileOptions
    from tileiras.planning.model.kernel import RolePlan
    from tileiras.planning.tile_scheduler.two_tiles import TwoTiles, Way

TALL_WARPGROUPS = 2
"""Fixed: that compute the rows of two tile blocks of one warpgroup."""


@dataclass(frozen=True)
class TilesPerCtaPass(IrPass):
    """Lets tile blocks compute two neighbouring tiles in one loop.

    What both tiles read is loaded once. Where the kernel finds out which that is, it may have a
    loop for it (`known_common_tile.py`). In a persistent kernel these are tiles of two neighbouring
    iterations; where tile blocks walk through a list of arrays, those of two neighbouring tile
    blocks, which take turns (`two_tiles_of_lists.py`). In a kernel of one tile per block they are
    its own and the next block's, if the grid is large (`two_tiles_of_grid.py`): by one program,
    where a tile alone loses nothing by it, whose second product has a condition. If a warp of its
    own can store, such a kernel becomes persistent: as many tile blocks as SMs go through all tiles
    (`two_tiles_in_rounds.py`). So does one that gathers rows and scatters those of its results, by
    one program for two tiles and one (`two_tiles_by_one_loop.py`). Two tiles of 64 rows whose rows
    follow each other may be one large tile (`tiles_as_one.py`), and two wide ones whose columns
    threads read, in two parts of half of the columns: whichever axis of the grid goes along rows,
    neighbours along it come one after the other. Two blocks of 64 queries of attention, whose loops
    are the same, are one of 128 (`rows_of_blocks.py`); a block of fewer becomes one of 64, if two
    CTAs share an SM then. No tile block of a loop has more to do than before: if in the last round
    there are no more tiles than tile blocks, each block computes one.

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
    return remark_about(func, TilesPerCtaPass.name, "TilesPerCTA", _what_was_done(func))


def _what_was_done(func: aa.FuncOp) -> str:
    """In words, of a kernel that has been rewritten."""
    if func.two_tiles is not None and func.two_tiles.data != "rows":
        return "two tiles at once: an operand that both read is loaded once"
    ends = (op.end_of_rows for op in func.body.block.ops if isinstance(op, aa.SelectOp))
    if func.two_tiles is not None or any(end is not None for end in ends):
        return "two tiles whose rows follow each other are computed as one"
    return "a tile has all rows of an instruction, and stores those that it had"


def _two_tiles_of(func: aa.FuncOp, target: GpuTarget, options: CompileOptions) -> aa.FuncOp | None:
    """The kernel that computes two tiles at once, whose work may be under a condition."""
    from tileiras.planning.strategy import strategy_of
    from tileiras.planning.tile_scheduler.two_tiles import is_candidate, way_of_two_tiles

    if func.two_tiles is not None:
        return None
    one = func if is_candidate(func) else _opened(func)
    plan = strategy_of(one, target) if one is not None else None
    found = way_of_two_tiles(one, plan, target, options) if one is not None and plan else None
    return _rewritten(one, found, target, options) if one is not None and found else None


def _opened(func: aa.FuncOp) -> aa.FuncOp | None:
    """A copy of a kernel whose loop over K is empty for tiles that do not exist, and has been under
    that condition; None if there is no condition that says which are the last ones.
    """
    from tileiras.passes.nv_tileaa.opened_guards import with_opened_guard
    from tileiras.planning.tile_scheduler.guards import guard_of, is_of_the_first
    from tileiras.planning.tile_scheduler.joinable import product_loop

    opened = with_opened_guard(func)
    products = product_loop(opened.body.block) if opened is not None else None
    guard = guard_of(products) if products is not None else None
    return opened if guard is not None and is_of_the_first(guard) else None


def _rewritten(
    func: aa.FuncOp, found: TwoTiles, target: GpuTarget, options: CompileOptions
) -> aa.FuncOp | None:
    """A copy of a kernel that computes two tiles in a way that pays, with its plan.

    None where the plan of the copy is not what the facts have promised.
    """
    from tileiras.planning.resources.stages import has_spare_stages
    from tileiras.planning.stores import plan_with_stores
    from tileiras.planning.strategy import would_specialise
    from tileiras.planning.tile_scheduler.two_tiles import Way

    way, changed = found.way, _joined(func, found, target)
    plan = would_specialise(changed, target) if changed is not None else None
    if changed is None or plan is None:
        return None
    if way is Way.WHOLE:
        return changed if plan.shape.ctas > 1 else None
    if plan.shape.ctas > 1:
        return None
    if way is Way.TALL:
        return changed if plan.warpgroups == TALL_WARPGROUPS else None
    if way is Way.PARTS:
        return changed if plan.warpgroups > 1 else None
    if way is not Way.ROWS:
        if not has_spare_stages(plan, target):
            return None
        if _know_common_tile(plan, target, way) and would_specialise(changed, target) is None:
            return None
    if way in (Way.ROWS, Way.SCHEDULE):
        plan = plan_with_stores(changed, target, options)
        return changed if plan is not None and plan.has_store_warp else None
    return changed


def _joined(func: aa.FuncOp, found: TwoTiles, target: GpuTarget) -> aa.FuncOp | None:
    """A copy with two tiles at once, None if it cannot be written so."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
    from tileiras.planning.resources.cta import ROWS_PER_WARPGROUP
    from tileiras.planning.strategy import without_strategy
    from tileiras.planning.tile_scheduler.two_tiles import Way

    way = found.way
    if way in (Way.TALL, Way.WHOLE):
        from tileiras.passes.nv_tileaa.rows_of_blocks import with_rows_of_blocks, with_whole_rows

        if way is Way.WHOLE:
            return with_whole_rows(func, ROWS_PER_WARPGROUP)
        return with_rows_of_blocks(func, target.performance)
    if way is Way.GATHERED:
        changed = _gathered(func, target)
    else:
        is_scheduled = way in (Way.ROWS, Way.PARTS, Way.SCHEDULE)
        changed = (
            with_static_tile_scheduler(func, pair_axis=found.axis)
            if is_scheduled
            else without_strategy(func)
        )
        if changed is not None and not _join(changed, way, target):
            return None
    if changed is None:
        return None
    how = {Way.ROWS: "rows", Way.PARTS: "rows", Way.ROUNDS: "rounds", Way.LISTS: "rounds"}.get(
        way, "blocks"
    )
    changed.properties["two_tiles"] = StringAttr(how)
    return changed


def _gathered(func: aa.FuncOp, target: GpuTarget) -> aa.FuncOp | None:
    """A copy that gathers rows for two tiles of a static tile scheduler at once."""
    from tileiras.passes.nv_tileaa.static_tile_scheduler import with_pairs_of_tiles
    from tileiras.passes.nv_tileaa.two_tiles_by_one_loop import TwoTilesByOneLoop

    pairs = with_pairs_of_tiles(func, target.performance)
    return pairs.func if pairs is not None and TwoTilesByOneLoop(pairs).join() else None


def _join(changed: aa.FuncOp, way: Way, target: GpuTarget) -> bool:
    """Rewrites a kernel for two tiles, if their loops over K are the same."""
    from tileiras.planning.tile_scheduler.two_tiles import Way, tile_loop

    if way is Way.LISTS:
        from tileiras.passes.nv_tileaa.two_tiles_of_lists import TwoTilesOfLists
        from tileiras.planning.tile_scheduler.list_walk import list_walk

        walk = list_walk(changed)
        return walk is not None and TwoTilesOfLists(walk).join()
    loop = tile_loop(changed)
    if loop is None:
        from tileiras.passes.nv_tileaa.two_tiles_of_grid import TwoTilesOfGrid

        return TwoTilesOfGrid(changed, target.performance, as_one=way is Way.PROGRAM).join()
    if way in (Way.ROWS, Way.PARTS):
        from tileiras.passes.nv_tileaa.tiles_as_one import TilesAsOne

        return TilesAsOne(loop).join() and (way is Way.ROWS or _cut_columns(changed))
    if way is Way.SCHEDULE:
        from tileiras.passes.nv_tileaa.two_tiles_in_rounds import TwoTilesInRounds

        return TwoTilesInRounds(loop).join()
    from tileiras.passes.nv_tileaa.two_tiles_of_loop import TwoTilesOfLoop

    return TwoTilesOfLoop(loop).join()


def _cut_columns(func: aa.FuncOp) -> bool:
    """Computes the product of twice the rows in parts of half of its columns, in turn."""
    from tileiras.dialects.nv_tileaa.types import shape_of
    from tileiras.passes.nv_tileaa.product_loops import build_part_loop
    from tileiras.planning.tile_scheduler.joinable import TILES
    from tileiras.planning.tiling.product_region import find_region

    dots = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    region = find_region(max(dots, key=lambda dot: shape_of(dot.result)[0]).result, 1, TILES)
    if region is None:
        return False
    build_part_loop(region)
    return True


def _know_common_tile(plan: RolePlan, target: GpuTarget, way: Way) -> bool:
    """Gives the kernel of a plan a loop for a common tile, if there are more stages in that, or in
    rounds room for whole tiles on their way out. Returns whether it did.

    Not in rounds if tiles of both are looked up: f16 in groups 432 us instead of 402 (H100), since
    a tenth of the neighbours differ, and are computed in turn by few stages. Not in the grid if
    stages are not more: f16 128x128, 12288x4096x2560, 389 us instead of 381.
    """
    from tileiras.passes.nv_tileaa.known_common_tile import common_tile, divide, is_looked_up
    from tileiras.passes.nv_tileaa.tiles_in_passes import run_in_passes
    from tileiras.planning.resources.stages import has_more_stages_without
    from tileiras.planning.tile_scheduler.two_tiles import Way

    is_in_rounds = way in (Way.ROUNDS, Way.LISTS)
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
