"""Two neighbouring tile blocks of a kernel with one tile a block, computed at once by one of them.

Half of the tile blocks have nothing to do then and leave before anything else, which takes 2.3 ns
each (H100, CTAs of 384 threads and 176 KB of shared memory). It pays where there are enough tiles
for all SMs: the kernel finds out from the size of its grid.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.codegen.target import Performance
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    Signedness,
    SignednessAttr,
)
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.static_tile_scheduler import pairs_pay
from tileiras.passes.nv_tileaa.two_tiles import TwoTiles, apart
from tileiras.planning.tile_scheduler.guards import guard_of, made_from
from tileiras.planning.tile_scheduler.joinable import TILES, product_loop
from tileiras.planning.warp_roles.early_exit import early_exit

GRID_AXES = (0, 1, 2)
"""Fixed: axes of a grid."""


class TwoTilesOfGrid(TwoTiles):
    """Rewrites the body of a kernel for two tile blocks at once."""

    def __init__(self, func: aa.FuncOp, performance: Performance, *, as_one: bool):
        super().__init__(SignednessAttr(Signedness.SIGNED))
        self.func = func
        self.axis = func.row_axis or 0
        """Along which tile blocks are neighbours: of a row, which read the same remote tiles."""
        self.performance = performance
        self.as_one = as_one
        """Whether one loop over K, and one program behind it, serves two tiles and one alone."""
        self.views: list[Operation] = []
        """What makes the second tile's views for what follows its products."""

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ."""
        func, builder = self.func, self.builder
        source = func.body.block
        products = product_loop(source)
        guard = guard_of(products) if products is not None else None
        if products is None or (guard is not None and made_from(guard) is None):
            return False
        builder.location = func.location
        builder.block = body = Block(arg_types=[arg.type for arg in source.args])
        for values in self.values:
            values.update(zip(source.args, body.args, strict=True))
        numbers, both = self._number(guard)
        operations = list(source.ops)
        place = operations.index(products)
        before, after = operations[:place], operations[place + 1 :]
        for op in list(before):
            if isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == self.axis:
                before.remove(op)
                for values, number in zip(self.values, numbers, strict=True):
                    values[op.result] = number
        for op in before:
            if not self._is_known(op):
                body.add_op(op.clone(self.values[0]))
        if self.as_one:
            for op in before:
                if not self._is_known(op, 1):
                    self._copy_second(op)
            if not self._join_products(products, second_if=both):
                return False
            self._finish_each(products, after[:-1], both)
            body.add_op(after[-1].clone(self.values[0]))
        else:
            if not self._multiply(products, before, after, both):
                return False
            self._finish(after, both)
        func.body.detach_block(source)
        source.erase()
        func.body.add_block(body)
        return True

    def _number(self, guard: SSAValue | None) -> tuple[list[SSAValue], SSAValue]:
        """The numbers of the tile blocks along their axis, and whether there are two.

        Without a second one its number is the first one's. Those whose guard does not hold are not
        there.
        """
        builder, less = self.builder, ComparisonPredicate.LESS_THAN
        own = builder.place(aa.GetProgramIdOp, self.axis)
        counts = [builder.place(aa.GetNumProgramsOp, axis) for axis in GRID_AXES]
        total = builder.binary(aa.MulIOp, builder.binary(aa.MulIOp, *counts[:2]), counts[2])
        pays = pairs_pay(builder, total, self.performance)
        doubled = builder.scaled(own, TILES)
        first = builder.emit(aa.SelectOp, [pays, doubled, own], [i32]).results[0]
        following = builder.binary(aa.AddIOp, first, builder.integer(1, i32))
        beyond = following
        if self.func.in_rows is not None:
            beyond = builder.binary(aa.MulIOp, following, self._copied(self._blocks_of_cluster()))
        is_there = self._compare(less, beyond, counts[self.axis])
        both = builder.emit(aa.AndIOp, [pays, is_there], [i1]).results[0]
        second = builder.emit(aa.SelectOp, [both, following, first], [i32]).results[0]
        leaves = self._compare(ComparisonPredicate.GREATER_THAN_OR_EQUAL, first, counts[0])
        if guard is not None:
            first, second, both, leaves = self._guarded(guard, first, second, both, leaves)
        # In rows the kernel itself ends the clusters that have nothing to do.
        if self.func.in_rows is None:
            self._leave_if(leaves)
        return [first, second], both

    def _guarded(
        self,
        guard: SSAValue,
        first: SSAValue,
        second: SSAValue,
        both: SSAValue,
        leaves: SSAValue,
    ) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """The same, of tile blocks whose guards hold, which are then known to."""
        builder = self.builder
        holds = [self._copied(guard, number) for number in (first, second)]
        either = builder.emit(aa.OrIOp, holds, [i1]).results[0]
        for operand in holds:
            both = builder.emit(aa.AndIOp, [both, operand], [i1]).results[0]
        first = builder.emit(aa.SelectOp, [holds[0], first, second], [i32]).results[0]
        second = builder.emit(aa.SelectOp, [both, second, first], [i32]).results[0]
        yes = builder.integer(1, i1)
        ends = builder.emit(aa.SelectOp, [either, leaves, yes], [i1]).results[0]
        for values in self.values:
            values[guard] = yes
        return first, second, both, ends

    def _blocks_of_cluster(self) -> SSAValue:
        """How many tile blocks along their row a cluster has that lies in rows."""
        for op in self.func.body.block.ops:
            if isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == self.axis:
                for use in op.result.uses:
                    if isinstance(use.operation, aa.MulIOp):
                        return use.operation.operands[1 - use.index]
        raise InternalError("a cluster in rows does not number its blocks", where="tiles-per-cta")

    def _copied(self, value: SSAValue, number: SSAValue | None = None) -> SSAValue:
        """A scalar of the kernel, where its tile blocks are numbered, for one of a number."""
        values: dict[SSAValue, SSAValue] = dict(self.values[0])
        for op in made_from(value) or ():
            is_number = isinstance(op, aa.GetProgramIdOp) and op.axis.value.data == self.axis
            if is_number and number is not None:
                values[op.results[0]] = number
            else:
                self.builder.block.add_op(op.clone(values))
        return values[value]

    def _leave_if(self, condition: SSAValue) -> None:
        """Ends the tile block."""
        then = Block()
        then.add_op(aa.ReturnOp.create(location=self.builder.location))
        self.builder.only_if(condition, then)

    def _multiply(
        self,
        loop: aa.ForOp,
        before: Sequence[Operation],
        after: Sequence[Operation],
        both: SSAValue,
    ) -> bool:
        """The loop over K of both tiles, behind what the second one needs, or that of the first.

        Gives the results of both, and what follows needs of what comes before. Views are made again
        there: their users must see how.
        """
        builder, outer = self.builder, self.builder.block
        first, second = self.values
        alone = dict(first)
        two, left = Block(), early_exit(self.func.body.block)
        # Tensor maps of tiles that a cluster shares are made once, outside of branches.
        builder.block = two if self.func.in_rows is None else outer
        for op in before:
            if op is not left and not self._is_known(op, 1):
                self._copy_second(op)
        builder.block = two
        if not self._join_products(loop):
            return False
        differing = [value for value in _used(before, after) if first[value] is not second[value]]
        self.views, others = apart(differing)
        needed = [value for value in others if first[value] is not second[value]]
        results = [*self._both(loop.results), *(second[value] for value in needed)]
        builder.location = loop.location
        builder.emit(aa.YieldOp, results)
        builder.block = one = Block()
        one.add_op(single := loop.clone(alone))
        starts = [alone.get(value, value) for value in loop.init_values]
        builder.emit(aa.YieldOp, [*single.results, *starts, *(alone[value] for value in needed)])
        builder.block = outer
        types = [value.type for value in results]
        branch = builder.emit(aa.IfOp, [both], types, {}, [Region(two), Region(one)])
        size = len(loop.results)
        first.update(zip(loop.results, branch.results[:size], strict=True))
        second.update(zip([*loop.results, *needed], branch.results[size:], strict=True))
        return True

    def _finish(self, after: Sequence[Operation], both: SSAValue) -> None:
        """What follows the products: of the first tile, and of the second if there is one."""
        body, (first, second) = self.builder.block, self.values
        for op in after[:-1]:
            body.add_op(op.clone(first))
        then = Block()
        for op in (*self.views, *after[:-1]):
            then.add_op(op.clone(second))
        self.builder.only_if(both, then)
        body.add_op(after[-1].clone(first))


def _used(before: Sequence[Operation], after: Sequence[Operation]) -> list[SSAValue]:
    """What the first operations give to the others."""
    given = {result for op in before for result in op.results}
    found: dict[SSAValue, None] = {}
    for outer in after:
        for op in outer.walk():
            found.update(dict.fromkeys(value for value in op.operands if value in given))
    return list(found)
