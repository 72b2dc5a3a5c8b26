"""Which loops that scan tile after tile do the same with tiles that are longer along the scan.

    for %j { %s = scan %x[%j]; store %s + %before; %before += sum %x[%j] }   of 64 columns
    -> for %j step 4 { the same }                                            of 256 columns

Memory is read and written in the order of the tiles: of short rows a line here and a line there.
What is carried is combined by the function of the scan, so that it does not matter where it begins.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.analysis.combining import combining_class
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.tiling.joined_iterations import (
    IterationReading,
    JoinedIterations,
    counts_one_by_one,
    is_plain,
)
from tileiras.planning.tiling.online_sums import FIXED, CannotJoinError, Meaning
from tileiras.planning.tiling.scanned_loops import goes_along_rows

ROW_BYTES = 512
"""Policy: of a row of the longer tile. Copies of 8192x8192 f16 by tile blocks of 64 rows, tile
after tile, us on one H200: 64 columns 77.2, 128 75.7 to 73.3, 256 73.5 to 72.7.
"""
LEAST_ROWS, LEAST_ELEMENTS, MOST_ELEMENTS = 32, 8192, 16384
"""Policy: with fewer rows an SM has many tile blocks, which read different rows; longer tiles of so
many elements have eight warps, and up to 64 elements in each thread. f32 32x64 as 32x128: 144 us,
151.8.
"""
COLUMN_ELEMENTS, FEWEST_ELEMENTS = 4096, 1024
"""Policy: elements of a tile that is scanned down columns, from how many on it becomes one of so
many. Warps exchange totals once for it. 8192x8192 f16, us: 32x64 93, as 64x64 70.4 to 72, as 128x64
72 to 83.
"""


def longer_tiles(loop: aa.ForOp) -> tuple[JoinedIterations, int] | None:
    """A loop that scans, and how many of its iterations are to be one; None for others."""
    if REMAINDER in loop.attributes:
        return None
    scans = [op for op in loop.body.block.ops if isinstance(op, aa.ScanOp)]
    loads = [op for op in loop.body.block.ops if isinstance(op, aa.TiledLoadOp)]
    if len(scans) != 1 or not loads:
        return None
    dim, views = scans[0].dim.value.data, [view_type_of(load.view) for load in loads]
    count = min(_count(view, dim) for view in views)
    found = joined_scans(loop) if count > 1 else None
    return None if found is None else (found, count)


def _count(view: aa.TiledViewType, dim: int) -> int:
    """How many tiles make one that is long enough, 1 if it would be too large or too small."""
    if dim >= len(view.tile_shape):
        return 1
    shape, size, count = view.tile_shape, prod(view.tile_shape), 1
    if not goes_along_rows(view, dim):
        while size >= FEWEST_ELEMENTS and 2 * count * size <= COLUMN_ELEMENTS:
            count *= 2
        return count
    bits = storage_bits(view.memref.element_type)
    while 2 * count * shape[dim] * bits <= 8 * ROW_BYTES and 2 * count * size <= MOST_ELEMENTS:
        count *= 2
    has_many = size // shape[dim] >= LEAST_ROWS and count * size >= LEAST_ELEMENTS
    return count if has_many else 1


def joined_scans(loop: aa.ForOp) -> JoinedIterations | None:
    """How iterations of a loop that scans become one, None if that would not give the same."""
    if not counts_one_by_one(loop):
        return None
    reading = _ScanReading(loop)
    try:
        reading.read()
    except CannotJoinError:
        return None
    return reading.found if reading.has_scanned else None


class _ScanReading(IterationReading):
    """Goes through the body of a loop in program order.

    `carried`: what is of the size that it had, and made of what is carried: the position, and
    whether this iteration's total is in. `totals`: of this iteration's tiles. `prefixes`: scanned
    tiles that lack what comes before. Each with the function that combines.
    """

    def __init__(self, loop: aa.ForOp):
        super().__init__(loop)
        self.carried: dict[SSAValue, tuple[int, bool]] = {}
        self.functions: dict[int, tuple[type[Operation], SSAValue]] = {}
        self.totals: dict[SSAValue, tuple[type[Operation], SSAValue]] = {}
        self.prefixes: dict[SSAValue, tuple[type[Operation], SSAValue]] = {}
        self.has_scanned = False
        self.meanings.clear()
        for position, arg in enumerate(self.block.args[1:]):
            self.carried[arg] = (position, False)

    def read(self) -> None:
        """Raises CannotJoinError."""
        if len(self.yielded) != len(self.block.args) - 1:
            raise CannotJoinError("a loop without an end")
        for op in self.block.ops:
            if not isinstance(op, aa.ContinueOp):
                self._read(op)
        for position, value in enumerate(self.yielded):
            if self.carried.get(value) != (position, True):
                raise CannotJoinError("what is handed on is not combined with a total")

    def _read(self, op: Operation) -> None:
        """Notes what an operation makes."""
        match op:
            case aa.BlockTileOp():
                self.meanings[op.result] = FIXED
            case aa.TiledLoadOp():
                self._load(op)
                if op.result not in self.dims:
                    raise CannotJoinError("the same tile in all iterations")
            case aa.TiledStoreOp():
                self._store(op)
            case aa.ScanOp():
                self._scan(op)
            case aa.ReduceOp():
                self._total(op)
            case _:
                self._compute(op)

    def _store(self, op: aa.TiledStoreOp) -> None:
        """A tile that is longer, at the number of the iteration."""
        counter, view = self.block.args[0], view_type_of(op.view)
        dims = [dim for dim, index in enumerate(op.indices) if index is counter]
        if op.ordering.data != MemoryOrdering.WEAK or op.result_token.first_use is not None:
            raise CannotJoinError("a store in an order")
        for value in op.operands[1:]:
            if value is not counter:
                self._of(value)
        if op.value in self.prefixes or dims != [self.dims.get(op.value)]:
            raise CannotJoinError("a store of something else, or elsewhere")
        [dim] = dims
        if view.steps[dim] != view.tile_shape[dim] or view.sparse_dim is not None:
            raise CannotJoinError("tiles that do not follow each other")
        if memref_of(op.view).parent_block() is self.block:
            raise CannotJoinError("a view that is made in the loop")

    def _combined(self, op: aa.ScanOp | aa.ReduceOp) -> tuple[type[Operation], SSAValue]:
        """The function by which the longer tile is combined along itself, and the tile."""
        function = combining_class(op.body.block)
        if function is None or len(op.operands) != 1:
            raise CannotJoinError("a function that is not known")
        [tile] = op.operands
        if tile in self.prefixes or self.dims.get(tile) != op.dim.value.data:
            raise CannotJoinError("what is combined along another dim")
        return function, tile

    def _scan(self, op: aa.ScanOp) -> None:
        if op.reverse.value.data:
            raise CannotJoinError("a scan from the end")
        self.prefixes[op.results[0]] = self._combined(op)
        self.dims[op.results[0]] = op.dim.value.data
        self.has_scanned = True

    def _total(self, op: aa.ReduceOp) -> None:
        self.totals[op.results[0]] = self._combined(op)

    def _compute(self, op: Operation) -> None:
        """What is computed element by element, or only changes its shape."""
        if op.regions or not op.has_trait(Pure) or len(op.results) != 1:
            raise CannotJoinError("an operation with an effect, or a branch")
        [result] = op.results
        if isinstance(op, aa.ReshapeOp | aa.BroadcastOp) and op.operands[0] not in self.dims:
            self._pass_on(op.operands[0], result)
            return
        mine = [v for v in op.operands if v in self.carried or v in self.totals]
        prefixes = [value for value in op.operands if value in self.prefixes]
        if not mine and not prefixes:
            for value in op.operands:
                if value not in self.dims:
                    self._of(value)
            self._widen(op)
            if result not in self.dims:
                self.meanings[result] = FIXED
        elif len(op.operands) == 2 and len(mine) + len(prefixes) == 2:
            self._combine(op, mine, prefixes)
        else:
            raise CannotJoinError("what is carried is computed with otherwise")

    def _pass_on(self, source: SSAValue, result: SSAValue) -> None:
        """The same in another shape."""
        if source in self.carried:
            self.carried[result] = self.carried[source]
        elif source in self.totals:
            self.totals[result] = self.totals[source]
        else:
            self._of(source)
            self.meanings[result] = FIXED

    def _combine(self, op: Operation, mine: list[SSAValue], prefixes: list[SSAValue]) -> None:
        """What comes before, with this tile's prefixes or total: by the function of both."""
        before = [value for value in mine if value in self.carried]
        others = [*prefixes, *(value for value in mine if value in self.totals)]
        if len(before) != 1 or len(others) != 1:
            raise CannotJoinError("what is carried is computed with otherwise")
        [before], [other] = before, others
        position, has_total = self.carried[before]
        known = self.prefixes.get(other) or self.totals[other]
        if has_total or type(op) is not known[0] or not _is_plain(op):
            raise CannotJoinError("what is carried is combined by another function")
        if self.functions.setdefault(position, known) != known:
            raise CannotJoinError("what is carried is that of another tile")
        if other in self.totals:
            self.carried[op.results[0]] = (position, True)
            return
        self._widen(op)

    def _of(self, value: SSAValue) -> Meaning:
        """Only what comes from outside is the same in all iterations."""
        is_mine = isinstance(value, BlockArgument) and value.owner is self.block
        if is_mine or value in self.carried or value in self.totals or value in self.prefixes:
            raise CannotJoinError("what changes, beside indices")
        return super()._of(value)


def _is_plain(op: Operation) -> bool:
    """Whether an operation on floats rounds as scans do; those on integers do not."""
    return "rounding_mode" not in op.properties or is_plain(op)
