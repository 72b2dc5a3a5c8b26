"""The pass `unroll-locked-loops`: a few iterations of a loop have the lock that each would take.

    for %i {                                   for %i step 4 {
      %x = load %a[%i]                           %x0 = load %a[%i]
      loop { take %lock }                        loop { take %lock }
      %c = load %out[%i]                   ->    %x1 .. %x3 = load %a[%i + 1 ..]
      store %c + %x, %out[%i]                    %c0 .. %c3 = load %out[%i ..]
      give %lock back }                          store %c0 + %x0, %out[%i]; ..; give %lock back }
                                               for the iterations that are left: as before

Tile blocks with the same lock go through their sections one after another, and most of the time of
a section is trips to memory and back: to take the lock, to load, to give it back. Four iterations
have them in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerType, ModuleOp, i1
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.errors import InternalError, required
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder

if TYPE_CHECKING:
    from tileiras.planning.locked_loops import LockedLoop


@dataclass(frozen=True)
class UnrollLockedLoopsPass(IrPass):
    """Puts a few iterations of a loop into one critical section.

    Before   for %i { P(%i); take lock; S(%i); give back }
    After    for %i step 4 { P(%i); take lock; P(%i + 1) ..; S(%i); S(%i + 1) ..; give back }; the
             rest as before
    Requires nv_tileaa
    Leaves   loops whose lock changes, that hand on values, or that do more than read and write
             tiles; loops whose tiles of several iterations are too large
    """

    name = "unroll-locked-loops"
    title: ClassVar[str] = "Take a lock once for several iterations"
    settles: ClassVar[bool] = False

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Loops whose iterations could share a lock are what is left behind those that do."""
        loops = [loop for loop in op.walk() if isinstance(loop, aa.ForOp)]
        ends = [loop.upper_bound for loop in loops]
        waiting = [loop for loop in loops if any(isinstance(o, aa.LoopOp) for o in loop.body.ops)]
        for loop in waiting:
            from tileiras.planning.locked_loops import find_locked_loop

            if find_locked_loop(loop) is not None and loop.lower_bound not in ends:
                raise BrokenPromise("takes a lock in each iteration, and need not", loop)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all loops in which another one waits."""
        waits = [inner for inner in op.walk() if isinstance(inner, aa.LoopOp)]
        for loop in dict.fromkeys(inner.parent_op() for inner in waits):
            if isinstance(loop, aa.ForOp):
                from tileiras.planning.locked_loops import find_locked_loop

                found = find_locked_loop(loop)
                while found is not None:
                    _Unrolling(found).run()
                    found = found.half()
        for inner in op.walk() if waits else ():
            inner.properties.pop("tile_block", None)  # all that asks for it is above


class _Unrolling(ScalarBuilder):
    """The loop over several iterations at a time, in front of the one over those that are left."""

    def __init__(self, found: LockedLoop):
        super().__init__()
        self.found = found
        self.loop = found.loop
        self.old = found.loop.body.block
        self.made: dict[tuple[int, Operation, bool], Operation] = {}
        self.arguments: list[SSAValue] = []
        self.counters: dict[int, SSAValue] = {}
        self.taken: dict[int, SSAValue] = {}
        self.location = found.loop.location

    def run(self) -> None:
        """Builds the first loop; the old one begins where it ends."""
        loop, found = self.loop, self.found
        type = loop.lower_bound.type
        if not isinstance(type, IntegerType):
            raise InternalError("a loop counts by what is no integer")
        middle = self._middle(type)
        step = self.integer(found.together, type)
        around, self.block = self.block, Block(arg_types=[arg.type for arg in self.old.args])
        self.arguments = list(self.block.args)
        self._body()
        body, self.block = self.block, around
        operands = [loop.lower_bound, middle, step, *loop.init_values]
        properties = {k: v for k, v in loop.properties.items() if k != "operandSegmentSizes"}
        first = self.emit(
            aa.ForOp, operands, [r.type for r in loop.results], properties, [Region(body)]
        )
        self.put_before(loop)
        loop.operands = [middle, loop.upper_bound, loop.step, *first.results]

    def _middle(self, type: IntegerType) -> SSAValue:
        """Where the first loop ends: as many whole steps as there are."""
        loop = self.loop
        lower, upper = loop.lower_bound, loop.upper_bound
        sign = Signedness.SIGNED if loop.unsigned_cmp is None else Signedness.UNSIGNED
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(sign),
        }
        runs = self.emit(aa.CmpIOp, [lower, upper], [i1], properties).results[0]
        count = self.binary(aa.SubIOp, upper, lower)
        left = self._rest(count, self.integer(self.found.together, type))
        end = self.binary(aa.SubIOp, upper, left)
        return self.emit(aa.SelectOp, [runs, end, lower], [type]).results[0]

    def _rest(self, value: SSAValue, by: SSAValue) -> SSAValue:
        """What is left of an unsigned division."""
        sign = {"signedness": SignednessAttr(Signedness.UNSIGNED)}
        return self.emit(aa.RemIOp, [value, by], [value.type], sign).results[0]

    def _body(self) -> None:
        """Loads first, in the order in which their iterations would do them."""
        found, numbers = self.found, range(self.found.together)
        for op in (*found.before, found.section.acquire):
            self._make(0, op)
        for ops in (found.before, found.section.body):
            for number in numbers:
                for op in ops:
                    if isinstance(op, aa.TiledLoadOp):
                        self._make(number, op)
        for number in numbers:
            for op in (*found.section.body, *found.before):
                self._make(number, op)
        last = self._end()
        self.emit(aa.ContinueOp, [self._value(numbers[-1], value) for value in last.arguments])

    def _end(self) -> aa.ContinueOp:
        """What hands on the tokens of an iteration."""
        last = self.old.last_op
        if not isinstance(last, aa.ContinueOp):
            raise InternalError("a loop's body does not end in continue")
        return last

    def _make(self, number: int, op: Operation, is_free: bool = False) -> Operation:
        """An operation of an iteration, behind what it needs.

        `is_free`: a token for an access that need not wait for earlier iterations.
        """
        found = self.found
        if op is found.section.acquire:
            number = 0
        if op is found.section.release:
            number = found.together - 1
        is_free = is_free and isinstance(op, aa.JoinMemTokensOp)
        known = self.made.get((number, op, is_free))
        if known is not None:
            return known
        if op is found.section.release:
            made = self._release()
        else:
            is_free = is_free or op in found.free
            inside = dict.fromkeys(
                value for inner in op.walk() for value in inner.operands if self._is_ours(value, op)
            )
            made = op.clone({value: self._value(number, value, is_free) for value in inside})
            self.block.add_op(made)
            is_free = is_free and isinstance(op, aa.JoinMemTokensOp)
        self.made[number, op, is_free] = made
        return made

    def _is_ours(self, value: SSAValue, op: Operation) -> bool:
        """Whether a value is of the loop's body, and not of a region in it."""
        if isinstance(value, BlockArgument):
            return value.owner is self.old
        return isinstance(value, OpResult) and value.op.parent is self.old and value.op is not op

    def _value(self, number: int, value: SSAValue, is_free: bool = False) -> SSAValue:
        """A value of an iteration; with `is_free` a token behind what this one does alone."""
        if isinstance(value, BlockArgument) and value.owner is self.old:
            if value.index == 0:
                return self._counter(number)
            if number == 0:
                return self.arguments[value.index]
            if is_free:
                return self._taken_once()
            return self._value(number - 1, self._end().arguments[value.index - 1])
        if not isinstance(value, OpResult) or value.op.parent is not self.old:
            return value
        section = self.found.section
        if value.op is section.release and number < self.found.together - 1:
            return self._before_release(number)
        if value.op is section.acquire and number and not is_free:
            return self._taken_again(number)
        return self._made_value(number, value, is_free)

    def _made_value(self, number: int, value: SSAValue, is_free: bool = False) -> SSAValue:
        """A result of an operation of an iteration."""
        if not isinstance(value, OpResult):
            raise InternalError("an argument is no result")
        return self._make(number, value.op, is_free).results[value.index]

    def _taken_once(self) -> SSAValue:
        """The token behind the acquire and all that comes before these iterations."""
        if 0 not in self.taken:
            first = self._make(0, self.found.section.acquire).results[0]
            operands = [first, *self.arguments[1:]]
            self.taken[0] = self.emit(aa.JoinMemTokensOp, operands, [first.type]).results[0]
        return self.taken[0]

    def _taken_again(self, number: int) -> SSAValue:
        """The token behind all that an iteration waits for when it would take the lock."""
        if number not in self.taken:
            acquire = self.found.section.acquire
            first = self._make(0, acquire).results[0]
            waited = [self._value(number, value) for value in acquire.init_values]
            operands = list(dict.fromkeys([first, *waited]))
            self.taken[number] = self.emit(aa.JoinMemTokensOp, operands, [first.type]).results[0]
        return self.taken[number]

    def _counter(self, number: int) -> SSAValue:
        """The number of an iteration."""
        first = self.arguments[0]
        if number and number not in self.counters:
            type = first.type
            if not isinstance(type, IntegerType):
                raise InternalError("a loop counts by what is no integer")
            self.counters[number] = self.binary(aa.AddIOp, first, self.integer(number, type))
        return self.counters[number] if number else first

    def _before_release(self, number: int) -> SSAValue:
        """The token behind all that an iteration does before it would give the lock back."""
        token = required(self.found.section.release.token, "a release that follows nothing")
        return self._value(number, token)

    def _release(self) -> Operation:
        """Gives the lock back, behind all that the iterations do."""
        release, numbers = self.found.section.release, range(self.found.together)
        tokens = [self._before_release(number) for number in numbers]
        joined = self.emit(aa.JoinMemTokensOp, tokens, [tokens[0].type]).results[0]
        token = required(release.token, "a release that follows nothing")
        made = release.clone({token: joined})
        self.block.add_op(made)
        return made
