"""Rebuilds a loop so that several iterations wait for their loads together.

    Before   for i in [lower, upper) { %x = load(i); use(%x) }
    After    middle = lower + (upper - lower) / 2 * 2 if lower < upper, else lower
             for i in [lower, middle) step 2 { %x = load(i); %y = load(i + 1); use(%x); use(%y) }
             for i in [middle, upper) { %x = load(i); use(%x) }

A loop of one iteration runs as it did. Registers hold the tiles: no shared memory is taken from
other tile blocks, nor from the L1 cache, which has the tile for those that read it again.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.schedule import erase_schedule
from tileiras.errors import BytecodeError, InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad, find_pipelined_loads
from tileiras.planning.schedule.unrolled_loads import can_unroll


def unroll(loop: aa.ForOp, count: int) -> None:
    """Puts two loops in the place of one: `count` iterations at a time, then the others.

    Raises BytecodeError for a loop that cannot be unrolled.
    """
    if count < 2 or count & (count - 1) or not can_unroll(loop):
        raise BytecodeError(
            "a loop is unrolled, expected a power of two, a step of 1 and straight code",
            place_of(loop),
        )
    _Unrolling(loop, count).run()


class _Unrolling(ScalarBuilder):
    """The rebuild of one loop."""

    def __init__(self, loop: aa.ForOp, count: int):
        super().__init__()
        self.loop = loop
        self.count = count
        self.location = loop.location
        self.old = loop.body.block
        self.loads = find_pipelined_loads(loop)
        erase_schedule(loop)

    def run(self) -> None:
        """Builds what is new before the loop, which then does what is left."""
        loop, self.block = self.loop, Block()
        type = loop.step.type
        if not isinstance(type, IntegerType):
            raise InternalError("a loop counts in no integer")
        middle, step = self._middle(type), self.integer(self.count, type)
        body = self._body(type)
        together = aa.ForOp.create(
            operands=[loop.lower_bound, middle, step, *loop.init_values],
            result_types=[result.type for result in loop.results],
            properties=dict(loop.properties),
            regions=[Region(body)],
            location=loop.location,
        )
        self.block.add_op(together)
        self.put_before(loop)
        loop.operands = [middle, loop.upper_bound, loop.step, *together.results]

    def _middle(self, type: IntegerType) -> SSAValue:
        """Where so many iterations at a time end; the number of all fits the type without sign."""
        loop = self.loop
        signed = Signedness.UNSIGNED if loop.unsigned_cmp is not None else Signedness.SIGNED
        left = self.binary(aa.SubIOp, loop.upper_bound, loop.lower_bound)
        mask = self.integer((1 << type.width.data) - self.count, type)
        whole = self.emit(aa.AndIOp, [left, mask], [type]).results[0]
        end = self.binary(aa.AddIOp, loop.lower_bound, whole)
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(signed),
        }
        bounds = [loop.lower_bound, loop.upper_bound]
        runs = self.emit(aa.CmpIOp, bounds, [i1], properties).results[0]
        return self.emit(aa.SelectOp, [runs, end, loop.lower_bound], [type]).results[0]

    def _body(self, type: IntegerType) -> Block:
        """All loads of so many iterations, then what each iteration does beside."""
        around, old = self.block, self.old
        self.block = block = Block(arg_types=[arg.type for arg in old.args])
        counters: list[SSAValue] = [block.args[0]]
        for number in range(1, self.count):
            counters.append(self.binary(aa.AddIOp, block.args[0], self.integer(number, type)))
        iterations: list[dict[SSAValue, SSAValue]] = [{old.args[0]: at} for at in counters]
        for values in iterations:
            for load in self.loads:
                self._load(load, values)
        carried = list(block.args[1:])
        for values in iterations:
            values.update(zip(old.args[1:], carried, strict=True))
            for op in old.ops:
                if isinstance(op, aa.ContinueOp):
                    carried = [values.get(value, value) for value in op.operands]
                elif not all(result in values for result in op.results) or not op.results:
                    self._clone(op, values)
        self.emit(aa.ContinueOp, carried)
        self.block = around
        return block

    def _load(self, load: PipelinedLoad, values: dict[SSAValue, SSAValue]) -> None:
        """A load before its iteration, behind nothing but what is outside of the loop."""
        for value in (load.op.view, *load.op.indices):
            self._copy(value, values)
        known = dict(values)
        if load.op.token is not None and load.tokens:
            known[load.op.token] = self._token(load)
        copy = load.op.clone(known)
        self.block.add_op(copy)
        values.update(zip(load.op.results, copy.results, strict=True))

    def _token(self, load: PipelinedLoad) -> SSAValue:
        """One token behind all that the load has to follow."""
        if len(load.tokens) == 1:
            return load.tokens[0]
        return self.emit(aa.JoinMemTokensOp, load.tokens, [aa.MemTokenType()]).results[0]

    def _copy(self, value: SSAValue, values: dict[SSAValue, SSAValue]) -> None:
        """Makes a value of the iteration, and what it is made from, where it is not there."""
        if value in values or not isinstance(value, OpResult):
            return
        if value.op.parent_block() is self.old:
            for operand in value.op.operands:
                self._copy(operand, values)
            self._clone(value.op, values)

    def _clone(self, op: Operation, values: dict[SSAValue, SSAValue]) -> None:
        self.block.add_op(copy := op.clone(dict(values)))
        values.update(zip(op.results, copy.results, strict=True))
