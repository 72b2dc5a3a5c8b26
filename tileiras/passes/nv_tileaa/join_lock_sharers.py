"""The pass `join-lock-sharers`: one CTA runs tile blocks side by side that take the same lock.

    for %i {                                   for %i {
      %x = load %a[%pid, %i]                     %x0 = load %a[%p0, %i]; %x1 = load %a[%p1, %i]
      loop { take %lock }               ->       loop { take %lock }
      %c = load %out[%i]                         %c = load %out[%i]
      store %c + %x, %out[%i]                    store (%c + %x0) + %x1, %out[%i]
      give %lock back }                          give %lock back }

Tile blocks with the same lock go through their sections one after another, and what a section costs
are its trips to memory. Here it has as many as before, for several tile blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.types import MemTokenType
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.remarks import Remark

if TYPE_CHECKING:
    from tileiras.planning.critical_sections import Place
    from tileiras.planning.lock_sharers import LockSharers

_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


@dataclass(frozen=True)
class JoinLockSharersPass(IrPass):
    """Runs tile blocks that take the same lock in every iteration in one CTA, in one section.

    Before   %g = remi %pid, %m; for %i { P(%pid, %i); take lock(%g); S(%i); give back }
    After    if enough tile blocks are left { for %i { P(%p0, %i); P(%p1, %i) ..; take lock(%g);
             S0(%i); S1(%i) .. in registers; give back } } else { as before }
    Requires nv_tileaa
    Leaves   kernels that do more than read and write tiles beside the section; sections that go to
             different places; tiles of which registers hold no two; what is left of the grid
    """

    name = "join-lock-sharers"
    title: ClassVar[str] = "Run tile blocks that share a lock in one CTA"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Tries all functions with a loop that waits in a loop."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp) or not _has_lock(func):
                continue
            from tileiras.planning.lock_sharers import find_lock_sharers

            if (found := find_lock_sharers(func)) is not None:
                _Joining(func, found).run()
                func.properties["lock_sharers"] = IntegerAttr(found.together, i32)
                ctx.remarks.add(_remark(func, found.together))


def _has_lock(func: aa.FuncOp) -> bool:
    """Whether a loop in a loop of the function's body might wait for a lock."""
    loops = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    return any(isinstance(op, aa.LoopOp) for loop in loops for op in loop.body.block.ops)


def _remark(func: aa.FuncOp, together: int) -> Remark:
    return remark_about(
        func,
        JoinLockSharersPass.name,
        "LockSharers",
        f"a CTA runs {together} tile blocks that take the same lock, once for all of them",
    )


