"""Builds what `coarsen-locks` decides: clusters of tile blocks, one section for all of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import ComparisonPredicate
from tileiras.dialects.nv_tileaa.exchange import EXCHANGE
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.cluster_blocks import LESS, ClusterBlocks, compared, number_blocks
from tileiras.passes.nv_tileaa.critical_sections import Access, Place, Section, place_of_access
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder, type_of

_EQUAL = compared(ComparisonPredicate.EQUAL)


def renumber_tile_blocks(func: aa.FuncOp, section: Section, axis: int, size: int) -> ClusterBlocks:
    """Tile blocks `base + rank` in place of those of the grid, along one axis.

    A CTA beyond the grid takes the place of the cluster's first tile block, so that it finds what
    it loads; its loops have no iterations.
    """
    first = func.body.block.first_op
    if first is None:
        raise InternalError("an empty function", where="coarsen-locks")
    blocks, made = number_blocks(first, axis, size)
    for op in list(func.walk()):
        if isinstance(op, aa.GetProgramIdOp) and op not in made and op.axis.value.data == axis:
            op.result.replace_all_uses_with(blocks.own)
            op.detach()
            op.erase()
    op = section.acquire.prev_op
    while op is not None:
        if isinstance(op, aa.ForOp):
            _only_if(op, blocks.exists)
        op = op.prev_op
    return blocks


def _only_if(loop: aa.ForOp, exists: SSAValue) -> None:
    """A loop without iterations where the condition does not hold."""
    before = ScalarBuilder()
    before.location = loop.location
    values = [exists, loop.upper_bound, loop.lower_bound]
    upper = before.emit(aa.SelectOp, values, [loop.upper_bound.type]).results[0]
    before.put_before(loop)
    loop.operands[1] = upper


def share_section(section: Section, tiles: Sequence[SSAValue], blocks: ClusterBlocks) -> None:
    """The last CTA of the cluster performs the section of all tile blocks, in order.

    The last one, for it is the one that is missing first.
    """
    section = _without_common(section, tiles)
    outer = ScalarBuilder()
    outer.location = section.acquire.location
    reader = {"reader": IntAttr(blocks.size - 1)}
    sent = outer.emit(aa.ShareTilesOp, tiles, [EXCHANGE], reader).results[0]
    last = outer.integer(blocks.size - 1, i32)
    is_last = outer.emit(aa.CmpIOp, [blocks.rank, last], [i1], _EQUAL).results[0]
    exists = [_exists(outer, blocks, rank) for rank in range(blocks.size)]
    inner, others = ScalarBuilder(), ScalarBuilder()
    inner.location = others.location = outer.location
    _Sections(section, inner, sent).build(tiles, exists)
    inner.emit(aa.YieldOp)
    others.emit(aa.YieldOp)
    outer.emit(aa.IfOp, [is_last], (), {}, [Region(inner.block), Region(others.block)])
    outer.put_before(section.acquire)
    _erase([section.acquire, *section.body, section.release])


def _without_common(section: Section, tiles: Sequence[SSAValue]) -> Section:
    """What is the same for all tile blocks is computed before the section."""
    common = dict.fromkeys(section.common(tiles))
    block = section.acquire.parent_block()
    if block is None:
        raise InternalError("a section stands in no block", where="coarsen-locks")
    for op in common:
        op.detach()
        block.insert_op_before(op, section.acquire)
    return replace(section, body=tuple(op for op in section.body if op not in common))


def _exists(builder: ScalarBuilder, blocks: ClusterBlocks, rank: int) -> SSAValue | None:
    """i1: whether the tile block of a CTA exists; None for the first one, which does."""
    if rank == 0:
        return None
    number = builder.binary(aa.AddIOp, blocks.base, builder.integer(rank, i32))
    return builder.emit(aa.CmpIOp, [number, blocks.count], [i1], LESS).results[0]


def _erase(ops: Iterable[Operation]) -> None:
    """Takes operations away whose results only they themselves use, and what follows in tokens."""
    members = list(ops)
    last = members[-1].next_op
    while last is not None and not isinstance(last, aa.ReturnOp):
        members.append(last)
        last = last.next_op
    for op in reversed(members):
        op.detach()
        op.erase(safe_erase=False)


@dataclass
class _State:
    """What the section knows of memory: the value at each place, and which have been written."""

    values: dict[Place, SSAValue]
    written: dict[Place, None]

    def copy(self) -> _State:
        """An own copy, for a branch."""
        return _State(dict(self.values), dict(self.written))


class _Sections:
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

        The tiles arrive meanwhile.
        """
        outer = self._builder
        acquired = self._take()
        self._load_all(acquired)
        outer.emit(aa.AwaitSharedOp, [self._sent])
        state = _State({place: value for place, (_, value) in self._loads.items()}, {})
        for rank, condition in enumerate(exists):
            if condition is None:
                self._run(self._section.body, self._tiles_of(rank, tiles), state)
            else:
                self._run_if(condition, rank, tiles, state)
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
        ends: list[tuple[list[SSAValue], _State, Block]] = []
        for region in op.regions:
            own_values, own = dict(values), state.copy()
            block = self._inside(region.block.ops, own_values, own)
            end = region.block.last_op
            pairs = zip(op.results, end.operands if end is not None else (), strict=True)
            results = [own_values.get(v, v) for result, v in pairs if result in kept]
            ends.append((results, own, block))
        condition = values.get(op.condition, op.condition)
        joined = self._join(condition, ends, state)
        values.update(zip(kept, joined, strict=True))

    def _run_if(
        self, condition: SSAValue, rank: int, tiles: Sequence[SSAValue], state: _State
    ) -> None:
        """The section of a tile block that may not exist."""
        own = state.copy()
        outer, self._builder.block = self._builder.block, Block()
        self._run(self._section.body, self._tiles_of(rank, tiles), own)
        block, self._builder.block = self._builder.block, outer
        self._join(condition, [([], own, block), ([], state.copy(), Block())], state)

    def _inside(
        self, ops: Iterable[Operation], values: dict[SSAValue, SSAValue], state: _State
    ) -> Block:
        """As `_run`, in a block of its own."""
        outer, self._builder.block = self._builder.block, Block()
        self._run(ops, values, state)
        inner, self._builder.block = self._builder.block, outer
        return inner

    def _join(
        self,
        condition: SSAValue,
        ends: Sequence[tuple[list[SSAValue], _State, Block]],
        state: _State,
    ) -> list[SSAValue]:
        """The branch with two sides; the state becomes that after it. Gives its other results."""
        (first, mine, _), (second, its, _) = ends
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
    place = place_of_access(op)
    if place is None:
        raise InternalError("an access to an unknown place", where="coarsen-locks")
    return place


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


__all__ = ["ClusterBlocks", "renumber_tile_blocks", "share_section"]
