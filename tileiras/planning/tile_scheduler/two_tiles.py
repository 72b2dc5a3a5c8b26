"""Whether a CTA shall compute two neighbouring tiles at once, and how: by facts, before it is done.

| way | kernel | what it becomes |
|---|---|---|
| `rows` | a tile a block, of one warpgroup | tile blocks divide all; two as one of twice the rows |
| `parts` | a wide tile a block | the same, in two parts of half of the columns |
| `schedule` | a tile a block, of two | tile blocks divide all, two at once; a last one alone |
| `gathered` | a tile a block, of gathered rows | tile blocks divide all; one program |
| `program` | a tile a block | half of the tile blocks; one program for two tiles and for one |
| `blocks` | a tile a block | half of the tile blocks; a program for two tiles, and one for one |
| `tall` | attention, 64 rows a block | half of the tile blocks; two as one of twice the rows |
| `whole` | decoding, few rows a block | a tile of 64 rows, of which it stores those it had |
| `rounds` | a loop over tiles | two neighbouring iterations at once |
| `lists` | a loop over tiles in one over a list | the same, of two neighbouring tile blocks |

Neighbours are those along the first axis of the grid; for `rows` and `parts` those along the axis
that goes along rows. The first way that pays is taken. What pays follows from the plan for one
tile, and from what two neighbours have in common (`neighbours`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.wgmma import K_BYTES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.planning.access import is_widest, plan_view_access
from tileiras.planning.hints import integer_hint
from tileiras.planning.memory_order import WRITES, follows_write
from tileiras.planning.mma.accumulation import is_running
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.operands.gather import chunk_elements
from tileiras.planning.operands.swap_ab import VariationRate, rate_of, stores_words
from tileiras.planning.operands.tma import is_by_tma, place_bytes
from tileiras.planning.operands.tma_stores import TmaWrite, is_in_loop
from tileiras.planning.resources.cta import (
    MAX_ACCUMULATORS,
    MOST_WARPGROUPS,
    ROWS_PER_WARPGROUP,
)
from tileiras.planning.resources.stages import fewest_stages
from tileiras.planning.stores import plan_of_loop
from tileiras.planning.tile_scheduler.communication import may_communicate
from tileiras.planning.tile_scheduler.guards import guard_of
from tileiras.planning.tile_scheduler.joinable import (
    LARGE_TILE,
    TILES,
    carries,
    is_plain,
    is_repeatable,
    may_loop_over_tiles,
    product_loop,
)
from tileiras.planning.tile_scheduler.list_walk import ListWalk, list_walk
from tileiras.planning.tile_scheduler.neighbours import Neighbours, Rates, neighbours
from tileiras.planning.tile_scheduler.rows_of_blocks import (
    do_rows_of_blocks_pay,
    do_whole_rows_pay,
)
from tileiras.planning.tile_scheduler.rows_of_two import RowsOfTwo
from tileiras.planning.tiling.product_cut import CannotCutError
from tileiras.planning.tiling.product_region import STORES, find_region
from tileiras.planning.warp_roles.early_exit import early_exit

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget
    from tileiras.planning.model.kernel import RolePlan

_WORD_BYTES = 4
"""Fixed: the shortest copy of cp.async (PTX ISA, "cp.async")."""
_PRODUCER_WARPS = 4
"""Fixed: warps of a producer beside two warpgroups, which trade registers with it."""


class Way(StrEnum):
    """How a CTA computes two tiles at once."""

    ROWS = "rows"
    PARTS = "parts"
    SCHEDULE = "schedule"
    GATHERED = "gathered"
    PROGRAM = "program"
    BLOCKS = "blocks"
    TALL = "tall"
    WHOLE = "whole"
    ROUNDS = "rounds"
    LISTS = "lists"


@dataclass(frozen=True)
class TwoTiles:
    """A way of computing two tiles at once, of neighbours along an axis of the grid."""

    way: Way
    axis: int = 0


def way_of_two_tiles(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, options: CompileOptions
) -> TwoTiles | None:
    """The way that pays, None if none does; `plan` is that for one tile."""
    if not is_candidate(func):
        return None
    if not _only_adds_up(plan):
        if do_whole_rows_pay(func, plan, target):
            return TwoTiles(Way.WHOLE)
        if do_rows_of_blocks_pay(func, plan):
            return TwoTiles(Way.TALL)
    if plan.shape.ctas > 1:
        return None
    found = _Ways(func, plan, target, options)
    ways: dict[Way, Callable[[], bool]] = {Way.ROUNDS: found.do_rounds_pay}
    if found.walk is not None:
        ways = {Way.LISTS: found.do_lists_pay}
    elif found.tiles is None:
        ways = {Way.BLOCKS: found.do_blocks_pay}
        if func.in_rows is None:
            ways = {
                Way.ROWS: found.do_rows_pay,
                Way.PARTS: found.do_parts_pay,
                Way.SCHEDULE: found.does_schedule_pay,
                Way.GATHERED: found.do_gathered_pay,
                Way.PROGRAM: found.does_program_pay,
                **ways,
            }
    # Sums of parts are finished in their own iteration, which nothing but parts takes.
    if not _only_adds_up(plan):
        ways = {way: pays for way, pays in ways.items() if way is Way.PARTS}
    way = next((way for way, pays in ways.items() if pays()), None)
    if way is None:
        return None
    rows = found.as_rows if way in (Way.ROWS, Way.PARTS) else None
    return TwoTiles(way, rows.axis if rows is not None else 0)


@dataclass(frozen=True)
class _AsRows:
    """Two tiles as one of twice the rows, of neighbours along an axis of the grid."""

    axis: int
    rows: RowsOfTwo


@dataclass(frozen=True)
class _Ways:
    """A kernel whose tiles could be computed two at once, by the plan for one."""

    func: aa.FuncOp
    plan: RolePlan
    target: GpuTarget
    options: CompileOptions

    @property
    def tiles(self) -> aa.ForOp | None:
        """The loop over tiles, if there is one."""
        return tile_loop(self.func)

    @cached_property
    def walk(self) -> ListWalk | None:
        """The loops over a list and the tiles of its arrays, if there are some."""
        return list_walk(self.func)

    @property
    def gathers(self) -> bool:
        """Whether threads copy operands."""
        return any(pipeline.gathers for pipeline in self.plan.pipelines)

    def do_rounds_pay(self) -> bool:
        """Two iterations of a loop over tiles at once."""
        loop = self.tiles
        if loop is None:
            return False
        rates: dict[SSAValue, VariationRate] = {loop.body.block.args[0]: VariationRate.OFTEN}
        return self._pays(self._pair(rates, has_single=True))

    def do_lists_pay(self) -> bool:
        """The tiles of two tile blocks that walk through a list of arrays."""
        walk = self.walk
        if walk is None:
            return False
        number = walk.tiles.body.block.args[walk.number]
        return self._pays(self._pair({number: VariationRate.OFTEN}, has_single=True))

    def do_blocks_pay(self) -> bool:
        """The tiles of two blocks, or one, each by a program of its own."""
        return self._pays(self._pair(self._rates_of_grid(), has_single=True))

    def does_program_pay(self) -> bool:
        """The same by one program, where a tile alone loses nothing by it: stages, or the time to
        find out which the second tile is.
        """
        if not self.gathers and _waits_for_second(self.func):
            return False
        if self.gathers and _is_gathered_in_words(self.plan):
            return False
        pair = self._pair(self._rates_of_grid(), has_single=False)
        if pair is None or not self._pays(pair):
            return False
        return pair.fewest_stages(self.target) >= fewest_stages(self.plan, self.target)

    def does_schedule_pay(self) -> bool:
        """Tile blocks that divide all tiles of the grid, where a warp of its own stores."""
        plan = self.plan
        if plan.warpgroups == 1 or not self._may_be_scheduled() or self.gathers:
            return False
        # Of integers the loop for one tile and that for two spill 8 bytes beside each other.
        if any(isinstance(element_of(dot.results[0]), IntegerType) for dot in plan.dots):
            return False
        # What TMA cannot write consumers store.
        if not all(isinstance(op, TmaWrite) for op in self.func.walk() if isinstance(op, WRITES)):
            return False
        pair = self._pair(self._rates_of_schedule(), has_single=True, is_loop=True)
        if pair is None or not self._pays(pair):
            return False
        joined = pair.joined_plan()
        return self._stores(joined, joined)

    def do_gathered_pay(self) -> bool:
        """Rows that are gathered, and results that are scattered: tile blocks divide all tiles of
        the grid, by one program for two tiles and for one.
        """
        plan = self.plan
        if not self.gathers or plan.warpgroups == 1 or len(plan.dots) != 1:
            return False
        # What is stored through views is not measured.
        writes = [op for op in self.func.walk() if isinstance(op, WRITES)]
        if _is_gathered_in_words(plan) or not all(isinstance(op, aa.StoreOp) for op in writes):
            return False
        rates: dict[SSAValue, VariationRate] = {
            op.result: rate_of([op.result]) for op in self._numbers() if not _axis(op)
        }
        if not rates or not may_loop_over_tiles(self.func) or self._guard() is not None:
            return False
        return self._pays(self._pair(rates, has_single=False, is_loop=True))

    def do_rows_pay(self) -> bool:
        """The same, two tiles as a large one of twice the rows."""
        plan = self.plan
        if plan.warpgroups > 1 or not self._may_be_scheduled():
            return False
        [planned] = plan.dots.values()
        if not isinstance(planned, WgmmaDot) or not isinstance(planned.dot, aa.DotOp):
            return False
        if planned.rows * planned.columns * TILES < LARGE_TILE:
            return False
        # With one step of an instruction a stage, waiting for stages is the limit: K of 16, f16
        # 4096^3, 287 us instead of 278 (H200).
        if shape_of(planned.dot.lhs)[-1] * planned.operand_bits // 8 <= K_BYTES:
            return False
        if not planned.may_be_by_columns or planned.accumulator_registers(1) > MAX_ACCUMULATORS:
            return False
        found = self.as_rows
        if found is None or self.gathers or any(map(_is_copied, found.rows.pair.loads)):
            return False
        return self._stores(plan, self._plan_of_rows(found.rows))

    def do_parts_pay(self) -> bool:
        """A large one of twice the rows in two parts, of a product whose columns threads read to
        be the rows of instructions, at least twice as wide as high.

        With twice the rows and half of the columns instructions have twice the columns, and each
        fragment serves twice as much: shared memory and registers are read less (decisions 66, 77).
        """
        plan = self.plan
        if plan.warpgroups == 1 or not self._may_be_scheduled():
            return False
        [planned] = plan.dots.values()
        if not isinstance(planned, WgmmaDot) or not isinstance(planned.dot, aa.DotOp):
            return False
        if planned.fragments != "rhs":
            return False
        # Of 8 bits small grids lose what large ones gain, but of partial sums: int8 2048^3 17.5 us
        # instead of 16.7, 4096^3 98.3 instead of 102.8 (H200).
        if planned.operand_bits < 8 * _WORD_BYTES and not planned.is_two_level:
            return False
        # Stores element by element, or of words, leave partial sums too few registers: 184 and 64
        # bytes spilled.
        if planned.is_two_level and not self._stores_halves():
            return False
        least = TILES * max(planned.columns, MOST_WARPGROUPS * ROWS_PER_WARPGROUP)
        if planned.rows < least or TILES * planned.columns not in planned.family.sizes_n:
            return False
        if find_region(planned.dot.result, 1, TILES) is None:
            return False
        return self.as_rows is not None

    @cached_property
    def as_rows(self) -> _AsRows | None:
        """The only product of twice the rows: of neighbours along the first axis of the grid for
        which that is possible.
        """
        [dot] = self.plan.dots
        if not isinstance(dot, aa.DotOp):
            return None
        for axis in sorted({_axis(op) for op in self._numbers()}):
            pair = self._pair(self._rates_of_schedule(axis), has_single=True, is_loop=True)
            if pair is None:
                continue
            try:
                return _AsRows(axis, RowsOfTwo(pair, dot))
            except CannotCutError:
                continue
        return None

    def _plan_of_rows(self, rows: RowsOfTwo) -> RolePlan:
        """As much as is known of the plan for tiles of twice the rows, by two warpgroups."""
        shape = replace(self.plan.shape, warpgroups=MOST_WARPGROUPS, producer_warps=_PRODUCER_WARPS)
        pipelines = [
            replace(
                pipeline,
                bytes=sum(
                    place_bytes(load) * (TILES if load.result in rows.cut.dims else 1)
                    for load in pipeline.loads
                ),
            )
            for pipeline in self.plan.pipelines
        ]
        return replace(self.plan, shape=shape, pipelines=tuple(pipelines))

    def _may_be_scheduled(self) -> bool:
        """Whether tile blocks may divide those of the grid, and there is one plain product."""
        if False in (self.options.switch(PREFER_TMA), self.options.switch(DELAY_TMA_STORE_WAIT)):
            return False
        if len(self.plan.dots) != 1 or not all(map(is_plain, self.plan.dots.values())):
            return False
        return may_loop_over_tiles(self.func)

    def _stores_halves(self) -> bool:
        """Whether threads store tiles of at most 16 bits, as much at once as they can."""
        warps = self.plan.shape.consumer_warps
        stores = [op for op in self.func.walk() if isinstance(op, aa.TiledStoreOp)]
        return not any(map(stores_words, stores)) and all(
            is_widest(plan_view_access(op.view, warps), storage_bits(element_of(op.value)))
            for op in stores
        )

    def _stores(self, one: RolePlan, many: RolePlan) -> bool:
        return plan_of_loop(self.func, one, many, self.target, self.options) is not None

    def _pays(self, pair: Neighbours | None) -> bool:
        """Whether the sums of both have registers, what both read is loaded once, and there are
        stages enough.
        """
        if pair is None or not pair.do_sums_fit():
            return False
        return pair.have_in_common() and pair.has_spare_stages(self.target)

    def _pair(self, rates: Rates, *, has_single: bool, is_loop: bool = False) -> Neighbours | None:
        """Two neighbouring tiles; `is_loop`: tile blocks shall go through many."""
        block, guard = self._block, self._guard()
        words = any(stores_words(op) and (is_loop or is_in_loop(op)) for op in self.func.walk())
        return neighbours(self.plan, block, rates, guard, has_single=has_single, stores_words=words)

    @property
    def _block(self) -> Block:
        if self.walk is not None:
            return self.walk.tiles.body.block
        return self.func.body.block if self.tiles is None else self.tiles.body.block

    def _guard(self) -> SSAValue | None:
        """The condition that the loop over K is under."""
        products = product_loop(self._block)
        return guard_of(products) if products is not None else None

    def _numbers(self) -> list[aa.GetProgramIdOp]:
        """What asks for the number of the tile block, and is used."""
        return [
            op
            for op in self.func.body.block.ops
            if isinstance(op, aa.GetProgramIdOp) and op.result.first_use is not None
        ]

    def _rates_of_grid(self) -> dict[SSAValue, VariationRate]:
        """The numbers of neighbours along a row of the grid."""
        axis = self.func.row_axis or 0
        return {op.result: rate_of([op.result]) for op in self._numbers() if _axis(op) == axis}

    def _rates_of_schedule(self, axis: int = 0) -> dict[SSAValue, VariationRate]:
        """The numbers of neighbours among all tiles: along one axis as they are, else quotients of
        the tile's number, but for that axis.
        """
        return {
            op.result: VariationRate.OFTEN if _axis(op) == axis else VariationRate.SELDOM
            for op in self._numbers()
        }


def _is_copied(load: Operation) -> bool:
    return isinstance(load, aa.TiledLoadOp) and not is_by_tma(load)


def is_candidate(func: aa.FuncOp) -> bool:
    """Whether it does not matter which tile block computes a tile."""
    operations = list(func.walk())
    asked = integer_hint(func, "num_cta_in_cga")
    if (func.cluster_size > 1 and func.in_rows is None) or asked not in (None, 1):
        return False
    if any(map(may_communicate, operations)) or not all(map(is_repeatable, operations)):
        return False
    if has_one_tile(func):
        return True
    if tile_loop(func) is None and list_walk(func) is None:
        return False
    # A tile must not need what the same tile block has stored before: another one does that tile.
    loads = [op for op in operations if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    return not any(map(follows_write, loads))


def has_one_tile(func: aa.FuncOp) -> bool:
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
    # Clusters in rows end where none of their tile blocks is there: whatever a pair of them does.
    left = early_exit(func.body.block) if func.in_rows is not None else None
    ends = [op for op in returns if left is None or not left.is_ancestor(op)]
    return len(ends) == 1 and not any(isinstance(op, STORES) for op in before)


def tile_loop(func: aa.FuncOp) -> aa.ForOp | None:
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


def _is_gathered_in_words(plan: RolePlan) -> bool:
    """Whether threads copy rows in pieces of 4 bytes: as one program such a kernel spills 12."""
    loads = [load for pipeline in plan.pipelines for load in pipeline.loads]
    return any(
        chunk_elements(load) * storage_bytes(element_of(load.result)) <= _WORD_BYTES
        for load in loads
        if isinstance(load, aa.LoadOp)
    )


def _only_adds_up(plan: RolePlan) -> bool:
    """Whether all products run on while the next iteration's are issued."""
    products = list(plan.dots.values())
    return is_running(products) and not any(product.is_smem_transposed for product in products)


def _waits_for_second(func: aa.FuncOp) -> bool:
    """Whether a tile alone would wait for what finds the second one: divisions of its number."""
    source = func.body.block
    products = product_loop(source)
    depending: set[SSAValue] = set()
    for op in source.ops:
        if op is products:
            return False
        is_number = isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == 0
        if is_number or any(operand in depending for operand in op.operands):
            depending.update(op.results)
            if isinstance(op, aa.DivIOp | aa.RemIOp):
                return True
    return False