class _Joining(ScalarBuilder):
    """The kernel in two versions: for several tile blocks, and for one of those that are left."""

    def __init__(self, func: aa.FuncOp, found: LockSharers):
        super().__init__()
        self.func = func
        self.found = found
        self.numbers = range(found.together)
        self.common: dict[SSAValue, SSAValue] = {}
        self.own: list[dict[SSAValue, SSAValue]] = [{} for _ in self.numbers]
        self.held: dict[Place, SSAValue] = {}
        self.loaded: dict[Place, SSAValue] = {}

    def run(self) -> None:
        """Replaces the function's body."""
        from tileiras.planning.lock_sharers import is_number

        found = self.found
        *ops, last = self.func.body.block.ops
        sources = [op for op in self.func.walk() if is_number(op, found.axis)]
        ops = [op for op in ops if not (op in found.shared or op in sources)]
        self.location = found.loop.location
        number = self.place(aa.GetProgramIdOp, found.axis)
        count = self.place(aa.GetNumProgramsOp, found.axis)
        divisor = found.divisor or self.integer(1, i32)
        chunks = self._quotient(self._quotient(count, self.integer(found.together, i32)), divisor)
        first = self.binary(aa.MulIOp, chunks, divisor)
        is_joined = self._less(number, first)
        outer, self.block = self.block, Block()
        self._number(number, divisor, sources)
        for op in ops:
            self._add(op)
        joined, self.block = self.block, Block()
        rest = self.scaled(first, found.together - 1)
        alone = self.binary(aa.AddIOp, number, rest)
        exists = self._less(alone, count)
        for op in ops:
            for inner in op.walk():
                inner.operands = [
                    alone if value.owner in sources else value for value in inner.operands
                ]
        body = Block()
        for op in ops:
            op.detach()
            body.add_op(op)
        self.only_if(exists, body)
        left, self.block = self.block, outer
        for block in (joined, left):
            block.add_op(aa.YieldOp.create(location=self.location))
        self.emit(aa.IfOp, [is_joined], (), {}, [Region(joined), Region(left)])
        self.put_before(last)

    def _quotient(self, value: SSAValue, by: SSAValue) -> SSAValue:
        """An unsigned division."""
        rounding = RoundingModeAttr(RoundingMode.ZERO)
        properties = {"signedness": _UNSIGNED, "rounding": rounding}
        return self.emit(aa.DivIOp, [value, by], [value.type], properties).results[0]

    def _less(self, value: SSAValue, end: SSAValue) -> SSAValue:
        """i1: a comparison of unsigned numbers."""
        predicate = ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN)
        properties = {"comparison_predicate": predicate, "signedness": _UNSIGNED}
        return self.emit(aa.CmpIOp, [value, end], [i1], properties).results[0]

    def _number(self, number: SSAValue, divisor: SSAValue, sources: Sequence[Operation]) -> None:
        """The numbers of the CTA's tile blocks: as many whole `divisor` apart."""
        chunk = self._quotient(number, divisor)
        before = self.scaled(self.binary(aa.MulIOp, chunk, divisor), self.found.together - 1)
        own = self.binary(aa.AddIOp, number, before)
        for index in self.numbers:
            if index:
                own = self.binary(aa.AddIOp, own, divisor)
            for op in sources:
                self.own[index][op.results[0]] = own

    # Operations of several tile blocks

    def _add(self, op: Operation) -> None:
        """An operation of each of the tile blocks; one for all where they do the same."""
        self.location = op.location
        if op is self.found.loop:
            self._loop(self.found.loop, is_locked=True)
        elif isinstance(op, aa.ForOp):
            self._loop(op)
        elif self.found.differs(op):
            self._each(op)
        else:
            made = self._clone(op)
            self.common.update(zip(op.results, made.results, strict=True))

    def _each(self, op: Operation) -> None:
        """An operation of each; tokens become one."""
        for index in self.numbers:
            made = self._clone(op, index)
            if isinstance(made, aa.TiledLoadOp | aa.TiledStoreOp):
                made.properties["tile_block"] = IntAttr(index)
            self.own[index].update(zip(op.results, made.results, strict=True))
        self._join(op.results)

    def _join(self, values: Sequence[SSAValue]) -> None:
        """Tokens of all tile blocks become one for all of them."""
        for value in values:
            if isinstance(value.type, MemTokenType):
                tokens = dict.fromkeys(self._value(value, index) for index in self.numbers)
                joined = self.emit(aa.JoinMemTokensOp, list(tokens), [value.type]).results[0]
                self.common[value] = joined
                for own in self.own:
                    own.pop(value, None)

    def _value(self, value: SSAValue, index: int = 0) -> SSAValue:
        """What stands for a value of a tile block."""
        return self.own[index].get(value, self.common.get(value, value))

    def _clone(self, op: Operation, index: int = 0) -> Operation:
        inside = dict.fromkeys(value for inner in op.walk() for value in inner.operands)
        made = op.clone({value: self._value(value, index) for value in inside})
        self.block.add_op(made)
        return made

    def _loop(self, loop: aa.ForOp, *, is_locked: bool = False) -> None:
        """A loop that hands on what differs for each of the tile blocks."""
        old = loop.body.block
        last = old.last_op
        if not isinstance(last, aa.ContinueOp):
            raise InternalError("a loop's body does not end in continue")
        around, self.block = self.block, Block(arg_types=[old.args[0].type])
        self.common[old.args[0]] = self.block.args[0]
        operands = [self._value(v) for v in (loop.lower_bound, loop.upper_bound, loop.step)]
        for arg, value in zip(old.args[1:], loop.init_values, strict=True):
            for index in self.numbers if arg in self.found.varying else range(1):
                operands.append(self._value(value, index))
                mine = self.block.insert_arg(arg.type, len(self.block.args))
                (self.own[index] if arg in self.found.varying else self.common)[arg] = mine
        if is_locked:
            self._locked()
        for op in () if is_locked else list(old.ops)[:-1]:
            self._add(op)
        self.location = last.location
        handed = [
            self._value(value, index)
            for arg, value in zip(old.args[1:], last.arguments, strict=True)
            for index in (self.numbers if arg in self.found.varying else range(1))
        ]
        self.emit(aa.ContinueOp, handed)
        body, self.block = self.block, around
        self.location = loop.location
        properties = {k: v for k, v in loop.properties.items() if k != "operandSegmentSizes"}
        types = [value.type for value in operands[3:]]
        made = iter(self.emit(aa.ForOp, operands, types, properties, [Region(body)]).results)
        for result, arg in zip(loop.results, old.args[1:], strict=True):
            for index in self.numbers if arg in self.found.varying else range(1):
                known = self.own[index] if arg in self.found.varying else self.common
                known[result] = next(made)

    def _locked(self) -> None:
        """The body of the loop with the lock, which is taken once."""
        from tileiras.planning.critical_sections import place_of_access

        found = self.found
        section = found.section
        for op in (*found.before, section.acquire):
            self._add(op)
        stores = [op for op in section.body if isinstance(op, aa.TiledStoreOp)]
        last_stores = list({place_of_access(op): op for op in stores}.values())
        for index in self.numbers:
            is_last = index == self.numbers[-1]
            for op in section.body:
                self.location = op.location
                self._guarded(op, index, last_stores if is_last else ())
        self._join([value for op in section.body for value in op.results])
        self._join([_token(section.release)])
        self._add(section.release)
        for op in list(found.loop.body.block.ops):
            known = op in found.before or op in section.body or op.next_op is None
            if not known and op is not section.acquire and op is not section.release:
                self._add(op)

    def _guarded(self, op: Operation, index: int, last_stores: Sequence[Operation]) -> None:
        """An operation of a section; places stay in registers from the first load to the end."""
        from tileiras.planning.critical_sections import place_of_access

        place = None
        if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp):
            place = place_of_access(op)
            if place is None:
                raise InternalError("a section goes to no place", where=JoinLockSharersPass.name)
            token = self._value(_token(op), index)
            if isinstance(op, aa.TiledLoadOp) and place in self.held:
                self.own[index][op.result] = self.held[place]
                self.own[index][op.result_token] = self._behind_load(place, token)
                return
            if isinstance(op, aa.TiledStoreOp):
                self.held[place] = self._value(op.value, index)
                if op not in last_stores:
                    self.own[index][op.result_token] = token
                    return
        made = self._clone(op, index)
        self.own[index].update(zip(op.results, made.results, strict=True))
        if isinstance(op, aa.TiledLoadOp) and place is not None:
            self.held[place], self.loaded[place] = made.results

    def _behind_load(self, place: Place, token: SSAValue) -> SSAValue:
        """A token of a load that is in registers: behind the one that there is, if there is one."""
        if place not in self.loaded:
            return token
        operands = list(dict.fromkeys([token, self.loaded[place]]))
        return self.emit(aa.JoinMemTokensOp, operands, [token.type]).results[0]


def _token(op: Operation) -> SSAValue:
    """The token that an access follows."""
    token = op.token if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp | aa.AtomicRMWOp) else None
    if token is None:
        raise InternalError("an access that follows nothing", where=JoinLockSharersPass.name)
    return token
