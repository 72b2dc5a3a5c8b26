"""Builds what several tile blocks with the same lock do side by side, for `join-lock-sharers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, TensorType, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.critical_sections import place_of_access
from tileiras.planning.locked_loops import free_accesses

if TYPE_CHECKING:
    from tileiras.planning.critical_sections import Place
    from tileiras.planning.lock_sharers import LockSharers

PASS_NAME = "join-lock-sharers"


@dataclass(frozen=True)
class KeptSums:
    """Where a CTA keeps sums: the memory of each place, and from which iteration to which."""

    tiles: dict[Place, SSAValue]
    lower: SSAValue
    upper: SSAValue


class SharerBodies(ScalarBuilder):
    """The operations of tile blocks side by side, whose `numbers` along the axis are given.

    With `sums` some iterations of the loop with the lock do without it, and add to what the CTA
    keeps; others are left out. Loads there that need not follow earlier iterations follow what
    comes before them.
    """

    def __init__(
        self, found: LockSharers, numbers: Sequence[SSAValue], sums: KeptSums | None = None
    ):
        super().__init__()
        self.found = found
        self.numbers = range(len(numbers))
        self.sums = sums
        self.free = free_accesses(found.loop, found.accesses()) if sums is not None else frozenset()
        self.common: dict[SSAValue, SSAValue] = {}
        self.own: list[dict[SSAValue, SSAValue]] = [{} for _ in numbers]
        self.held: dict[Place, SSAValue] = {}
        self.loaded: dict[Place, SSAValue] = {}
        self.before_loop: SSAValue | None = None
        from tileiras.planning.lock_sharers import is_number

        func = found.loop.parent_op()
        for op in func.walk() if func is not None else ():
            if is_number(op, found.axis):
                for own, number in zip(self.own, numbers, strict=True):
                    own[op.results[0]] = number

    def follow(self, ops: Sequence[Operation], token: SSAValue) -> None:
        """Has what follows some operations follow a token instead: they have been done before."""
        values = [value for op in ops for value in op.results]
        self.common.update((v, token) for v in values if isinstance(v.type, MemTokenType))

    def keep(self, value: SSAValue, tiles: SSAValue, number: SSAValue) -> None:
        """Writes a single element of each of the tile blocks to memory, from a number on."""
        for index in self.numbers:
            mine = self._value(value, index)
            if not isinstance(mine.type, TensorType):
                mine = self.emit(aa.SplatOp, [mine], [TensorType(mine.type, [1])]).results[0]
            self.emit(aa.WriteKeptOp, [tiles, self._after(number, index), mine])

    def recall(self, value: SSAValue, tiles: SSAValue, number: SSAValue) -> None:
        """Reads what `keep` has written."""
        is_tile = isinstance(value.type, TensorType)
        type = value.type if is_tile else TensorType(value.type, [1])
        for index in self.numbers:
            operands = [tiles, self._after(number, index)]
            mine = self.emit(aa.ReadKeptOp, operands, [type]).results[0]
            if not is_tile:
                mine = self.emit(aa.UnsplatOp, [mine], [value.type]).results[0]
            self.own[index][value] = mine

    def _after(self, number: SSAValue, index: int) -> SSAValue:
        """A number so much further."""
        return self.binary(aa.AddIOp, number, self.integer(index, i32)) if index else number

    def add(self, op: Operation) -> None:
        """An operation of each of the tile blocks; one for all where they do the same."""
        self.location = op.location
        if op is self.found.loop:
            self._locked_loop(self.found.loop)
        elif isinstance(op, aa.ForOp):
            self._loop(op, op.init_values, lambda: self._plain(op))
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
        values = {value: self._value(value, index) for value in inside}
        if self.before_loop is not None and isinstance(op, aa.TiledLoadOp) and op in self.free:
            values[_token(op)] = self.before_loop
        made = op.clone(values)
        self.block.add_op(made)
        return made

    # loops

    def _locked_loop(self, loop: aa.ForOp) -> None:
        """The loop with the lock; or its iterations of which sums are kept, without it."""
        if self.sums is None:
            self._loop(loop, loop.init_values, self._locked)
            return
        tokens = [self._value(v) for v in loop.init_values if isinstance(v.type, MemTokenType)]
        self.before_loop = self.emit(
            aa.JoinMemTokensOp, list(dict.fromkeys(tokens)), [MEM_TOKEN]
        ).results[0]
        lower, upper = self.sums.lower, self.sums.upper
        self._loop(loop, loop.init_values, self._kept, lower=lower, upper=upper)
        self.before_loop = None

    def _plain(self, loop: aa.ForOp) -> None:
        """The body of a loop in which nobody waits."""
        for op in list(loop.body.block.ops)[:-1]:
            self.add(op)

    def _loop(
        self,
        loop: aa.ForOp,
        inits: Sequence[SSAValue],
        body: Callable[[], None],
        lower: SSAValue | None = None,
        upper: SSAValue | None = None,
    ) -> None:
        """A loop that hands on what differs for each of the tile blocks."""
        old = loop.body.block
        last = old.last_op
        if not isinstance(last, aa.ContinueOp):
            raise InternalError("a loop's body does not end in continue")
        around, self.block = self.block, Block(arg_types=[old.args[0].type])
        self.common[old.args[0]] = self.block.args[0]
        operands = [
            lower or self._value(loop.lower_bound),
            upper or self._value(loop.upper_bound),
            self._value(loop.step),
        ]
        for arg, value in zip(old.args[1:], inits, strict=True):
            for index in self.numbers if arg in self.found.varying else range(1):
                operands.append(self._value(value, index))
                mine = self.block.insert_arg(arg.type, len(self.block.args))
                (self.own[index] if arg in self.found.varying else self.common)[arg] = mine
        body()
        self.location = last.location
        handed = [
            self._value(value, index)
            for arg, value in zip(old.args[1:], last.arguments, strict=True)
            for index in (self.numbers if arg in self.found.varying else range(1))
        ]
        self.emit(aa.ContinueOp, handed)
        made_body, self.block = self.block, around
        self.location = loop.location
        properties = {k: v for k, v in loop.properties.items() if k != "operandSegmentSizes"}
        types = [value.type for value in operands[3:]]
        made = iter(self.emit(aa.ForOp, operands, types, properties, [Region(made_body)]).results)
        for result, arg in zip(loop.results, old.args[1:], strict=True):
            for index in self.numbers if arg in self.found.varying else range(1):
                known = self.own[index] if arg in self.found.varying else self.common
                known[result] = next(made)

    # the body of the loop with the lock

    def _locked(self) -> None:
        """The lock is taken once."""
        section = self.found.section
        self._section(section.acquire, section.release)

    def _kept(self) -> None:
        """Sums are kept in the CTA: who would wait for the lock, or give it back, goes on."""
        self._section(None, None)

    def _section(self, acquire: aa.LoopOp | None, release: aa.AtomicRMWOp | None) -> None:
        """What comes before the section, the sections of all tile blocks, and what follows."""
        found, section = self.found, self.found.section
        self.held, self.loaded = {}, {}
        for op in found.before:
            self.add(op)
        if acquire is not None:
            self.add(acquire)
        else:
            tokens = [v for v in section.acquire.init_values if isinstance(v.type, MemTokenType)]
            waited = list(dict.fromkeys(self._value(value) for value in tokens))
            joined = self.emit(aa.JoinMemTokensOp, waited, [waited[0].type]).results[0]
            self.common.update((result, joined) for result in section.acquire.results)
        stores = [op for op in section.body if isinstance(op, aa.TiledStoreOp)]
        last_stores = list({place_of_access(op): op for op in stores}.values())
        for index in self.numbers:
            is_last = index == self.numbers[-1]
            for op in section.body:
                self.location = op.location
                self._guarded(op, index, last_stores if is_last else (), acquire is None)
        self._join([value for op in section.body for value in op.results])
        self._join([_token(section.release)])
        if release is not None:
            self.add(release)
        else:
            token = self._value(_token(section.release))
            self.common[section.release.result_token] = token
        for op in list(found.loop.body.block.ops):
            known = op in found.before or op in section.body or op.next_op is None
            if not known and op is not section.acquire and op is not section.release:
                self.add(op)

    def _guarded(
        self, op: Operation, index: int, last_stores: Sequence[Operation], is_kept: bool
    ) -> None:
        """An operation of a section; places stay in registers from the first load to the end."""
        place = None
        if isinstance(op, aa.TiledLoadOp | aa.TiledStoreOp):
            place = place_of_access(op)
            if place is None:
                raise InternalError("a section goes to no place", where=PASS_NAME)
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
            if is_kept:
                self._kept_access(op, place, index, token)
                return
        made = self._clone(op, index)
        self.own[index].update(zip(op.results, made.results, strict=True))
        if isinstance(op, aa.TiledLoadOp) and place is not None:
            self.held[place], self.loaded[place] = made.results

    def _kept_access(
        self, op: aa.TiledLoadOp | aa.TiledStoreOp, place: Place, index: int, token: SSAValue
    ) -> None:
        """Reads or writes what the CTA keeps of a place, in the loop's iteration."""
        if self.sums is None:
            raise InternalError("nothing is kept", where=PASS_NAME)
        tiles, counter = self.sums.tiles[place], self.common[self.found.loop.body.block.args[0]]
        number = self.binary(aa.SubIOp, counter, self.sums.lower)
        self.own[index][op.result_token] = token
        if isinstance(op, aa.TiledStoreOp):
            self.emit(aa.WriteKeptOp, [tiles, number, self.held[place]])
            return
        read = self.emit(aa.ReadKeptOp, [tiles, number], [op.result.type]).results[0]
        self.own[index][op.result] = self.held[place] = read

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
        raise InternalError("an access that follows nothing", where=PASS_NAME)
    return token
