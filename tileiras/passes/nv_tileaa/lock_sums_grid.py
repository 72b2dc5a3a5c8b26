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
from tileiras.dialects.nv_tileaa.exchange import KeptMemoryType
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemTokenType
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa.lock_sharer_bodies import PASS_NAME, KeptSums, SharerBodies
from tileiras.passes.nv_tileaa.lock_sharer_grids import SharerGrid
from tileiras.planning.critical_sections import Place
from tileiras.planning.lock_sharers import LockSharers
from tileiras.planning.lock_sums import MOST_ROWS, LockSum, LockSums


@dataclass
class _Iteration:
    """The body of a loop that is being built, with the token that its iterations hand on."""

    counter: SSAValue
    token: SSAValue


@dataclass(frozen=True)
class _Kept:
    """The memory of a CTA: for sums, by place; for single elements of tile blocks, by value."""

    sums: dict[Place, SSAValue]
    rows: dict[SSAValue, SSAValue]


_Blocks = tuple[SSAValue, SSAValue, SSAValue]
"""The first one of some tile blocks, the step to the next one, and how many there are."""


class SummedGrid(SharerGrid):
    """As many CTAs as find room; each adds up what its tile blocks add, and then takes the lock.

    CTA c of m runs tile blocks c, c + m, c + 2 m ..; m is a multiple of what numbers are divided
    by, so all of them have the lock of tile block c. There are no more CTAs than have as many tile
    blocks as run side by side: others would only wait for the lock. A row of more tiles than there
    is memory for is gone through in parts; what comes before the loop is done in the first one, and
    single elements that the loop needs of it are kept.
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
        enough = self._turns_of(count, self.scaled(divisor, self.found.together))
        shares = self._choice(self.less(enough, shares), enough, shares)
        shares = self._choice(self.less(shares, one), one, shares)
        step = self.binary(aa.MulIOp, shares, divisor)
        with self.only_where(self.less(number, step)):
            turns = self._turns_of(self.binary(aa.SubIOp, count, number), step)
            rows = self.integer(MOST_ROWS, i32)
            kept, length = self._keep(), self._length()
            zero, rounds = self.integer(0, i32), self._turns_of(turns, rows)
            with self._loop(zero, rounds, one, self._token()) as each:
                begin = self.scaled(each.counter, MOST_ROWS)
                left = self.binary(aa.SubIOp, turns, begin)
                own = self._choice(self.less(left, rows), left, rows)
                first = self.binary(aa.AddIOp, number, self.binary(aa.MulIOp, begin, step))
                each.token = self._rows(each.token, kept, length, (first, step, own))

    def _rows(self, token: SSAValue, kept: _Kept, length: SSAValue, blocks: _Blocks) -> SSAValue:
        """What one CTA does for some tile blocks: the first part of their rows, and the others."""
        one, most = self.integer(1, i32), self.integer(self.sums.count, i32)
        sums = self._sums(kept, self.found.loop.lower_bound, length)
        token = self._part(token, sums, blocks, kept.rows, is_first=True)
        parts = self._turns_of(self._choice(self.less(length, one), one, length), most)
        with self._loop(one, parts, one, token) as part:
            lower = self.scaled(part.counter, self.sums.count)
            sums = self._sums(kept, lower, length)
            part.token = self._part(part.token, sums, blocks, kept.rows, is_first=False)
        return part.token

    def _turns_of(self, count: SSAValue, step: SSAValue) -> SSAValue:
        """How many steps there are to a number above zero."""
        one = self.integer(1, i32)
        steps = self.quotient(self.binary(aa.SubIOp, count, one), step)
        return self.binary(aa.AddIOp, steps, one)

    def _part(
        self,
        token: SSAValue,
        sums: KeptSums,
        blocks: _Blocks,
        rows: dict[SSAValue, SSAValue],
        is_first: bool,
    ) -> SSAValue:
        """Some tiles of the rows of tile blocks: of four at a time, of two, of one.

        Returns the token behind what they add under the lock.
        """
        self._start(sums)
        number, step, turns = blocks
        begin, size = self.integer(0, i32), self.found.together
        while size:
            with self._loop(*self._turns(begin, turns, size), token) as several:
                begins = self.binary(aa.MulIOp, several.counter, step)
                numbers = self.several(self.binary(aa.AddIOp, number, begins), step, size)
                before = self.block.last_op
                bodies = SharerBodies(self.found, numbers, sums)
                bodies.block = self.block
                if not is_first:
                    bodies.follow(self.ops, several.token)
                for value, tiles in rows.items() if not is_first else ():
                    bodies.recall(value, tiles, several.counter)
                for op in self.ops if is_first else (*self.sums.rows.again, self.found.loop):
                    bodies.add(op)
                for value, tiles in rows.items() if is_first else ():
                    bodies.keep(value, tiles, several.counter)
                several.token = self._behind(several.token, before)
            begin, token = self._whole(turns, size), several.token
            size //= 2
        with self._loop(sums.lower, sums.upper, self.found.loop.step, token) as last:
            last.token = _Section(self, last).add(self.found, self.sums, sums)
        return last.token

    def _turns(
        self, begin: SSAValue, turns: SSAValue, size: int
    ) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The bounds of a loop over so many tile blocks at a time."""
        return begin, self._whole(turns, size), self.integer(size, i32)

    def _whole(self, turns: SSAValue, size: int) -> SSAValue:
        """As many tile blocks as are a multiple of a size."""
        if size == 1:
            return turns
        return self.scaled(self.quotient(turns, self.integer(size, i32)), size)

    def _token(self) -> SSAValue:
        """A token that follows nothing."""
        return self.emit(aa.CreateMemTokenOp, (), [MEM_TOKEN]).results[0]

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

    def _behind(self, token: SSAValue, before: Operation | None) -> SSAValue:
        """A token that follows all that stands behind an operation of the block."""
        op = before.next_op if before is not None else self.block.first_op
        tokens = [token]
        while op is not None:
            tokens += [value for value in op.results if isinstance(value.type, MemTokenType)]
            op = op.next_op
        return self.emit(aa.JoinMemTokensOp, tokens, [MEM_TOKEN]).results[0]

    def _choice(self, condition: SSAValue, value: SSAValue, other: SSAValue) -> SSAValue:
        """One value where a condition holds, else another one."""
        return self.emit(aa.SelectOp, [condition, value, other], [value.type]).results[0]

    def _keep(self) -> _Kept:
        """Memory for the sums of each place, and for single elements of each tile block."""
        tiles: dict[Place, SSAValue] = {}
        for place, each in self.sums.places.items():
            tiles[place] = self._memory(_tile_type(each), self.sums.count)
        rows: dict[SSAValue, SSAValue] = {}
        for value in self.sums.rows.kept:
            type = value.type if isinstance(value.type, TensorType) else TensorType(value.type, [1])
            rows[value] = self._memory(type, MOST_ROWS)
        return _Kept(tiles, rows)

    def _memory(self, type: TensorType, count: int) -> SSAValue:
        """Memory for so many tiles."""
        properties = {"count": IntAttr(count)}
        return self.emit(aa.KeepTilesOp, (), [KeptMemoryType(type)], properties).results[0]

    def _length(self) -> SSAValue:
        """The tiles of a row."""
        end, zero = self.found.loop.upper_bound, self.integer(0, i32)
        properties = {
            "comparison_predicate": ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            "signedness": SignednessAttr(Signedness.SIGNED),
        }
        has_some = self.emit(aa.CmpIOp, [zero, end], [i1], properties).results[0]
        return self._choice(has_some, end, zero)

    def _sums(self, kept: _Kept, lower: SSAValue, length: SSAValue) -> KeptSums:
        """The part of a row that begins with a tile: up to its end, or as there is memory for."""
        left = self.binary(aa.SubIOp, length, lower)
        most = self.integer(self.sums.count, i32)
        own = self._choice(self.less(left, most), left, most)
        return KeptSums(kept.sums, lower, self.binary(aa.AddIOp, lower, own))

    def _start(self, kept: KeptSums) -> None:
        """Sums start as what changes nothing: -0.0, or 0."""
        with self._loop(kept.lower, kept.upper, self.found.loop.step, self._token()) as each:
            number = self.binary(aa.SubIOp, each.counter, kept.lower)
            for place, tiles in kept.tiles.items():
                nothing = self._nothing(_tile_type(self.sums.places[place]))
                self.emit(aa.WriteKeptOp, [tiles, number, nothing])

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
            number = grid.binary(aa.SubIOp, self.iteration.counter, kept.lower)
            read = [kept.tiles[place], number]
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
