"""Rebuilds a loop so that each element of a tile has an extreme of its own (`join-iterations`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonOrdering,
    ComparisonOrderingAttr,
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.errors import InternalError, required
from tileiras.passes.op_builder import OpBuilder
from tileiras.passes.rewriting import replace_op
from tileiras.planning.tiling.carried_extremes import CarriedExtreme, CarriedPlace


def keep_elements(loop: aa.ForOp, extremes: Sequence[CarriedExtreme]) -> None:
    """Puts a loop that carries an extreme for each element in the place of the loop."""
    _Elements(loop, extremes).run()


class _Elements(OpBuilder):
    """The rebuild of one loop. `values`: what stands for values of its body."""

    def __init__(self, loop: aa.ForOp, extremes: Sequence[CarriedExtreme]):
        super().__init__()
        self.loop, self.extremes = loop, extremes
        self.old = loop.body.block
        self.values: dict[SSAValue, SSAValue] = {}
        self.places = [place for each in extremes for place in each.places]
        self.gone = dict.fromkeys(place.number for each in extremes for place in each.places[1:])
        """Numbers of what is not carried any more: an extreme has one iteration for all places."""
        if not isinstance(self.counter.type, IntegerType):
            raise InternalError("a loop counts by something else than integers")

    @property
    def counter(self) -> SSAValue:
        """The number of the iteration in the loop as it was."""
        return self.old.args[0]

    def run(self) -> None:
        """Builds the loop, and what makes of its results those that there were."""
        loop = self.loop
        self.location = loop.location
        starts = self._starts()
        kept = [n for n in range(len(loop.results)) if n not in self.gone]
        types = [starts[number].type for number in kept]
        before, body = self.block, self._body(kept, types)
        self.block, self.location = before, loop.location
        operands = [*loop.operands[:3], *(starts[number] for number in kept)]
        made = self.emit(aa.ForOp, operands, types, loop.properties, [Region(body)])
        made.attributes.update(loop.attributes)
        results: dict[int, SSAValue] = dict(zip(kept, made.results, strict=True))
        for each in self.extremes:
            results |= self._behind(each, results)
        block = required(loop.parent_block(), "a loop stands in no block")
        for op in list(self.block.ops):
            op.detach()
            block.insert_op_before(op, loop)
        replace_op(loop, [results[number] for number in range(len(results))])

    # before the loop

    def _starts(self) -> list[SSAValue]:
        """What is carried at first: as for a row, for each of its elements."""
        starts = list(self.loop.init_values)
        for each in self.extremes:
            shape = shape_of(each.tile)
            starts[each.number] = self._spread(starts[each.number], shape, each.dim)
            for place in each.places[:1]:
                starts[place.number] = self._splat(self.loop.lower_bound, shape)
        return starts

    # the body

    def _body(self, kept: Sequence[int], types: Sequence[Attribute]) -> Block:
        """The body that compares element by element."""
        self.block = block = Block(arg_types=[self.counter.type, *types])
        self.values[self.counter] = block.args[0]
        for argument, number in zip(block.args[1:], kept, strict=True):
            self.values[self.old.args[number + 1]] = argument
        updates: dict[Operation, CarriedExtreme] = {each.update: each for each in self.extremes}
        skipped = dict.fromkeys(self._skipped())
        for op in self.old.ops:
            self.location = op.location
            if op in updates:
                self._update(updates[op])
            elif isinstance(op, aa.ContinueOp):
                self.emit(aa.ContinueOp, [self.values[op.operands[number]] for number in kept])
            elif op not in skipped:
                copy = op.clone({value: self.values.get(value, value) for value in op.operands})
                block.add_op(copy)
                self.values.update(zip(op.results, copy.results, strict=True))
        return block

    def _skipped(self) -> list[Operation]:
        """What only reductions and choices of places need."""
        found: list[Operation] = [place.choice for place in self.places]
        tiles = [each.tile.owner for each in self.extremes]
        for each in self.extremes:
            found += [each.update, each.reduction, *(place.found for place in each.places)]
            found += [each.comparison] if each.comparison is not None else []
        pending = list(found)
        while pending:
            for value in pending.pop().operands:
                op = value.owner
                if isinstance(op, Block) or op.parent_block() is not self.old:
                    continue
                if op in found or op in tiles or not op.has_trait(Pure):
                    continue
                if all(use.operation in found for result in op.results for use in result.uses):
                    found.append(op)
                    pending.append(op)
        return found

    def _update(self, each: CarriedExtreme) -> None:
        """The extremes of all elements, and the iterations that they are of."""
        tile = self.values[each.tile]
        carried = self.values[self.old.args[each.number + 1]]
        new = self._like(each.update, [tile, carried])
        self.values[each.update.results[0]] = new
        if each.comparison is None:
            return
        [place, *_] = each.places
        is_new = self._compared(each, tile, carried)
        here = self._splat(self.values[self.counter], shape_of(tile))
        before = self.values[self.old.args[place.number + 1]]
        chosen = self.emit(aa.SelectOp, [is_new, here, before], [before.type]).results[0]
        self.values[place.choice.result] = chosen

    def _compared(self, each: CarriedExtreme, new: SSAValue, old: SSAValue) -> SSAValue:
        """Whether numbers are beyond others, as the loop asked it."""
        comparison = required(each.comparison, "an extreme without places is not compared")
        carried = self.old.args[each.number + 1]
        operands = [old, new] if comparison.operands[0] is carried else [new, old]
        type = TensorType(i1, shape_of(new))
        return self.emit(comparison.__class__, operands, [type], comparison.properties).results[0]

    # behind the loop

    def _behind(self, each: CarriedExtreme, results: dict[int, SSAValue]) -> dict[int, SSAValue]:
        """The extreme of all elements, and the places that go with it."""
        mine, start = results[each.number], self.loop.init_values[each.number]
        reduced = each.reduction.results[0].type
        body = each.reduction.body.clone()
        properties = each.reduction.properties
        extreme = self.emit(aa.ReduceOp, [mine], [reduced], properties, [body]).results[0]
        top = self._reshaped(extreme, shape_of(start))
        found = {each.number: top}
        if not each.places:
            return found
        is_new = self._compared(each, top, start)
        spread = self._spread(extreme, shape_of(mine), each.dim)
        iteration, row = self._first(
            each, self._equal(mine, spread), results[each.places[0].number]
        )
        for place in each.places:
            before = self.loop.init_values[place.number]
            chosen = self._chosen(place, iteration, row)
            operands = [is_new, self._reshaped(chosen, shape_of(before)), before]
            found[place.number] = self.emit(aa.SelectOp, operands, [before.type]).results[0]
        return found

    def _first(
        self, each: CarriedExtreme, has_it: SSAValue, iterations: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The first iteration that has the extreme, and the first place there."""
        shape, dim = shape_of(iterations), each.dim
        count, place = element_of(iterations), each.places[0].found.results[1].type
        if not isinstance(count, IntegerType) or not isinstance(place, TensorType):
            raise InternalError("places and iterations are no integers")
        last = self._largest(count)
        operands = [has_it, iterations, self._splat(self.integer(last, count), shape)]
        known = self.emit(aa.SelectOp, operands, [iterations.type]).results[0]
        element = place.element_type
        if not isinstance(element, IntegerType):
            raise InternalError("places are no integers")
        line = self.emit(aa.MakeRangeOp, (), [TensorType(element, [shape[dim]])]).results[0]
        rows = self._spread(line, shape, dim, along=True)
        types = [TensorType(count, place.get_shape()), place]
        identities = [IntegerAttr(last, count), IntegerAttr(self._largest(element), element)]
        properties = {"dim": each.reduction.dim, "identities": ArrayAttr(identities)}
        body = self._earlier(count, element)
        first = self.emit(aa.ReduceOp, [known, rows], types, properties, [body])
        return first.results[0], first.results[1]

    def _earlier(self, count: IntegerType, place: IntegerType) -> Region:
        """Chooses the earlier iteration, of one the lower place."""
        outer = self.block
        self.block = block = Block(arg_types=[count, count, place, place])
        mine, other, here, there = block.args
        less, same = ComparisonPredicate.LESS_THAN, ComparisonPredicate.EQUAL
        earlier, alike = self._order(less, mine, other), self._order(same, mine, other)
        lower = self._order(less, here, there)
        tie = self.emit(aa.AndIOp, [alike, lower], [i1]).results[0]
        mine_first = self.emit(aa.OrIOp, [earlier, tie], [i1]).results[0]
        chosen = self.emit(aa.SelectOp, [mine_first, mine, other], [count]).results[0]
        where = self.emit(aa.SelectOp, [mine_first, here, there], [place]).results[0]
        self.emit(aa.YieldOp, [chosen, where])
        self.block = outer
        return Region(block)

    def _chosen(self, place: CarriedPlace, iteration: SSAValue, row: SSAValue) -> SSAValue:
        """What the loop made of a place and the number of its iteration, for all places at once."""
        known: dict[SSAValue, SSAValue] = {place.found.results[1]: row}
        for op in place.chain:
            self.location = op.location
            [result] = op.results
            if not isinstance(result.type, TensorType):
                continue
            if isinstance(op, aa.SplatOp):
                known[result] = self._tile_of(op.source, shape_of(result), iteration)
            else:
                operands = [known.get(value, value) for value in op.operands]
                known[result] = self._like(op, operands)
        here = place.choice.operands[1]
        return known.get(here, here)

    def _tile_of(self, value: SSAValue, shape: Sequence[int], iteration: SSAValue) -> SSAValue:
        """A scalar of the body, for the iteration of each place."""
        if value is self.counter:
            return self._reshaped(iteration, shape)
        op = value.owner
        if isinstance(op, Block) or op.parent_block() is not self.old:
            return self._splat(value, shape)
        if isinstance(op, aa.ConstantOp):
            made = self.emit(aa.ConstantOp, (), [value.type], op.properties).results[0]
            return self._splat(made, shape)
        operands = [self._tile_of(operand, shape, iteration) for operand in op.operands]
        return self.emit(
            op.__class__, operands, [TensorType(value.type, shape)], op.properties
        ).results[0]

    # parts

    def _largest(self, type: IntegerType) -> int:
        """What no iteration and no place is beyond."""
        return (1 << type.width.data - (not self._is_unsigned)) - 1

    @property
    def _is_unsigned(self) -> bool:
        return self.loop.unsigned_cmp is not None

    def _order(self, predicate: ComparisonPredicate, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """A comparison of integers, as the loop compares its counter."""
        sign = Signedness.UNSIGNED if self._is_unsigned else Signedness.SIGNED
        properties: dict[str, Attribute] = {
            "comparison_predicate": ComparisonPredicateAttr(predicate),
            "signedness": SignednessAttr(sign),
        }
        return self.emit(aa.CmpIOp, [lhs, rhs], [self._truth(lhs)], properties).results[0]

    def _equal(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Whether numbers are equal; NaNs are not."""
        if isinstance(element_of(lhs), IntegerType):
            return self._order(ComparisonPredicate.EQUAL, lhs, rhs)
        properties: dict[str, Attribute] = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.EQUAL),
            "comparison_ordering": ComparisonOrderingAttr(ComparisonOrdering.ORDERED),
        }
        return self.emit(aa.CmpFOp, [lhs, rhs], [self._truth(lhs)], properties).results[0]

    def _truth(self, value: SSAValue) -> Attribute:
        """The type of a comparison."""
        return TensorType(i1, shape_of(value)) if isinstance(value.type, TensorType) else i1

    def _like(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        """The same operation on other tiles, of the shape of the first; none for constants."""
        [result] = op.results
        type = result.type
        if operands and isinstance(op, ElementwiseOp):
            type = TensorType(element_of(result), shape_of(operands[0]))
        return self.emit(op.__class__, operands, [type], op.properties).results[0]

    def _splat(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        return self.emit(aa.SplatOp, [value], [TensorType(value.type, shape)]).results[0]

    def _spread(
        self, value: SSAValue, shape: Sequence[int], dim: int, along: bool = False
    ) -> SSAValue:
        """A tile that has no dim `dim`, or only that one (`along`), repeated to a shape."""
        thin = [size if (n == dim) == along else 1 for n, size in enumerate(shape)]
        tile = self._reshaped(value, thin)
        return self.emit(aa.BroadcastOp, [tile], [TensorType(element_of(value), shape)]).results[0]

    def _reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape_of(value)) == tuple(shape):
            return value
        type = TensorType(element_of(value), shape)
        return self.emit(aa.ReshapeOp, [value], [type]).results[0]
