"""A kernel with one tile a block, as a persistent one: tile blocks divide those of the grid by a
static tile scheduler.

    %x = get_program_id 0                      %n = get_grid_size 0; ...  %p = get_program_id 0
    views; loop over K; store          ->      views; for %t in [%p, %n) step get_num_programs 0 {
                                               %x = %t; loop over K; store }

There are as many tile blocks as SMs then (`static_tile_scheduler`); the others that are launched
leave at once. So a CTA loads the next tile while it stores one, and none waits for another one to
end.

Of tiles that are computed two at once an iteration has the number of two neighbours along the first
axis (`with_pairs_of_tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from tileiras.analysis.persistent import walks_over_blocks
from tileiras.codegen.target import Performance
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    IntegerOverflow,
    IntegerOverflowAttr,
    IntTupleAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileas.warp_roles import TILE_ORDER
from tileiras.passes.nv_tileaa.cluster_blocks import LESS, compared
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.strategy import without_strategy
from tileiras.planning.tile_scheduler.joinable import TILES, may_loop_over_tiles, varying_operations

if TYPE_CHECKING:
    from tileiras.planning.tile_scheduler.tiles_at_once import TilesAtOnce

_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)
_QUOTIENT = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": _UNSIGNED}
_WRAPPING = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
_ROUNDED_UP = {"rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF), "signedness": _UNSIGNED}
_WAVES = {
    "rounding": RoundingModeAttr(RoundingMode.POSITIVE_INF),
    "signedness": SignednessAttr(Signedness.SIGNED),
}
_AT_MOST = compared(ComparisonPredicate.LESS_THAN_OR_EQUAL)


@dataclass(frozen=True)
class PairsOfTiles:
    """A kernel whose iterations are for two neighbours along the first axis of the grid.

    `first`: the number along it of the first tile, in the loop. `both` (i1): whether there is a
    second one.
    """

    func: aa.FuncOp
    loop: aa.ForOp
    first: SSAValue
    both: SSAValue


@dataclass(frozen=True)
class GroupsOfTiles:
    """A kernel whose iterations are for several neighbours along an axis of the grid.

    `first`: the number along it of the first tile, in the loop. `others`: the numbers of those that
    follow, and whether they are there (i1).
    """

    func: aa.FuncOp
    loop: aa.ForOp
    first: SSAValue
    others: tuple[tuple[SSAValue, SSAValue], ...]


def with_static_tile_scheduler(
    func: aa.FuncOp, *, may_have_several: bool = False, pair_axis: int = 0
) -> aa.FuncOp | None:
    """A copy of the kernel that loops over tile blocks, None if it is not one as described.

    It may have several loops one after the other only if that is said. Whether tile blocks may do
    each other's work is for the caller to know. `pair_axis`: two tiles that follow each other are
    neighbours along that axis of the grid.
    """
    changed = _copied(func, "static_tile_scheduler", has_several=may_have_several)
    if changed is None:
        return None
    _Scheduler(changed).write(pair_axis)
    return changed


def with_pairs_of_tiles(func: aa.FuncOp, performance: Performance) -> PairsOfTiles | None:
    """The same, where an iteration is for two tiles if the grid is large, whose second one the
    caller has to add; None, too, where tiles have no neighbours along the first axis.
    """
    changed = _copied(func, "static_tile_scheduler")
    scheduler = _Scheduler(changed) if changed is not None else None
    if changed is None or scheduler is None or 0 not in scheduler.axes:
        return None
    scheduler.write_pairs(performance)
    loop = next(op for op in changed.body.block.ops if isinstance(op, aa.ForOp))
    return PairsOfTiles(changed, loop, *scheduler.pair)


def with_dynamic_tile_scheduler(func: aa.FuncOp) -> aa.FuncOp | None:
    """The same, with a loop that takes over tile blocks that have not started.

    A tile may have several loops with products, one after another (causal attention has).
    """
    changed = _copied(func, "dynamic_tile_scheduler", has_several=True)
    if changed is None:
        return None
    _Scheduler(changed, takes_over=True).write()
    return changed


def with_groups_of_tiles(func: aa.FuncOp, tiles: TilesAtOnce) -> GroupsOfTiles | None:
    """The same, where an iteration is for several neighbours along an axis if the grid is so large
    that it pays; the caller has to add those behind the first. None, too, where it cannot be so.

    Tile blocks that are numbered behind the last group leave at once.
    """
    changed = _copied(func, "dynamic_tile_scheduler")
    scheduler = _Scheduler(changed, takes_over=True) if changed is not None else None
    if changed is None or scheduler is None or tiles.axis not in scheduler.axes:
        return None
    first, others = scheduler.write_groups(tiles)
    loop = next(op for op in changed.body.block.ops if isinstance(op, aa.ForOp))
    return GroupsOfTiles(changed, loop, first, others)


def with_tile_queue(func: aa.FuncOp, order: tuple[int, int, int] | None) -> aa.FuncOp | None:
    """The same, with as many tile blocks as SMs, which draw the numbers of tiles from a queue, in
    an order of all that are launched if there is one.
    """
    changed = _copied(func, "static_tile_scheduler", has_several=True, is_guarded=True)
    if changed is None:
        return None
    changed.properties["tile_queue"] = IntegerAttr(1, i32)
    if order is not None:
        changed.attributes[TILE_ORDER] = IntTupleAttr(order)
    _Scheduler(changed, takes_over=True).write()
    return changed


def drawing_from_queue(func: aa.FuncOp) -> aa.FuncOp | None:
    """A copy of a kernel with a static tile scheduler that draws its tiles from a queue; None if it
    has no loop over tiles.
    """
    changed = without_strategy(func)
    loops = [op for op in changed.body.block.ops if isinstance(op, aa.ForOp)]
    over_tiles = [loop for loop in loops if walks_over_blocks(loop)]
    if len(over_tiles) != 1:
        return None
    over_tiles[0].properties["takes_over"] = UnitAttr()
    is_one = isinstance(over_tiles[0].step.owner, aa.GetNumProgramsOp)
    changed.properties["tile_queue"] = IntegerAttr(1 if is_one else TILES, i32)
    return changed


def pairs_pay(builder: ScalarBuilder, total: SSAValue, performance: Performance) -> SSAValue:
    """i1: whether so many tiles take less time two at once."""
    at_once = performance.multiprocessors
    times: list[SSAValue] = []
    for size, wave in (
        (TILES * at_once, performance.two_tiles_wave),
        (at_once, performance.single_wave),
    ):
        operands = [total, builder.integer(size, i32)]
        waves = builder.emit(aa.DivIOp, operands, [i32], _WAVES).results[0]
        times.append(builder.scaled(waves, wave))
    return builder.emit(aa.CmpIOp, times, [i1], _AT_MOST).results[0]


def _copied(
    func: aa.FuncOp, scheduler: str, *, has_several: bool = False, is_guarded: bool = False
) -> aa.FuncOp | None:
    if not may_loop_over_tiles(func, may_have_several=has_several, may_be_guarded=is_guarded):
        return None
    changed = without_strategy(func)
    for op in list(changed.walk()):
        if isinstance(op, aa.GetNumProgramsOp):
            properties, location = op.properties, op.location
            size = aa.GetGridSizeOp.create(
                result_types=[i32], properties=properties, location=location
            )
            Rewriter.replace_op(op, size)
    changed.properties[scheduler] = UnitAttr()
    return changed


class _Scheduler:
    """Moves what varies into a loop over tiles, whose number decides the numbers of the block."""

    def __init__(self, func: aa.FuncOp, *, takes_over: bool = False):
        self.func, self.source = func, func.body.block
        self.takes_over = takes_over
        self.numbers = [op for op in func.walk() if isinstance(op, aa.GetProgramIdOp)]
        self.varying = varying_operations(func)
        self.axes = {op.axis.value.data for op in self.numbers if op.result.first_use is not None}
        self.before, self.inside = ScalarBuilder(), ScalarBuilder()
        self.before.location = self.inside.location = self.numbers[0].location
        self.inside.block = Block(arg_types=[i32])

    def write(self, pair_axis: int = 0) -> None:
        """An iteration for each tile."""
        number = self.inside.block.args[0]
        if not pair_axis:
            sizes, total = self._sizes()
            self._write(_places(self.inside, number, sizes), total)
            return
        sizes = [self.before.place(aa.GetGridSizeOp, axis) for axis in range(max(self.axes) + 1)]
        below = self._product(sizes[:pair_axis])
        places = _paired_places(self.inside, number, sizes, pair_axis, below)
        self._write(places, self._product([below, *sizes[pair_axis:]]))

    def write_pairs(self, performance: Performance) -> None:
        """An iteration for two tiles, `pair`, where the grid has so many that it pays."""
        before, inside = self.before, self.inside
        [along, *others], total = self._sizes()
        pays = pairs_pay(before, total, performance)
        operands = [along, before.integer(TILES, i32)]
        halves = before.emit(aa.DivIOp, operands, [i32], _ROUNDED_UP).results[0]
        steps = before.emit(aa.SelectOp, [pays, halves, along], [i32]).results[0]
        total = self._product([steps, *others])
        [number, *places] = _places(inside, inside.block.args[0], [steps, *others])
        operands = [pays, inside.scaled(number, TILES), number]
        first = inside.emit(aa.SelectOp, operands, [i32]).results[0]
        following = inside.binary(aa.AddIOp, first, inside.integer(1, i32))
        is_there = inside.emit(aa.CmpIOp, [following, along], [i1], LESS).results[0]
        both = inside.emit(aa.AndIOp, [pays, is_there], [i1]).results[0]
        self.pair = (first, both)
        self._write([first, *places], total)

    def write_groups(
        self, tiles: TilesAtOnce
    ) -> tuple[SSAValue, tuple[tuple[SSAValue, SSAValue], ...]]:
        """An iteration for neighbours along an axis where that takes less time, else for each tile:
        the number of the first, those of the others and whether they are there (i1).
        """
        before, inside, first_op = self.before, self.inside, self.source.first_op
        sizes, total = self._sizes()
        along = sizes[tiles.axis]
        operands = [along, before.integer(tiles.count, i32)]
        groups = before.emit(aa.DivIOp, operands, [i32], _ROUNDED_UP).results[0]
        sizes[tiles.axis] = groups
        joined = self._product(sizes)
        times = [self._time(joined, tiles.all, tiles), self._time(total, tiles.one, tiles)]
        pays = before.emit(aa.CmpIOp, times, [i1], _AT_MOST).results[0]
        sizes[tiles.axis] = before.emit(aa.SelectOp, [pays, groups, along], [i32]).results[0]
        total = before.emit(aa.SelectOp, [pays, joined, total], [i32]).results[0]
        number = before.place(aa.GetProgramIdOp, 0)
        leaves = before.emit(aa.CmpIOp, [total, number], [i1], _AT_MOST).results[0]
        then = Block()
        then.add_op(aa.ReturnOp.create(location=before.location))
        before.only_if(leaves, then)
        if first_op is not None:
            # In front of all else: a tile block that leaves there takes nanoseconds.
            before.put_before(first_op)
        places = _places(inside, inside.block.args[0], sizes)
        number = places[tiles.axis]
        operands = [pays, inside.scaled(number, tiles.count), number]
        first = places[tiles.axis] = inside.emit(aa.SelectOp, operands, [i32]).results[0]
        others: list[tuple[SSAValue, SSAValue]] = []
        for by in range(1, tiles.count):
            following = inside.binary(aa.AddIOp, first, inside.integer(by, i32))
            is_there = inside.emit(aa.CmpIOp, [following, along], [i1], LESS).results[0]
            is_there = inside.emit(aa.AndIOp, [pays, is_there], [i1]).results[0]
            others.append((following, is_there))
        self._write(places, total)
        return first, tuple(others)

    def _time(self, total: SSAValue, each: int, tiles: TilesAtOnce) -> SSAValue:
        """What so many iterations take, of which clusters do some at once."""
        operands = [total, self.before.integer(tiles.at_once, i32)]
        waves = self.before.emit(aa.DivIOp, operands, [i32], _WAVES).results[0]
        return self.before.scaled(waves, each)

    def _sizes(self) -> tuple[list[SSAValue], SSAValue]:
        """Of the grid along its axes, and of all of it.

        Tile blocks that differ in nothing that they ask for do the same.
        """
        sizes = [self.before.place(aa.GetGridSizeOp, axis) for axis in range(3)]
        if self.axes <= {0} and TILE_ORDER not in self.func.attributes:
            sizes = sizes[:1]
        return sizes, self._product(sizes)

    def _product(self, sizes: Sequence[SSAValue]) -> SSAValue:
        total = sizes[0]
        for size in sizes[1:]:
            total = self.before.binary(aa.MulIOp, total, size)
        return total

    def _write(self, places: Sequence[SSAValue], total: SSAValue) -> None:
        """The loop over so many iterations, for tiles at `places`."""
        before, source, body = self.before, self.source, self.inside.block
        end = source.last_op
        first = before.place(aa.GetProgramIdOp, 0)
        is_own = self.takes_over and self.func.tile_queue is None
        step = total if is_own else before.place(aa.GetNumProgramsOp, 0)
        how = {"takes_over": UnitAttr()} if self.takes_over else {}
        for op in self.numbers:
            if op.axis.value.data in self.axes:
                op.result.replace_all_uses_with(places[op.axis.value.data])
        for op in list(source.ops):
            if op in self.varying and op is not end:
                op.detach()
                if op in self.numbers:
                    op.erase()
                else:
                    body.add_op(op)
        self.inside.emit(aa.ContinueOp)
        before.emit(aa.ForOp, [first, total, step], (), how, [Region(body)])
        if end is not None:
            before.put_before(end)


def _paired_places(
    builder: ScalarBuilder,
    number: SSAValue,
    sizes: Sequence[SSAValue],
    axis: int,
    below: SSAValue,
) -> list[SSAValue]:
    """The same where two neighbours along `axis` come first, then the axes in front of it, of
    which there are `below` places, then other pairs; a last place without a neighbour is alone.
    """
    one, others, beyond = builder.integer(1, i32), sizes[axis + 1 :], list[SSAValue]()
    if others:
        slab = builder.binary(aa.MulIOp, below, sizes[axis])
        outer, number = _divided(builder, number, slab)
        beyond = _places(builder, outer, others)
    pair, rest = _divided(builder, number, builder.scaled(below, TILES))
    first = builder.scaled(pair, TILES)
    following = builder.binary(aa.AddIOp, first, one)
    is_pair = builder.emit(aa.CmpIOp, [following, sizes[axis]], [i1], LESS).results[0]
    half, odd = _divided(builder, rest, builder.integer(TILES, i32))
    inner = builder.emit(aa.SelectOp, [is_pair, half, rest], [i32]).results[0]
    second = builder.binary(aa.AddIOp, first, odd)
    place = builder.emit(aa.SelectOp, [is_pair, second, first], [i32]).results[0]
    return [*_places(builder, inner, sizes[:axis]), place, *beyond]


def _divided(builder: ScalarBuilder, number: SSAValue, size: SSAValue) -> tuple[SSAValue, SSAValue]:
    """A quotient and what is left."""
    rest = builder.emit(aa.DivIOp, [number, size], [i32], _QUOTIENT).results[0]
    whole = builder.binary(aa.MulIOp, rest, size)
    return rest, builder.emit(aa.SubIOp, [number, whole], [i32], _WRAPPING).results[0]


def _places(builder: ScalarBuilder, number: SSAValue, sizes: Sequence[SSAValue]) -> list[SSAValue]:
    """The numbers along all axes of the tile block with a number among all, x fastest."""
    found: list[SSAValue] = []
    for size in sizes[:-1]:
        number, place = _divided(builder, number, size)
        found.append(place)
    return [*found, number]
