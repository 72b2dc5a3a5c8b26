"""What a tile looks up in memory, loaded an iteration ahead by a static tile scheduler's loop.

    for %t in [%p, %n) step %s {         %a = load %list[%p]
      %x = load %list[%t]                for %t in [%p, %n) step %s iter_args(%x = %a) {
      loop over K, which needs %x   ->     %b = load %list[%t + %s, or %t behind the last tile]
    }                                      loop over K, which needs %x
                                           continue %b }

Rows and experts of a tile take a trip to memory, and the first rows can only be gathered then. So
whoever needs them finds them there.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.passes.nv_tileaa.cluster_blocks import LESS
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder


def look_up_ahead(loop: aa.ForOp) -> bool:
    """Does so for all loads of the loop's body itself; False, with nothing changed, where one has
    an order among other accesses, or depends on more than the number of the tile.
    """
    body = loop.body.block
    loads = [op for op in body.ops if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]
    users = next((op for op in body.ops if op.regions), None)
    makers = _makers(loads, body)
    if not loads or users is None or makers is None or loop.results:
        return False
    if any(isinstance(op, aa.LoadOp | aa.TiledLoadOp) and not _is_free(op) for op in makers):
        return False
    _Ahead(loop, makers, users).write()
    return True


def _is_free(op: aa.LoadOp | aa.TiledLoadOp) -> bool:
    """Whether nobody waits for a load, or it for anybody, and its tile is not a product's."""
    return op.ordering.data == MemoryOrdering.WEAK and op.results[1].first_use is None


def _makers(loads: list[Operation], body: Block) -> list[Operation] | None:
    """The loads and all in the loop that they are made from, in order; None if not pure."""
    wanted: dict[Operation, None] = {}
    pending = list(loads)
    while pending:
        op = pending.pop()
        if op in wanted:
            continue
        if op not in loads and (op.regions or not op.has_trait(Pure)):
            return None
        wanted[op] = None
        owners = (operand.owner for operand in op.operands)
        pending += [o for o in owners if isinstance(o, Operation) and o.parent_block() is body]
    return [op for op in body.ops if op in wanted]


class _Ahead:
    """Rewrites a loop; `users` is the first operation that takes long."""

    def __init__(self, loop: aa.ForOp, makers: list[Operation], users: Operation):
        self.loop = loop
        self.makers = makers
        self.users = users
        self.loads = [op for op in makers if isinstance(op, aa.LoadOp | aa.TiledLoadOp)]

    def write(self) -> None:
        """The first tile's before the loop, the next one's before what takes long."""
        loop, body = self.loop, self.loop.body.block
        before, inside = ScalarBuilder(), ScalarBuilder()
        before.location = inside.location = loop.location
        zero = before.binary(aa.SubIOp, loop.lower_bound, loop.lower_bound)
        first = self._if_there(before, loop.lower_bound, zero)
        starts = self._copied(before, first)
        following = inside.binary(aa.AddIOp, body.args[0], loop.step)
        ends = self._copied(inside, self._if_there(inside, following, body.args[0]))
        inside.put_before(self.users)
        for load in self.loads:
            argument = body.insert_arg(load.results[0].type, len(body.args))
            load.results[0].replace_all_uses_with(argument)
        end = body.last_op
        if end is not None:
            end.operands = [*end.operands, *ends]
        self._leave_out()
        made = aa.ForOp.create(
            operands=[loop.lower_bound, loop.upper_bound, loop.step, *starts],
            result_types=[start.type for start in starts],
            properties=dict(loop.properties),
            regions=[loop.detach_region(0)],
            location=loop.location,
        )
        made.attributes |= loop.attributes
        before.block.add_op(made)
        before.put_before(loop)
        loop.detach()
        loop.erase()

    def _if_there(self, builder: ScalarBuilder, number: SSAValue, other: SSAValue) -> SSAValue:
        """The number of a tile, or another one behind the last tile."""
        is_there = builder.emit(aa.CmpIOp, [number, self.loop.upper_bound], [i1], LESS).results[0]
        return builder.emit(aa.SelectOp, [is_there, number, other], [number.type]).results[0]

    def _copied(self, builder: ScalarBuilder, number: SSAValue) -> list[SSAValue]:
        """What is looked up for a tile."""
        values: dict[SSAValue, SSAValue] = {self.loop.body.block.args[0]: number}
        for op in self.makers:
            builder.block.add_op(op.clone(values))
        return [values[load.results[0]] for load in self.loads]

    def _leave_out(self) -> None:
        """Takes away what nobody needs of the loads that stood in the loop."""
        for op in reversed(self.makers):
            if not any(result.first_use for result in op.results):
                op.detach()
                op.erase()
