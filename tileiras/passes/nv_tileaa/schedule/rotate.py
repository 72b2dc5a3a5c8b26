"""Rotates a loop by a schedule of two stages.

    if lower < upper                 # nothing runs if the loop does not
      stage 0 of the first iteration
      for i in [lower + step, upper)
        stage 0 of iteration i, in the order of the schedule with
        stage 1 of the iteration before
      stage 1 of the last iteration

What stage 1 reads of stage 0 is carried by the new loop.
"""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.schedule import (
    erase_schedule,
    is_repeatable,
    loop_schedule,
    operands_of,
)
from tileiras.errors import BytecodeError, InternalError
from tileiras.passes.op_builder import OpBuilder
from tileiras.passes.rewriting import replace_op_by
from tileiras.planning.schedule.loop_body import is_movable, is_rotatable
from tileiras.planning.schedule.overlap import STAGES
from tileiras.planning.schedule.written import is_copy, read_order

Values = dict[SSAValue, SSAValue]


def rotate(loop: aa.ForOp) -> None:
    """Puts the rotated loop in the place of a scheduled one; views of the whole loop go before it.

    Raises BytecodeError for a schedule of more stages, or of operations that have to stay in order.
    """
    _check(loop)
    _hoist_views(loop)
    _Rotation(loop).run()


def _check(loop: aa.ForOp) -> None:
    schedule = loop_schedule(loop)
    stages = schedule.integer("stages") if schedule is not None else 0
    if stages != STAGES:
        raise BytecodeError(
            f"a loop whose values stay in registers has {stages} stages, expected at most {STAGES}",
            place_of(loop),
        )
    if not is_rotatable(loop):
        fixed = next((op for op in loop.body.block.ops if not is_movable(op)), loop)
        raise BytecodeError(
            f"'{fixed.name}' is in a loop of {stages} stages, expected operations whose order "
            "follows from their operands",
            place_of(fixed),
        )


def _hoist_views(loop: aa.ForOp) -> None:
    """Moves views out of the loop that are the same in every iteration: one for all copies."""
    around, block = loop.parent_block(), loop.body.block
    for op in list(block.ops):
        is_fixed = all(operand.owner is not block for operand in op.operands) and not any(
            isinstance(operand, OpResult) and operand.op.parent_block() is block
            for operand in op.operands
        )
        if isinstance(op, aa.BlockTileOp) and is_fixed and around is not None:
            op.detach()
            around.insert_op_before(op, loop)


