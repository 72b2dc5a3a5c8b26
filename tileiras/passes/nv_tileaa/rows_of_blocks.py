"""Two neighbouring tile blocks of few rows as one of twice the rows, where the grid is large.

    %p = program_id 0                     %both = the grid is large, and block %p + 1 is there
    %q = load %Q[%p, 0] of 64 rows    ->  %q = load %Q[%p, 0] of 128 rows, in steps of 64
    for { .. }; store %o, %O[%p, 0]       for { .. of 128 rows }
                                          store %o, %O[%p, 0], of which the rows end behind
                                          those of %p, or where %both holds with the memory

Half of the tile blocks have nothing to do then and leave. Where a tile block stays alone its second
warpgroup has no rows and does nothing (`roles/absent_rows`): so small grids fill as many SMs as
before.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Block, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from tileiras.codegen.target import Performance
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntTupleAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.rewriting import erase_op
from tileiras.planning.hints import integer_hint
from tileiras.planning.strategy import without_strategy
from tileiras.planning.tile_scheduler.joinable import TILES
from tileiras.planning.tile_scheduler.rows_of_blocks import (
    MoreRows,
    more_rows,
    rows_of_blocks,
    size_operand,
)

_SIGNED = SignednessAttr(Signedness.SIGNED)


def with_rows_of_blocks(func: aa.FuncOp, performance: Performance) -> aa.FuncOp | None:
    """A copy of a kernel whose tile blocks compute the rows of two; None if rows cannot be told
    apart from what both have in common.
    """
    changed = without_strategy(func)
    found = rows_of_blocks(changed)
    if found is None:
        return None
    _TwoBlocks(changed, found, TILES).write(found.number, performance)
    return changed


def with_whole_rows(func: aa.FuncOp, rows: int) -> aa.FuncOp | None:
    """A copy of a kernel whose tiles have so many rows, of which it stores those that it had."""
    changed = without_strategy(func)
    found = more_rows(changed)
    if found is None:
        return None
    access = found.accesses[0]
    [dim] = found.cut.dims_of(access)
    factor = rows // view_type_of(access.view).tile_shape[dim]
    _MoreRows(changed, found, factor).widen_all(None)
    return changed


class _MoreRows:
    """Gives tiles more rows, in place."""

    def __init__(self, func: aa.FuncOp, found: MoreRows, factor: int):
        self.func, self.found, self.factor = func, found, factor
        self.builder = ScalarBuilder()
        self.builder.location = func.location

    def widen_all(self, both: SSAValue | None) -> None:
        """All that has rows; where `both` holds those behind the first ones are stored, too."""
        for access in self.found.accesses:
            self._widen(access, both)
        for value, (dim,) in list(self.found.cut.dims.items()):
            self._enlarge(value, dim)

    def _widen(self, op: aa.TiledLoadOp | aa.TiledStoreOp, both: SSAValue | None) -> None:
        """A load or store of more rows, from the first ones on."""
        [dim] = self.found.cut.dims_of(op)
        view, memref = view_type_of(op.view), memref_of(op.view)
        tile = list(view.tile_shape)
        tile[dim] *= self.factor
        kept = (view.dim_map_dims, view.step_dims, view.padding, view.sparse)
        type = aa.TiledViewType(view.memref, IntTupleAttr(tile), *kept)
        self.builder.block, self.builder.location = Block(), op.location
        base = memref.result
        if isinstance(op, aa.TiledStoreOp):
            base = self._ending(op, memref, dim, both)
        made = self.builder.emit(aa.BlockTileOp, [base], [type]).results[0]
        self.builder.put_before(op)
        op.operands[list(op.operands).index(op.view)] = made

    def _ending(
        self, op: aa.TiledStoreOp, memref: aa.MakeMemRefOp, dim: int, both: SSAValue | None
    ) -> SSAValue:
        """The memory that is stored to; its rows end behind the first ones, unless `both` holds."""
        builder, view = self.builder, view_type_of(op.view)
        at = size_operand(op, view.dim_map[dim])
        if at is None:
            raise InternalError("a size that is known", where="tiles-per-cta")
        copy = memref.clone()
        whole, number = copy.operands[at], op.indices[dim]
        type, own = whole.type, number.type
        if not isinstance(type, IntegerType) or not isinstance(own, IntegerType):
            raise InternalError("a size that is no number", where="tiles-per-cta")
        following = builder.binary(aa.AddIOp, number, builder.integer(1, own))
        rows = builder.integer(view.tile_shape[dim], own)
        end = builder.converted(builder.binary(aa.MulIOp, following, rows), type, signed=True)
        limit = builder.emit(aa.MinIOp, [end, whole], [type], {"signedness": _SIGNED}).results[0]
        if both is not None:
            how = {"end_of_rows": UnitAttr()}
            limit = builder.emit(aa.SelectOp, [both, whole, limit], [type], how).results[0]
        copy.operands[at] = limit
        builder.block.add_op(copy)
        return copy.results[0]

    def _enlarge(self, value: SSAValue, dim: int) -> None:
        """Gives a tile more rows."""
        if not isinstance(value.type, TensorType):
            return
        shape = list(value.type.get_shape())
        shape[dim] *= self.factor
        type = TensorType(value.type.element_type, shape)
        op = Rewriter.replace_value_with_new_type(value, type).owner
        if isinstance(op, aa.ConstantOp):
            tile = TileType(op.value.type.element_type, shape)
            op.properties["value"] = DenseAttr(tile, op.value.raw.data)


class _TwoBlocks(_MoreRows):
    """Lets tile blocks compute the rows of two."""

    def write(self, own: OpResult, performance: Performance) -> None:
        """Numbers tile blocks, and gives all that has rows twice as many."""
        start = self.func.body.block.first_op
        if start is None:
            raise InternalError("a kernel has no end", where="tiles-per-cta")
        sms = performance.multiprocessors
        first, both = self._number(self.builder.place(aa.GetProgramIdOp, 0), sms)
        own.replace_all_uses_with(first)
        erase_op(own.op)
        self.builder.put_before(start)
        self.widen_all(both)
        _halve_occupancy(self.func)

    def _number(self, own: SSAValue, sms: int) -> tuple[SSAValue, SSAValue]:
        """The number of the (first) tile block, and whether there is a second one; others leave.

        Two at once are computed until at most one is left for each SM: these are alone.
        """
        builder = self.builder
        counts = [builder.place(aa.GetNumProgramsOp, axis) for axis in range(3)]
        row = builder.place(aa.GetProgramIdOp, 2)
        row = builder.binary(aa.MulIOp, row, counts[1])
        row = builder.binary(aa.AddIOp, row, builder.place(aa.GetProgramIdOp, 1))
        start = builder.binary(aa.MulIOp, row, counts[0])
        total = builder.binary(aa.MulIOp, builder.binary(aa.MulIOp, *counts[:2]), counts[2])
        wave = builder.integer(TILES * sms, i32)
        rest = builder.emit(aa.RemIOp, [total, wave], [i32], {"signedness": _SIGNED}).results[0]
        fits = self._compare(
            ComparisonPredicate.LESS_THAN_OR_EQUAL, rest, builder.integer(sms, i32)
        )
        whole = self._chosen(fits, builder.binary(aa.SubIOp, total, rest), total)
        left = builder.binary(aa.SubIOp, whole, start)
        zero, how = builder.integer(0, i32), {"signedness": _SIGNED}
        left = builder.emit(aa.MaxIOp, [left, zero], [i32], how).results[0]
        left = builder.emit(aa.MinIOp, [left, counts[0]], [i32], how).results[0]
        pairs = builder.emit(aa.ShRIOp, [left, builder.integer(1, i32)], [i32], how).results[0]
        both = self._compare(ComparisonPredicate.LESS_THAN, own, pairs)
        alone = builder.binary(aa.AddIOp, own, pairs)
        first = self._chosen(both, builder.scaled(own, TILES), alone)
        leaves = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, first, counts[0])
        then = Block([aa.ReturnOp.create(location=builder.location)])
        builder.only_if(leaves, then)
        return first, both

    def _chosen(self, condition: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
        """One number where a condition holds, else the other."""
        return self.builder.emit(aa.SelectOp, [condition, one, other], [one.type]).results[0]

    def _compare(self, how: ComparisonPredicate, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        properties = {"comparison_predicate": ComparisonPredicateAttr(how), "signedness": _SIGNED}
        return self.builder.emit(aa.CmpIOp, [lhs, rhs], [i1], properties).results[0]


def _halve_occupancy(func: aa.FuncOp) -> None:
    """As many tile blocks share an SM, in half as many CTAs."""
    asked = integer_hint(func, "occupancy")
    if asked is not None and func.hints is not None:
        hint = IntegerAttr(max(1, asked // TILES), i32)
        func.hints = DictionaryAttr({**func.hints.data, "occupancy": hint})
