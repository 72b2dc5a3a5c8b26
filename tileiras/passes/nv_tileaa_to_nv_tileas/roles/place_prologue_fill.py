"""Writes a prologue fill into the consumers' program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntTupleAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.views import memref_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.passes.op_builder import OpBuilder
from tileiras.planning.operands.tma import OperandLoad, contiguous_axis, load_swizzle, place_bytes
from tileiras.planning.schedule.prologue import (
    PrologueFill,
    is_number_of,
    loop_over_tiles,
)


def one_time(builder: OpBuilder) -> list[SSAValue]:
    """The bounds of a loop of one iteration, for what comes once without one."""
    return [builder.integer(bound, i32) for bound in (0, 1, 1)]


def is_at_start(
    builder: OpBuilder, loop: Operation, value_of: Callable[[SSAValue], SSAValue]
) -> SSAValue:
    """i1: whether the loop over tiles in front of a last tile's loop runs no iteration.

    `value_of` gives what stands for a scalar of the kernel in the program that is built.
    """
    tiles = loop_over_tiles(loop) if isinstance(loop, aa.ForOp) else None
    if tiles is None:
        raise InternalError("a last tile comes behind no others", where="prologue fill")
    limits = [value_of(tiles.lower_bound), value_of(tiles.upper_bound)]
    return _is_empty(builder, tiles, limits)


def first_tile_values(
    materializer: Materializer, scalars: Sequence[Operation], tiles: aa.ForOp
) -> dict[SSAValue, SSAValue]:
    """Computes before a loop over tiles where the operands of the first one lie."""
    made: dict[SSAValue, SSAValue] = {}
    made[tiles.body.block.args[0]] = materializer.plain(tiles.lower_bound)
    for op in scalars:
        operands = [made.get(value) or materializer.plain(value) for value in op.operands]
        types = [result.type for result in op.results]
        copy = materializer.emit(type(op), operands, types, op.properties)
        made.update(zip(op.results, copy.results, strict=True))
    return made


def first_tile_bounds(
    materializer: Materializer, loop: aa.ForOp, tiles: aa.ForOp, made: Mapping[SSAValue, SSAValue]
) -> list[SSAValue]:
    """The bounds of a loop for the first tile; where there is no tile it has no iteration.

    A tile block that draws others from a queue has one of its own.
    """
    bounds = (loop.lower_bound, loop.upper_bound, loop.step)
    lower, upper, step = (made.get(value) or materializer.plain(value) for value in bounds)
    if tiles.takes_over is not None:
        return [lower, upper, step]
    limits = [materializer.plain(tiles.lower_bound), materializer.plain(tiles.upper_bound)]
    is_none = _is_empty(materializer, tiles, limits)
    until = materializer.emit(aa.SelectOp, [is_none, lower, upper], [upper.type]).results[0]
    return [lower, until, step]


def is_first_tile(
    builder: OpBuilder, tiles: aa.ForOp, value_of: Callable[[SSAValue], SSAValue]
) -> SSAValue:
    """i1: whether a loop over tiles is in its first iteration: no number comes twice."""
    numbers = [value_of(tiles.body.block.args[0]), value_of(tiles.lower_bound)]
    return _compared(builder, ComparisonPredicate.EQUAL, tiles, numbers)


def _is_empty(builder: OpBuilder, loop: aa.ForOp, limits: Sequence[SSAValue]) -> SSAValue:
    """i1: whether a loop with these limits runs no iteration."""
    return _compared(builder, ComparisonPredicate.GREATER_THAN_OR_EQUAL, loop, limits)


def _compared(
    builder: OpBuilder, how: ComparisonPredicate, loop: aa.ForOp, values: Sequence[SSAValue]
) -> SSAValue:
    """A comparison of numbers of a loop."""
    signedness = Signedness.SIGNED if loop.unsigned_cmp is None else Signedness.UNSIGNED
    properties = {
        "comparison_predicate": ComparisonPredicateAttr(how),
        "signedness": SignednessAttr(signedness),
    }
    return builder.emit(aa.CmpIOp, values, [i1], properties).results[0]


def place_prologue_fill(
    materializer: Materializer,
    start: PrologueFill,
    pipeline: SSAValue,
    bounds: Sequence[SSAValue],
    skipped: Mapping[OperandLoad, SSAValue],
    made: Mapping[SSAValue, SSAValue] | None = None,
) -> None:
    """Copies the tiles of the first iterations of a loop with these bounds into the stages.

    `skipped`: loads that need not be copied under a condition. `made`: what stands for scalars that
    come later in the kernel.
    """
    early = made or {}
    views: list[SSAValue] = []
    indices: list[SSAValue] = []
    follows: list[int] = []
    axes: list[int] = []
    for load in start.loads:
        axis, memref = contiguous_axis(load), materializer.plain(memref_of(load.view).result)
        if axis is None:
            raise InternalError("a tile brought to shared memory has no contiguous dim")
        views += materializer.emit(aa.BlockTileOp, [memref], [load.view.type]).results
        axes.append(axis)
        for index in load.indices:
            follows.append(int(is_number_of(index, start.before)))
            own = bounds[0] if follows[-1] else early.get(index)
            indices.append(materializer.plain(index) if own is None else own)
    sizes = [place_bytes(load) for load in start.loads]
    conditions = [skipped[load] for load in start.loads if load in skipped]
    segments = [1, 1, 1, 1, len(views), len(indices), len(conditions)]
    properties: dict[str, Attribute] = {
        "follows": IntTupleAttr(follows),
        "axes": IntTupleAttr(axes),
        "offsets": IntTupleAttr([sum(sizes[:number]) for number in range(len(sizes))]),
        "swizzles": IntTupleAttr([load_swizzle(load) for load in start.loads]),
        "skipped": IntTupleAttr([int(load in skipped) for load in start.loads]),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, segments),
    }
    if start.stages is not None:
        properties["stages"] = IntAttr(start.stages)
    if start.by_bytes:
        properties["by_bytes"] = UnitAttr()
    if start.hurried:
        properties["hurried"] = UnitAttr()
    if start.at_start:
        properties["at_start"] = UnitAttr()
    if start.first_tile:
        properties["first_tile"] = UnitAttr()
    materializer.emit(
        pl.PrologueFillOp, [pipeline, *bounds, *views, *indices, *conditions], (), properties
    )
