"""Tile blocks that divide all tiles of the grid, two at once, by one program for two and for one.

    for %t in [%p, %n) step %s {            for %t in [%p, half of %n) step %s {
      pre(%t)                                 %i, %j = the tiles, and whether there are %both
      for %k { body }                 ->      pre(%i); pre(%j)
      post(%t)                                for %k { body of %i; body of %j if %both }
    }                                         for the tile of %i, and that of %j if %both { post }
                                            }

It is for loops whose rows are gathered: no warp can store for the consumers, but the producer
gathers the next tiles' rows while they do.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.static_tile_scheduler import PairsOfTiles
from tileiras.passes.nv_tileaa.two_tiles import TwoTiles
from tileiras.planning.tile_scheduler.guards import guard_of
from tileiras.planning.tile_scheduler.joinable import product_loop


class TwoTilesByOneLoop(TwoTiles):
    """Rewrites the loop of a static tile scheduler that is given pairs of tiles."""

    def __init__(self, pairs: PairsOfTiles):
        super().__init__(SignednessAttr(Signedness.SIGNED))
        self.pairs = pairs

    def join(self) -> bool:
        """Does so; False where the loops over K of two tiles differ, or work is guarded."""
        builder, loop, both = self.builder, self.pairs.loop, self.pairs.both
        maker = both.owner
        if not isinstance(maker, Operation):
            raise InternalError("nothing says whether there is a pair", where="tiles-per-cta")
        source = loop.body.block
        products = product_loop(source)
        if products is None or guard_of(products) is not None:
            return False
        builder.location = loop.location
        builder.block = body = Block(arg_types=[i32])
        for values in self.values:
            values[source.args[0]] = body.args[0]
        operations = list(source.ops)
        numbered = operations.index(maker) + 1
        for op in operations[:numbered]:
            self._copy(op)
        self._number_second()
        place = operations.index(products)
        for op in operations[numbered:place]:
            self._copy(op)
        second_if = self.values[0][both]
        if not self._join_products(products, second_if):
            return False
        self._finish_each(products, operations[place + 1 : -1], second_if)
        builder.emit(aa.ContinueOp)
        loop.body.detach_block(source)
        source.erase()
        loop.body.add_block(body)
        return True

    def _number_second(self) -> None:
        """The second tile follows the first one; without it its number is the first one's."""
        builder, (first, second) = self.builder, self.values
        number, both = first[self.pairs.first], first[self.pairs.both]
        following = builder.binary(aa.AddIOp, number, builder.integer(1, i32))
        chosen = builder.emit(aa.SelectOp, [both, following, number], [i32])
        second[self.pairs.first] = chosen.results[0]