class _Rotation(OpBuilder):
    """The rebuild. `values[s]`: what the values of the iteration in stage s have become."""

    def __init__(self, loop: aa.ForOp):
        super().__init__()
        self.loop = loop
        self.old = loop.body.block
        self.location = loop.location
        order = read_order(loop)
        self.stages = dict(order)
        self.copies = {op: None for op, _ in order if is_copy(op)}
        """Loads that are made where the first operation of their stage needs them."""
        self.order = [(op, stage) for op, stage in order if op not in self.copies]
        last = self.old.last_op
        self.yielded = last.operands if last is not None else ()
        erase_schedule(loop)
        self.values: tuple[Values, Values] = ({}, {})
        self.carried = self._crossing()

    def run(self) -> None:
        """Builds guard, first stage, loop and last stage."""
        loop, outer = self.loop, Block()
        self.block = outer
        is_entered = self._is_entered()
        then_block, else_block = Block(), Block()
        self.block = then_block
        self.emit(aa.YieldOp, self._guarded())
        self.block = else_block
        self.emit(aa.YieldOp, list(loop.init_values))
        self.block = outer
        types = [result.type for result in loop.results]
        regions = [Region(then_block), Region(else_block)]
        self.emit(aa.IfOp, [is_entered], types, None, regions)
        ops = list(outer.ops)
        for op in ops:
            op.detach()
        replace_op_by(loop, *ops)

    def _is_entered(self) -> SSAValue:
        signedness = Signedness.SIGNED if self.loop.unsigned_cmp is None else Signedness.UNSIGNED
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(signedness),
        }
        bounds = [self.loop.lower_bound, self.loop.upper_bound]
        return self.emit(aa.CmpIOp, bounds, [i1], properties).results[0]

    def _guarded(self) -> list[SSAValue]:
        """First stage, loop, last stage; the values after the loop."""
        loop = self.loop
        arguments = self.old.args
        first: Values = {arguments[0]: loop.lower_bound}
        first.update(zip(arguments[1:], loop.init_values, strict=True))
        # Only what the first iteration has is known: nothing comes from one before.
        self.values = (first, {})
        self._emit_stages(0)
        initial = [self._value(value, 0) for value in self.carried]
        properties = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
        bounds = [loop.lower_bound, loop.step]
        type = loop.lower_bound.type
        second = self.emit(aa.AddIOp, bounds, [type], properties).results[0]
        around = self.block
        block = Block(arg_types=[type, *(value.type for value in self.carried)])
        self.block = block
        kept: Values = dict(zip(self.carried, block.args[1:], strict=True))
        self.values = ({arguments[0]: block.args[0]}, kept)
        self._emit_stages(0, 1)
        self.emit(aa.ContinueOp, [self._value(value, 0) for value in self.carried])
        self.block = around
        operands = [second, loop.upper_bound, loop.step, *initial]
        types = [value.type for value in self.carried]
        rotated = self.emit(aa.ForOp, operands, types, loop.properties, [Region(block)])
        self.values = ({}, dict(zip(self.carried, rotated.results, strict=True)))
        self._emit_stages(1)
        return [self._value(value, 1) for value in self.yielded]

    def _emit_stages(self, *stages: int) -> None:
        for op, stage in self.order:
            if stage in stages:
                self._clone(op, stage)

    def _clone(self, op: Operation, stage: int) -> None:
        """A copy of an operation for the iteration in a stage, after what it needs."""
        needed = operands_of(op)
        mapper = {operand: self._value(operand, stage) for operand in needed}
        self.block.add_op(copy := op.clone(mapper))
        self.values[stage].update(zip(op.results, copy.results, strict=True))

    def _value(self, value: SSAValue, stage: int) -> SSAValue:
        """A value of the iteration in a stage; free operations and loads are made on demand."""
        known = self.values[stage].get(value)
        if known is not None:
            return known
        if isinstance(value, BlockArgument) and value.owner is self.old:
            if stage or not value.index:
                raise InternalError("a value that crosses stages is not carried")
            return self._value(self.yielded[value.index - 1], 1)
        if not isinstance(value, OpResult) or value.op.parent_block() is not self.old:
            return value
        op = value.op
        if not is_repeatable(op) and (op not in self.copies or self.stages[op] != stage):
            raise InternalError(f"'{op.name}' is scheduled after what needs it")
        self._clone(op, stage)
        return self.values[stage][value]

    def _crossing(self) -> list[SSAValue]:
        """Values of stage 0 that stage 1 of the same iteration, or the next iteration, reads."""
        crossing: dict[SSAValue, None] = {}
        seen: dict[tuple[SSAValue, int], None] = {}
        pending: list[tuple[SSAValue, int]] = [(value, 1) for value in self.yielded]
        for op, stage in self.stages.items():
            pending += [(operand, stage) for operand in operands_of(op)]
        while pending:
            value, stage = pending.pop()
            if (value, stage) in seen:
                continue
            seen[value, stage] = None
            if isinstance(value, BlockArgument) and value.owner is self.old:
                if value.index > 0:
                    pending.append((self.yielded[value.index - 1], 1))
                if stage:
                    crossing[value] = None
            elif isinstance(value, OpResult) and value.op.parent_block() is self.old:
                op = value.op
                if is_repeatable(op):
                    pending += [(operand, stage) for operand in op.operands]
                elif stage > self.stages[op]:
                    crossing[value] = None
        return self._in_order(crossing)

    def _in_order(self, values: Container[SSAValue]) -> list[SSAValue]:
        """In the order of the body: arguments, then results."""
        arguments = [value for value in self.old.args if value in values]
        results = [r for op in self.old.ops for r in op.results if r in values]
        return [*arguments, *results]
