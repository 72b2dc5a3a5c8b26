"""Critical sections of several tile blocks, performed by one CTA under one lock.

What one section stores for the next one to load stays in registers (scalar replacement): each place
is loaded once, before the first section, and stored once, after the last.

    take the lock; load all places; await_shared; read_shared
    section of tile block 0; of tile block 1 ...      on values, with the tiles of each CTA
    store all places that were written; give the lock back
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.storage import value_bytes
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError, required
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder, type_of
from tileiras.planning.critical_sections import Access, Place, Section, place_of_access

HELD_BYTES = 56 * 1024
"""Policy: of tiles in registers at once: 112 registers of each of 128 threads."""


@dataclass
class _State:
    """What the section knows of memory: the value at each place, and which have been written."""

    values: dict[Place, SSAValue]
    written: dict[Place, None]

    def copy(self) -> _State:
        """An own copy, for a branch."""
        return _State(dict(self.values), dict(self.written))


_End = tuple[list[SSAValue], _State, Block]
"""A side of a branch: what it gives, the state that it leaves, what it does."""


class MergedCriticalSections:
    """Writes one critical section after another, with memory in registers in between."""

    def __init__(self, section: Section, builder: ScalarBuilder, sent: SSAValue):
        self._section = section
        self._sent = sent
        self._builder = builder
        self._stores: dict[Place, Access] = {}
        self._loads: dict[Place, tuple[aa.LoadOp | aa.TiledLoadOp, SSAValue]] = {}
        self._tokens: dict[Place, SSAValue] = {}

    def build(self, tiles: Sequence[SSAValue], exists: Sequence[SSAValue | None]) -> None:
        """Takes the lock, loads, computes for each tile block that exists, stores, gives back.

        The tiles arrive meanwhile. The lock and what it guards are on their way first: behind the
        tiles, which fill the way, they would come late.
        """
        outer = self._builder
        acquired = self._take()
        self._load_all(acquired)
        outer.emit(aa.AwaitSharedOp, [self._sent])
        state = _State({place: value for place, (_, value) in self._loads.items()}, {})
        self._run_all(tiles, exists, state)
        stored = [self._store(place, state, acquired) for place in state.written]
        location, outer.location = outer.location, self._section.release.location
        token = outer.emit(aa.JoinMemTokensOp, [acquired, *stored], [MEM_TOKEN]).results[0]
        self._clone(self._section.release, {}, token)
        outer.location = location

    def _tiles_of(self, rank: int, tiles: Sequence[SSAValue]) -> dict[SSAValue, SSAValue]:
        """The tiles of a CTA, by those of this one.

        The own ones are read, too, so that the section does without the layout that they have
        where they are computed.
        """
        found: dict[SSAValue, SSAValue] = {}
        for number, tile in enumerate(tiles):
            properties = {"number": IntAttr(number), "rank": IntAttr(rank)}
            read = self._builder.emit(aa.ReadSharedOp, [self._sent], [tile.type], properties)
            found[tile] = read.results[0]
        return found

    def _take(self) -> SSAValue:
        """The loop that takes the lock, and the token behind all that came before the section."""
        outer, loop = self._builder, self._section.acquire
        clone = loop.clone()
        outer.block.add_op(clone)
        tokens = dict.fromkeys(clone.results)
        inside = {loop, *self._section.body}
        for op in self._section.body:
            for inner in op.walk():
                tokens |= dict.fromkeys(_tokens_from_outside(inner, inside))
        tokens |= dict.fromkeys(_tokens_from_outside(self._section.release, inside))
        return outer.emit(aa.JoinMemTokensOp, list(tokens), [MEM_TOKEN]).results[0]

    def _load_all(self, acquired: SSAValue) -> None:
        """One load for each place that the section reads; all start at once."""
        for op in self._section.accesses():
            place = _place(op)
            if isinstance(op, aa.LoadOp | aa.TiledLoadOp) and place not in self._loads:
                view = self._view(op)
                made = self._clone(op, view, acquired)
                self._loads[place] = (op, made.results[0])
                self._tokens[place] = made.results[1]
            elif isinstance(op, aa.StoreOp | aa.TiledStoreOp):
                self._stores[place] = op

    def _view(self, op: Access) -> dict[SSAValue, SSAValue]:
        """A view like the one that an access goes through, made anew."""
        if isinstance(op, aa.LoadOp | aa.StoreOp) or not isinstance(op.view.owner, Operation):
            return {}
        made = self._clone(op.view.owner, {}, None)
        return {op.view: made.results[0]}

    def _clone(
        self, op: Operation, values: dict[SSAValue, SSAValue], token: SSAValue | None
    ) -> Operation:
        """A copy behind a token."""
        operands = [
            token
            if token is not None and isinstance(value.type, MemTokenType)
            else values.get(value, value)
            for value in op.operands
        ]
        types = [result.type for result in op.results]
        return self._builder.emit(type_of(op), operands, types, op.properties)

    def _store(self, place: Place, state: _State, acquired: SSAValue) -> SSAValue:
        """What is at a place in the end."""
        op = self._stores[place]
        token = acquired
        if place in self._tokens:
            both = [acquired, self._tokens[place]]
            token = self._builder.emit(aa.JoinMemTokensOp, both, [MEM_TOKEN]).results[0]
        if not isinstance(op, aa.StoreOp | aa.TiledStoreOp):
            raise InternalError("a place is written by a load", where="coarsen-locks")
        values = self._view(op) | {op.value: state.values[place]}
        return self._clone(op, values, token).results[-1]

    def _run_all(
        self, tiles: Sequence[SSAValue], exists: Sequence[SSAValue | None], state: _State
    ) -> None:
        """One section after another, without asking which if all tile blocks exist.

        As many tiles as registers hold are read before: as long as memory is waited for.
        """
        ahead = self._prefetched_tiles(tiles, len(exists))
        first = [self._tiles_of(rank, tiles) for rank in range(ahead)]

        def straight(own: _State) -> None:
            read = list(first)
            for rank in range(len(exists)):
                self._run(self._section.body, dict(read[rank]), own)
                if len(read) < len(exists):
                    read.append(self._tiles_of(len(read), tiles))

        def one_by_one(own: _State) -> None:
            for rank, condition in enumerate(exists):

                def run(state: _State, rank: int = rank) -> None:
                    values = first[rank] if rank < ahead else self._tiles_of(rank, tiles)
                    self._run(self._section.body, dict(values), state)

                if condition is None:
                    run(own)
                else:
                    self._choose(condition, run, lambda state: None, own)

        last = exists[-1]
        if last is None:
            straight(state)
        else:
            self._choose(last, straight, one_by_one, state)

    def _prefetched_tiles(self, tiles: Sequence[SSAValue], blocks: int) -> int:
        """Tile blocks whose tiles fit the registers, beside what the section has loaded.

        Addresses of what was loaded may take as much as the tiles.
        """
        loaded = 2 * sum(value_bytes(value) for _, value in self._loads.values())
        return max(1, min(blocks, (HELD_BYTES - loaded) // sum(map(value_bytes, tiles))))

    def _choose(
        self,
        condition: SSAValue,
        first: Callable[[_State], None],
        second: Callable[[_State], None],
        state: _State,
    ) -> None:
        """One of two things, each in a block and on a state of its own."""
        ends: list[_End] = []
        for perform in (first, second):
            own = state.copy()
            ends.append(([], own, self._aside(partial(perform, own))))
        self._join(condition, ends, state)

    # one section

    def _run(
        self, ops: Iterable[Operation], values: dict[SSAValue, SSAValue], state: _State
    ) -> None:
        """Performs operations on the state; `values` are those of this tile block."""
        for op in ops:
            self._builder.location = op.location
            match op:
                case aa.LoadOp() | aa.TiledLoadOp():
                    values[op.result] = self._read(op, values, state)
                case aa.StoreOp() | aa.TiledStoreOp():
                    place = _place(op)
                    state.values[place] = values.get(op.value, op.value)
                    state.written[place] = None
                case aa.IfOp():
                    self._branch(op, values, state)
                case aa.BlockTileOp() | aa.CreateMemTokenOp() | aa.JoinMemTokensOp():
                    pass
                case aa.YieldOp():
                    pass
                case _:
                    made = self._clone(op, values, None)
                    values.update(zip(op.results, made.results, strict=True))

    def _read(
        self, op: aa.LoadOp | aa.TiledLoadOp, values: dict[SSAValue, SSAValue], state: _State
    ) -> SSAValue:
        """What is at a place now; where a mask forbids to look, what the load says instead."""
        place = _place(op)
        value = state.values[place]
        if not isinstance(op, aa.LoadOp) or op.mask is None or op.other is None:
            return value
        first, loaded = self._loads[place]
        if value is loaded and isinstance(first, aa.LoadOp) and first.other is op.other:
            return value
        other = values.get(op.other, op.other)
        operands = [values.get(op.mask, op.mask), value, other]
        return self._builder.emit(aa.SelectOp, operands, [value.type]).results[0]

    def _branch(self, op: aa.IfOp, values: dict[SSAValue, SSAValue], state: _State) -> None:
        """Both sides on a state of their own; what they leave behind is the branch's result."""
        kept = [result for result in op.results if not isinstance(result.type, MemTokenType)]
        ends: list[_End] = []
        for region in op.regions:
            own_values, own = dict(values), state.copy()
            block = self._aside(partial(self._run, region.block.ops, own_values, own))
            end = region.block.last_op
            pairs = zip(op.results, end.operands if end is not None else (), strict=True)
            results = [own_values.get(v, v) for result, v in pairs if result in kept]
            ends.append((results, own, block))
        condition = values.get(op.condition, op.condition)
        joined = self._join(condition, ends, state)
        values.update(zip(kept, joined, strict=True))

    def _aside(self, perform: Callable[[], None]) -> Block:
        """What something builds, in a block of its own."""
        outer, self._builder.block = self._builder.block, Block()
        perform()
        inner, self._builder.block = self._builder.block, outer
        return inner

    def _join(self, condition: SSAValue, ends: Sequence[_End], state: _State) -> list[SSAValue]:
        """The branch with two sides; the state becomes that after it. Gives its other results."""
        (first, mine, _), (second, its, _) = ends
        # What only one side has written is written again before anyone looks.
        for place in mine.values.keys() ^ its.values.keys():
            for own in (mine, its, state):
                own.values.pop(place, None)
        changed = [
            place for place in self._stores if mine.values.get(place) is not its.values.get(place)
        ]
        for results, own, block in ends:
            values = [*results, *(own.values[place] for place in changed)]
            block.add_op(aa.YieldOp.create(operands=values, location=self._builder.location))
        types = [value.type for value in (*first, *(mine.values[place] for place in changed))]
        regions = [Region(block) for _, _, block in ends]
        branch = self._builder.emit(aa.IfOp, [condition], types, {}, regions)
        count = len(second)
        state.values.update(mine.values)
        state.values.update(zip(changed, branch.results[count:], strict=True))
        state.written |= mine.written | its.written
        return list(branch.results[:count])


def _place(op: Access) -> Place:
    return required(place_of_access(op), "an access to an unknown place", "coarsen-locks")


def _tokens_from_outside(op: Operation, inside: set[Operation]) -> list[SSAValue]:
    """Tokens that an operation of a section waits for and that were there before it."""
    found: list[SSAValue] = []
    for value in op.operands:
        owner = value.owner
        if not isinstance(value.type, MemTokenType) or not isinstance(owner, Operation):
            continue
        if not any(member.is_ancestor(owner) for member in inside):
            found.append(value)
    return found


__all__ = ["MergedCriticalSections"]
