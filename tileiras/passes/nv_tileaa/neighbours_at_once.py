"""Several neighbouring tile blocks, computed at once by a CTA that takes over tile blocks.

    for %t in [%p, %n) step %n {takes_over} {    for %t in [%p, groups) step .. {takes_over} {
      pre(%t)                                      %i, %j, .. = the tiles, and which %are there
      for %k { body }                       ->     pre(%i); pre(%j)
      post(%t)                                     for %k { body of %i; body of %j if it is there }
    }                                              post(%i);  if %j is there { post(%j) }
                                                 }

What all of them read is loaded once. Their sums lie in tensor memory, so that registers need not
hold them together.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.passes.nv_tileaa.static_tile_scheduler import GroupsOfTiles
from tileiras.planning.tile_scheduler.joinable import is_same_for_both, product_loop

Values = dict[SSAValue, SSAValue]
"""What stands for values of one tile."""


class NeighboursAtOnce:
    """Rewrites the loop of a dynamic tile scheduler that is given groups of tiles."""

    def __init__(self, groups: GroupsOfTiles):
        self.groups = groups
        self.builder = ScalarBuilder()
        self.tiles: list[Values] = [{} for _ in range(1 + len(groups.others))]

    def join(self) -> bool:
        """Does so; False where the loops over K of the tiles differ."""
        builder, loop = self.builder, self.groups.loop
        source = loop.body.block
        products = product_loop(source)
        if products is None:
            return False
        builder.location = loop.location
        builder.block = body = Block(arg_types=[i32])
        for values in self.tiles:
            values[source.args[0]] = body.args[0]
        operations = list(source.ops)
        place, numbered = operations.index(products), self._numbered(operations)
        for op in operations[:numbered]:
            self._copy(op)
        for values, (number, _) in zip(self.tiles[1:], self.groups.others, strict=True):
            values[self.groups.first] = self.tiles[0][number]
        for op in operations[numbered:place]:
            self._copy(op)
        are_there = [self.tiles[0][is_there] for _, is_there in self.groups.others]
        if not self._join_products(products, are_there):
            return False
        after = operations[place + 1 : -1]
        for op in after:
            body.add_op(op.clone(self.tiles[0]))
        for values, is_there in zip(self.tiles[1:], are_there, strict=True):
            then = Block()
            for op in after:
                then.add_op(op.clone(values))
            builder.only_if(is_there, then)
        builder.emit(aa.ContinueOp)
        loop.body.detach_block(source)
        source.erase()
        loop.body.add_block(body)
        return True

    def _numbered(self, operations: Sequence[Operation]) -> int:
        """Behind how many operations it is known which tiles these are."""
        makers = [value.owner for pair in self.groups.others for value in pair]
        places = [operations.index(maker) for maker in makers if isinstance(maker, Operation)]
        if len(places) != len(makers):
            raise InternalError("nothing numbers neighbours", where="tileas-dynamic-persistent")
        return max(places) + 1

    def _copy(self, op: Operation) -> None:
        """An operation of one tile, for each of them; once where it is the same for all."""
        first, *others = self.tiles
        self.builder.block.add_op(op.clone(first))
        for values in others:
            if is_same_for_both(op) and self._are_same(op.operands, values):
                values.update((result, first[result]) for result in op.results)
            else:
                self.builder.block.add_op(op.clone(values))

    def _are_same(self, needed: Sequence[SSAValue], values: Values) -> bool:
        """Whether values are those of the first tile."""
        first = self.tiles[0]
        return all(first.get(value, value) is values.get(value, value) for value in needed)

    def _of_all(self, needed: Sequence[SSAValue]) -> list[SSAValue]:
        """Values of the first tile, then those of the next, and so on."""
        return [values.get(value, value) for values in self.tiles for value in needed]

    def _join_products(self, loop: aa.ForOp, are_there: Sequence[SSAValue]) -> bool:
        """One loop over K for all tiles, operation by operation; those that are not there have no
        products.
        """
        builder = self.builder
        bounds = [loop.lower_bound, loop.upper_bound, loop.step]
        if not all(self._are_same(bounds, values) for values in self.tiles):
            return False
        source, outer, count = loop.body.block, builder.block, len(self.tiles)
        carried = [arg.type for arg in source.args[1:]]
        operands = [*self._of_all(bounds)[: len(bounds)], *self._of_all(loop.init_values)]
        builder.block = block = Block(arg_types=[source.args[0].type, *carried * count])
        for number, values in enumerate(self.tiles):
            start = 1 + number * len(carried)
            own = [block.args[0], *block.args[start : start + len(carried)]]
            values.update(zip(source.args, own, strict=True))
        for op in source.ops:
            builder.location = op.location
            if isinstance(op, aa.ContinueOp):
                builder.emit(aa.ContinueOp, self._of_all(op.operands))
                continue
            self._copy(op)
            if isinstance(op, aa.ProductOp):
                for values, is_there in zip(self.tiles[1:], are_there, strict=True):
                    product = values[op.result].owner
                    if isinstance(product, aa.ProductOp):
                        product.operands = [*product.operands, is_there]
        builder.block, builder.location = outer, loop.location
        made = builder.emit(aa.ForOp, operands, carried * count, loop.properties, [Region(block)])
        for number, values in enumerate(self.tiles):
            start = number * len(carried)
            own = made.results[start : start + len(carried)]
            values.update(zip(loop.results, own, strict=True))
        return True
