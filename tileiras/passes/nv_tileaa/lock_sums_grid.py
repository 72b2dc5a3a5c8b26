"""CTAs that keep what their tile blocks add to sums under a lock, for `join-lock-sharers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, IntAttr, TensorType, i1, i32
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.nv_tileaa.exchange import KeptTilesType
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.lock_sharer_bodies import PASS_NAME, KeptSums
from tileiras.passes.nv_tileaa.lock_sharer_grids import SharerGrid
from tileiras.planning.critical_sections import Place
from tileiras.planning.lock_sharers import LockSharers
from tileiras.planning.lock_sums import LockSum, LockSums


@dataclass
class _Iteration:
    """The body of a loop that is being built, with the token that its iterations hand on."""

    counter: SSAValue
    token: SSAValue


class SummedGrid(SharerGrid):
    """As many CTAs as find room; each adds up what its tile blocks add, and then takes the lock.

    CTA c of m runs tile blocks c, c + m, c + 2 m ..; m is a multiple of what numbers are divided
    by, so all of them have the lock of tile block c. The first tiles of a row are kept, as many as
    there is memory for. A CTA with one tile block keeps nothing.
    """

    def __init__(self, func: aa.FuncOp, found: LockSharers, sums: LockSums):
        super().__init__(func, found)
        self.sums = sums

    def build(self) -> None:
        """Appends what takes the place of the body."""
        divisor = self.divisor()
        number = self.place(aa.GetProgramIdOp, self.found.axis)
        count = self.place(aa.GetNumProgramsOp, self.found.axis)
        one = self.integer(1, i32)
        shares = self.quotient(self.integer(self.sums.ctas, i32), divisor)
        shares = self._choice(self.less(shares, one), one, shares)
        step = self.binary(aa.MulIOp, shares, divisor)
        with self.only_where(self.less(number, step)):
            self._cta(number, count, step, one)

    def _cta(self, number: SSAValue, count: SSAValue, step: SSAValue, one: SSAValue) -> None:
        """All that one CTA does."""
        together = self.found.together
        left = self.binary(aa.SubIOp, self.binary(aa.SubIOp, count, number), one)
        turns = self.binary(aa.AddIOp, self.quotient(left, step), one)
        kept = self._keep(turns, one)
        self._start(kept)
        groups = self.quotient(turns, self.integer(together, i32))
        zero = self.integer(0, i32)
        token = self.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]
        with self._loop(zero, groups, one, token) as several:
            first = self.binary(aa.MulIOp, several.counter, self.scaled(step, together))
            numbers = self.several(self.binary(aa.AddIOp, number, first), step)
            self._turn(several, numbers, kept)
        with self._loop(self.scaled(groups, together), turns, one, several.token) as rest:
            alone = self.binary(aa.MulIOp, rest.counter, step)
            self._turn(rest, [self.binary(aa.AddIOp, number, alone)], kept)
        loop = self.found.loop
        with self._loop(loop.lower_bound, kept.middle, loop.step, rest.token) as last:
            last.token = _Section(self, last).add(self.found, self.sums, kept)

    @contextmanager
    def _loop(
        self, lower: SSAValue, upper: SSAValue, step: SSAValue, token: SSAValue
    ) -> Iterator[_Iteration]:
        """A loop; what is appended meanwhile is its body. The token is that of the loop then."""
        outer, self.block = self.block, Block(arg_types=[i32, token.type])
        iteration = _Iteration(*self.block.args)
        yield iteration
        self.emit(aa.ContinueOp, [iteration.token])
        body, self.block = self.block, outer
        operands = [lower, upper, step, token]
        iteration.token = self.emit(aa.ForOp, operands, [token.type], {}, [Region(body)]).results[0]

    def _turn(self, iteration: _Iteration, numbers: list[SSAValue], kept: KeptSums) -> None:
        """Tile blocks side by side; the token follows all that they do."""
        before = self.block.last_op
        self.bodies(numbers, kept)
        op = before.next_op if before is not None else self.block.first_op
        tokens = [iteration.token]
        while op is not None:
            tokens += [value for value in op.results if isinstance(value.type, MemTokenType)]
            op = op.next_op
        iteration.token = self.emit(aa.JoinMemTokensOp, tokens, [MEM_TOKEN]).results[0]

    def _choice(self, condition: SSAValue, value: SSAValue, other: SSAValue) -> SSAValue:
        """One value where a condition holds, else another one."""
        return self.emit(aa.SelectOp, [condition, value, other], [value.type]).results[0]

    def _keep(self, turns: SSAValue, one: SSAValue) -> KeptSums:
        """Memory for sums, and how many tiles of a row lie there: none for one tile block."""
        end, most = self.found.loop.upper_bound, self.integer(self.sums.count, i32)
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(Signedness.SIGNED),
        }
        is_short = self.emit(aa.CmpIOp, [end, most], [i1], properties).results[0]
        fit = self._choice(is_short, end, most)
        middle = self._choice(self.less(one, turns), fit, self.found.loop.lower_bound)
        count = {"count": IntAttr(self.sums.count)}
        tiles: dict[Place, SSAValue] = {}
        for place, each in self.sums.places.items():
            type = KeptTilesType(_tile_type(each))
            tiles[place] = self.emit(aa.KeepTilesOp, (), [type], count).results[0]
        return KeptSums(tiles, middle)

    def _start(self, kept: KeptSums) -> None:
        """Sums start as what changes nothing: -0.0, or 0."""
        loop = self.found.loop
        token = self.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]
        with self._loop(loop.lower_bound, kept.middle, loop.step, token) as each:
            for place, tiles in kept.tiles.items():
                nothing = self._nothing(_tile_type(self.sums.places[place]))
                self.emit(aa.WriteKeptOp, [tiles, each.counter, nothing])

    def _nothing(self, type: TensorType) -> SSAValue:
        """A tile of what changes no sum."""
        bits = storage_bits(type.element_type)
        word = 1 << (bits - 1) if isinstance(type.element_type, AnyFloat) else 0
        tile = TileType(type.element_type, type.get_shape())
        value = {"value": DenseAttr(tile, word.to_bytes(bits // 8, "little"))}
        return self.emit(aa.ConstantOp, (), [type], value).results[0]


class _Section:
    """Builds the section that adds what is kept of an iteration's tiles to memory."""

    def __init__(self, grid: SummedGrid, iteration: _Iteration):
        self.grid = grid
        self.iteration = iteration
        self.made: dict[SSAValue, SSAValue] = {}

    def add(self, found: LockSharers, sums: LockSums, kept: KeptSums) -> SSAValue:
        """Takes the lock, adds, gives the lock back; the token behind that."""
        grid, section = self.grid, found.section
        self.made[found.loop.body.block.args[0]] = self.iteration.counter
        for value in section.acquire.init_values:
            self.made[value] = self.iteration.token
        acquire = self._clone(section.acquire)
        taken = acquire.results[0]
        tokens = [taken]
        for place, each in sums.places.items():
            tile = _tile_type(each)
            load = self._access(each.load, [], taken)
            read = [kept.tiles[place], self.iteration.counter]
            mine = grid.emit(aa.ReadKeptOp, read, [tile]).results[0]
            properties = dict(each.update.properties)
            sum_class = aa.AddIOp if isinstance(each.update, aa.AddIOp) else aa.AddFOp
            total = grid.emit(sum_class, [load.results[0], mine], [tile], properties).results[0]
            store = self._access(each.store, [total], load.results[1])
            tokens += [load.results[1], store.results[0]]
        joined = grid.emit(aa.JoinMemTokensOp, tokens, [MEM_TOKEN]).results[0]
        if section.release.token is None:
            raise InternalError("a release that follows nothing", where=PASS_NAME)
        self.made[section.release.token] = joined
        return self._clone(section.release).results[-1]

    def _access(
        self, op: aa.TiledLoadOp | aa.TiledStoreOp, stored: list[SSAValue], token: SSAValue
    ) -> Operation:
        """An access to a place, behind a token."""
        places = [self._value(value) for value in (op.view, *op.indices)]
        types = [result.type for result in op.results]
        return self.grid.emit(type(op), [*stored, *places, token], types, op.properties)

    def _clone(self, op: Operation) -> Operation:
        """An operation of the section, with what it needs of the iteration."""
        inside = dict.fromkeys(value for inner in op.walk() for value in inner.operands)
        own = {result for inner in op.walk() for result in inner.results}
        made = op.clone({value: self._value(value) for value in inside if value not in own})
        self.grid.block.add_op(made)
        return made

    def _value(self, value: SSAValue) -> SSAValue:
        """What stands for a value: made again if the loop's body made it."""
        known = self.made.get(value)
        loop = self.grid.found.loop
        if known is None and isinstance(value, OpResult) and value.op.parent is loop.body.block:
            made = self._clone(value.op)
            self.made.update(zip(value.op.results, made.results, strict=True))
            return self.made[value]
        return value if known is None else known


def _tile_type(each: LockSum) -> TensorType:
    """The type of a place's tiles."""
    type = each.load.result.type
    if not isinstance(type, TensorType):
        raise InternalError("a sum that is no tile", where=PASS_NAME)
    return type
