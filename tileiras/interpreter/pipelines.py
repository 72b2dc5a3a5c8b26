"""Warp roles and pipelines of nv_tileas: the producer runs to its end, then consumers, then stores.

The producer only reads memory that nobody writes meanwhile and does not depend on the consumers, so
that order is one of those that can happen. What could hang is checked by counting: the stage that a
consumer waits for must have been filled, and before that handed back as often as the pipeline is
short. Tiles that a warp role stores must have been staged, in the same order, and no consumer may
touch their elements at any time without an order among them: the warp role meets the others at no
barrier.

A product's registers hold NaN until a wait has finished it, and the stages that it reads must not
be handed back before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import is_in_smem
from tileiras.dialects.nv_tileas.tcgen05 import ScalesLoadOp
from tileiras.interpreter.distribution import element_indices, place, required_layout
from tileiras.interpreter.equivalent_ops import EquivalentOps, pointee_format
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, from_bits
from tileiras.interpreter.memory_access import load_tile, store_tile
from tileiras.interpreter.races import RaceDetector
from tileiras.interpreter.staged_tiles import SharedTile, tile_of_stage
from tileiras.interpreter.state import BlockRun, EffectRule
from tileiras.interpreter.tensor_memory import check_all_loaded, run_product_roles
from tileiras.interpreter.tensor_memory import effect_rules as tensor_memory_effect_rules
from tileiras.interpreter.tensor_rules import reduce_tile
from tileiras.interpreter.tensor_views import TileAccess, tile_elements
from tileiras.interpreter.thread_rules import WholeTiles, dot_rule, placed


@dataclass
class Pipeline:
    """A pipeline: the stages filled so far, by offset, and how far the consumers are."""

    stages: int
    filled: list[dict[int, SharedTile]] = field(default_factory=list)
    is_open: bool = False
    expected: int = 0
    """Bytes that TMA has yet to bring to the open stage."""
    waited: int = 0
    released: int = 0
    is_free: bool = False
    fill: Callable[[], Any] | None = None
    """What fills it once, before the first tile is waited for: warps that transpose."""


@dataclass
class StorePipeline:
    """A store pipeline: the tiles staged so far and how many of them have been stored."""

    staged: list[Array] = field(default_factory=list[Array])
    stored: int = 0
    is_complete: bool = False


def _create(run: BlockRun, op: pl.CreatePipelineOp) -> list[Pipeline]:
    return [Pipeline(op.stages.data)]


def _agent_switch(run: BlockRun, op: pl.AgentSwitchOp) -> list[Any]:
    """All warp roles, one after the other; each ends in a return of its own."""
    run.run_region(op.producer, ())
    run_product_roles(run, op)
    run.run_region(op.consumer, ())
    check_all_loaded(run, op)
    if op.store is not None:
        run.run_region(op.store, ())
    block = op.parent_block()
    makers = block.ops if block is not None else ()
    for made in makers:
        if isinstance(made, ts.CreateStorePipelineOp):
            pipeline: StorePipeline = run.value(made.result)
            if pipeline.stored < len(pipeline.staged):
                raise InterpreterError("a staged tile is never stored: consumers may hang", op)
            if not pipeline.is_complete:
                raise InterpreterError("the kernel ends before its stores are complete", op)
    return []


def _transpose_warps(run: BlockRun, op: wg.TransposeWarpsOp) -> list[Any]:
    """Its program runs when the consumers want the first of its tiles."""
    for inner in op.walk():
        if isinstance(inner, wg.TransposeTileOp):
            pipeline: Pipeline = run.value(inner.pipeline)
            pipeline.fill = lambda: run.run_region(op.body, ())
    return []


def _transpose_tile(run: BlockRun, op: wg.TransposeTileOp) -> list[Any]:
    """The tile in its stage; its values are the same."""
    pipeline: Pipeline = run.value(op.pipeline)
    tile = run.value(op.tile)
    if not pipeline.is_open or not is_in_smem(op.tile.type):
        raise InterpreterError("a tile goes into a stage that has not been acquired", op)
    major = 1 - op.tile.type.major
    pipeline.filled[-1][0] = SharedTile(np.array(tile), major, op.swizzle.data)
    return []


def _create_store_pipeline(run: BlockRun, op: ts.CreateStorePipelineOp) -> list[StorePipeline]:
    return [StorePipeline()]


def _stage_for_tma_store(run: BlockRun, op: ts.StageForTmaStoreOp) -> list[Any]:
    """The tile as it is now: later changes of registers do not reach the stage."""
    pipeline: StorePipeline = run.value(op.pipeline)
    [tile] = WholeTiles(run, op).values([op.value])
    pipeline.staged.append(np.array(tile))
    return []


def _store_tail(run: BlockRun, op: ts.StoreTailOp) -> list[Any]:
    pipeline: StorePipeline = run.value(op.pipeline)
    pipeline.is_complete = True
    return []


def _free(run: BlockRun, op: pl.FreePipelinesOp) -> list[Any]:
    """Every stage must have been filled, read and handed back."""
    for pipeline in pipelines_of(run, op):
        if not len(pipeline.filled) == pipeline.waited == pipeline.released:
            raise InterpreterError("stages are given up before all have been read", op)
        pipeline.is_free = True
    return []


def pipelines_of(run: BlockRun, op: Operation) -> list[Pipeline]:
    """The pipelines of the kernel around an operation."""
    switch = op.parent_op()
    block = switch.parent_block() if switch is not None else None
    if block is None:
        raise InterpreterError("no warp roles around", op)
    return [run.value(made.result) for made in block.ops if isinstance(made, pl.CreatePipelineOp)]


def _tensor_map(run: BlockRun, op: pl.MakeTensorMapOp) -> list[Any]:
    return [run.value(op.view)]


def _acquire(run: BlockRun, op: pl.ProducerAcquireOp) -> list[Any]:
    pipeline: Pipeline = run.value(op.pipeline)
    if pipeline.is_open:
        raise InterpreterError("the stage before has not been left", op)
    pipeline.is_open = True
    pipeline.filled.append({})
    pipeline.expected = op.bytes.data
    for condition, size in zip(op.conditions, op.skipped.data if op.skipped else (), strict=True):
        pipeline.expected -= size if run.value(condition) else 0
    return []


def _advance(run: BlockRun, op: pl.ProducerCommitOp) -> list[Any]:
    pipeline: Pipeline = run.value(op.pipeline)
    pipeline.is_open = False
    if pipeline.expected:
        raise InterpreterError(f"{pipeline.expected} bytes more were announced than came", op)
    return []


def _drain(run: BlockRun, op: pl.ProducerTailOp | pl.RenewTensorMapsOp) -> list[Any]:
    return []


def _left_out(tile: np.ndarray) -> np.ndarray:
    """In place of a tile that is not copied: what was there before, which nobody may read."""
    return np.frombuffer(b"\xff" * tile.nbytes, tile.dtype).reshape(tile.shape)


def _tma_load(run: BlockRun, op: pl.TmaLoadOp) -> list[Any]:
    """The tile of a view, padded where it is out of bounds."""
    pipeline: Pipeline = run.value(op.pipeline)
    if not pipeline.is_open:
        raise InterpreterError("a copy goes into a stage that has not been acquired", op)
    view = run.value(op.view)
    tile = load_tile(run.memory, view, tile_elements(view, run.values(op.indices)))
    if op.skip_if is not None and run.value(op.skip_if):
        tile = _left_out(tile)
    else:
        size = tile.size * storage_bytes(view_type_of(op.view).memref.element_type)
        # All of the tile, of which products of a pair read one half in each CTA.
        pipeline.expected -= size if op.halved is None else size // 2
    maker = op.tensor_map.owner
    if not isinstance(maker, pl.MakeTensorMapOp):
        raise InterpreterError("a tensor map has no maker", op)
    pipeline.filled[-1][op.offset.data] = SharedTile(tile, op.axis.data, maker.swizzle.data)
    return []


def _select_tile(run: BlockRun, op: pl.SelectTileOp) -> list[Any]:
    """The tile itself, so that it is known which stage it is in."""
    return [run.value(op.first if run.value(op.condition) else op.second)]


def _uniform(run: BlockRun, op: pl.UniformOp) -> list[Any]:
    return [run.value(op.source)]


def _producer_skip(run: BlockRun, op: pl.ProducerSkipOp) -> list[Any]:
    """Leaves room for the tiles that the consumers will fetch."""
    if op.condition is not None and not run.value(op.condition):
        return [run.value(op.lower)]
    pipeline: Pipeline = run.value(op.pipeline)
    lower, upper, step = (int(run.value(value)) for value in (op.lower, op.upper, op.step))
    stages = pipeline.stages if op.stages is None else op.stages.data
    pipeline.filled += [{} for _ in range(lower, upper, step)][:stages]
    return [np.asarray(min(lower + stages * step, max(lower, upper)), np.int32)]


def _prologue_fill(run: BlockRun, op: pl.PrologueFillOp) -> list[Any]:
    """The tiles of the first iterations."""
    pipeline: Pipeline = run.value(op.pipeline)
    lower, upper, step = (int(run.value(value)) for value in (op.lower, op.upper, op.step))
    stages = pipeline.stages if op.stages is None else op.stages.data
    for stage, number in zip(pipeline.filled, range(lower, upper, step)[:stages], strict=False):
        position = 0
        conditions = iter(run.values(op.conditions))
        for load, made in enumerate(op.views):
            view = run.value(made)
            rank = len(view_type_of(made).tile_shape)
            indices = run.values(op.indices[position : position + rank])
            for at in range(rank):
                if op.follows.data[position + at]:
                    indices[at] = np.asarray(number, np.int32)
            position += rank
            tile = load_tile(run.memory, view, tile_elements(view, indices))
            if op.skipped.data[load] and next(conditions):
                tile = _left_out(tile)
            swizzle = op.swizzles.data[load]
            stage[op.offsets.data[load]] = SharedTile(tile, op.axes.data[load], swizzle)
    return []


def _tma_store(run: BlockRun, op: ts.TmaStoreOp) -> list[Any]:
    """The tile of a view, from registers."""
    [tile] = WholeTiles(run, op).values([op.value])
    _store(run, op, tile)
    return []


def _store(run: BlockRun, op: ts.TmaStoreOp | ts.StoreStageOp, tile: Array) -> TileAccess:
    """A tile of a view, as far as it is in bounds; stored, or combined with what is there."""
    view = run.value(op.view)
    access = tile_elements(view, run.values(op.indices))
    if op.reduction is None:
        store_tile(run.memory, view, access, tile)
    else:
        reduce_tile(run.memory, view, access, tile, op.reduction.data)
    return access


def _store_stage(races: RaceDetector) -> EffectRule:
    """Stores the oldest tile; no barrier is between it and what consumers do to these elements."""

    def act(run: BlockRun, op: ts.StoreStageOp) -> list[Any]:
        pipeline: StorePipeline = run.value(op.pipeline)
        if pipeline.is_complete:
            raise InterpreterError("a tile is stored after the last wait for completion", op)
        if pipeline.stored >= len(pipeline.staged):
            raise InterpreterError(
                f"tile {pipeline.stored} is never staged: the warp role hangs", op
            )
        tile, shape = pipeline.staged[pipeline.stored], view_type_of(op.view).tile_shape
        pipeline.stored += 1
        if tile.shape != tuple(shape):
            raise InterpreterError(f"a tile of {tile.shape} is stored as one of {shape}", op)
        access, view = _store(run, op, tile), run.value(op.view)
        size = view.format.storage.itemsize
        inside = np.broadcast_to(access.inside, shape)
        addresses = view.tensor.base + np.broadcast_to(access.offsets, shape)[inside] * size
        races.background(op, addresses, size)
        return []

    return act


def _gather_load(run: BlockRun, op: pl.GatherLoadOp) -> list[Any]:
    """Every thread copies the chunks whose first elements it points to; zeros where masked off."""
    pipeline: Pipeline = run.value(op.pipeline)
    if not pipeline.is_open:
        raise InterpreterError("a copy goes into a stage that has not been acquired", op)
    layout, fmt = required_layout(op.pointers.type), pointee_format(op.pointers.type)
    size, width, axis = fmt.storage.itemsize, op.vector.data, op.axis.data
    leaders = np.asarray(run.value(op.pointers)).reshape(-1)
    mask = np.ones(leaders.shape, np.bool_)
    if op.mask is not None:
        mask = np.asarray(run.value(op.mask)).reshape(-1)
    if np.any(leaders[mask] % (width * size)):
        raise InterpreterError("a chunk is not aligned", op)
    values = np.zeros((leaders.size, width), fmt.dtype)
    places = leaders[mask][:, None] + np.arange(width) * size
    values[mask] = from_bits(run.memory.gather(places.reshape(-1), fmt.storage), fmt).reshape(
        -1, width
    )
    tile, filled = np.zeros(layout.shape, fmt.dtype), np.zeros(layout.shape, np.bool_)
    first = np.unravel_index(element_indices(layout).reshape(-1), layout.shape)
    for step in range(width):
        at = tuple(index + step if dim == axis else index for dim, index in enumerate(first))
        tile[at], filled[at] = values[:, step], True
    if not np.all(filled):
        raise InterpreterError("a gather leaves elements out", op)
    pipeline.filled[-1][op.offset.data] = SharedTile(tile, axis, op.swizzle.data)
    return []


def _copy_load(run: BlockRun, op: pl.CopyLoadOp) -> list[Any]:
    """The tile of a view, zero where it is out of bounds; chunks must be aligned."""
    pipeline: Pipeline = run.value(op.pipeline)
    if not pipeline.is_open:
        raise InterpreterError("a copy goes into a stage that has not been acquired", op)
    view = run.value(op.view)
    access = tile_elements(view, run.values(op.indices))
    vector, size = op.vectors.data[-1], storage_bytes(view_type_of(op.view).memref.element_type)
    offsets = np.where(access.inside, access.offsets, 0)
    offsets = np.moveaxis(offsets, op.axis.data, -1)[..., ::vector]
    if np.any((view.tensor.base + offsets * size) % (vector * size)):
        raise InterpreterError("a chunk is not aligned", op)
    tile = load_tile(run.memory, view, access)
    pipeline.filled[-1][op.offset.data] = SharedTile(tile, op.axis.data, op.swizzle.data)
    return []


def _scales_load(run: BlockRun, op: ScalesLoadOp) -> list[Any]:
    """The tile of scales, zero where it is out of bounds; words must be aligned."""
    pipeline: Pipeline = run.value(op.pipeline)
    if not pipeline.is_open:
        raise InterpreterError("a copy goes into a stage that has not been acquired", op)
    view = run.value(op.view)
    access = tile_elements(view, run.values(op.indices))
    vector = op.vector.data
    offsets = np.moveaxis(np.where(access.inside, access.offsets, 0), op.axis.data, -1)
    if np.any((view.tensor.base + offsets[..., ::vector]) % vector):
        raise InterpreterError("a word of scales is not aligned", op)
    tile = load_tile(run.memory, view, access)
    pipeline.filled[-1][op.offset.data] = SharedTile(tile, op.axis.data, 0)
    return []


def _wait(run: BlockRun, op: pl.ConsumerWaitOp) -> list[Array]:
    """The tiles of the next stage, transposed to how the products read them."""
    pipeline: Pipeline = run.value(op.pipeline)
    number = pipeline.waited
    if pipeline.is_free:
        raise InterpreterError("a stage is waited for after the memory was given up", op)
    if number >= len(pipeline.filled) or not pipeline.filled[number]:
        raise InterpreterError(f"stage {number} is never filled: the consumers hang", op)
    if number - pipeline.released >= pipeline.stages:
        raise InterpreterError(f"stage {number} is waited for before one is handed back", op)
    pipeline.waited += 1
    stage = pipeline.filled[number]
    return [
        tile_of_stage(stage, offset, tile.type, op)
        for offset, tile in zip(op.offsets.data, op.tiles, strict=True)
    ]


def _read_rows(run: BlockRun, op: pl.ReadTileOp) -> list[Array]:
    """Every thread has its elements of the tile."""
    return placed(op, [run.value(op.tile)])


def _proxy_fence(run: BlockRun, op: pl.ProxyFenceOp) -> list[Any]:
    return []


def _nothing(run: BlockRun, op: Operation) -> list[Any]:
    """Nothing that shows where warpgroups do the same at once."""
    return []


def _has_rows(run: BlockRun, op: wg.HasRowsOp) -> list[Any]:
    """All rows are computed; those that are not there nobody stores."""
    return [np.bool_(True)]


@dataclass
class Product:
    """A product that was issued: what its registers will hold, what they hold until then."""

    whole: Array
    placed: Array
    unfinished: Array
    reads: list[tuple[Pipeline, int]]
    reads_smem_transposed: bool = False
    is_finished: bool = False


@dataclass
class Products:
    """Groups of products that run, in the order of their issue; what holds which stage's tile.

    Values are told apart by identity: loops hand them on as they are.
    """

    equivalents: EquivalentOps
    issued: list[list[Product]] = field(default_factory=list[list[Product]])
    unread: dict[int, Product] = field(default_factory=dict[int, Product])
    stages: dict[int, tuple[Array, Pipeline, int]] = field(default_factory=dict[Any, Any])

    def wait_for_slot(self, run: BlockRun, op: pl.ConsumerWaitOp) -> list[Array]:
        """The tiles of the next stage, and where they lie."""
        pipeline: Pipeline = run.value(op.pipeline)
        if pipeline.fill is not None:
            fill, pipeline.fill = pipeline.fill, None
            fill()
        tiles = _wait(run, op)
        self.stages.update((id(tile), (tile, pipeline, pipeline.waited - 1)) for tile in tiles)
        return tiles

    def held(self, run: BlockRun, op: pl.HeldTileOp) -> list[Array]:
        """A tile of a stage that is held."""
        pipeline: Pipeline = run.value(op.pipeline)
        number = max(pipeline.released, pipeline.waited - 1 - op.age.data)
        if number >= pipeline.waited:
            raise InterpreterError("no stage is held", op)
        tile = tile_of_stage(pipeline.filled[number], op.offset.data, op.result.type, op)
        self.stages[id(tile)] = (tile, pipeline, number)
        return [tile]

    def release(self, run: BlockRun, op: pl.ConsumerReleaseOp) -> list[Any]:
        """Hands stages back that no product reads any more."""
        pipeline: Pipeline = run.value(op.pipeline)
        pipeline.released = max(pipeline.released, pipeline.waited - op.keep.data)
        self.stages = {
            key: (tile, its, stage)
            for key, (tile, its, stage) in self.stages.items()
            if its is not pipeline or stage >= pipeline.released
        }
        for product in (product for group in self.issued for product in group):
            if any(its is pipeline and stage < pipeline.released for its, stage in product.reads):
                raise InterpreterError("a stage is handed back while a product reads it", op)
        return []

    def issue(self, run: BlockRun, op: wg.WgmmaDotOp) -> list[Array]:
        """A product of two shared tiles, or of registers and a shared tile."""
        if op.condition is not None and not run.value(op.condition):
            self.issued.append([])
            self._finish(op.pending.data if op.pending is not None else len(self.issued))
            return [run.value(op.acc)]
        whole = self._sum(run, op, (op.lhs, op.rhs), op.acc, op.adds_if)
        [value] = placed(op, [whole])
        # What threads transpose or read they have read when the product is issued.
        are_read = op.fragments is not None and op.fragments.data == "both"
        operands = () if are_read else (op.lhs, op.rhs)
        product = self._product(run, operands, whole, value)
        product.reads_smem_transposed = any(
            isinstance(tile.owner, wg.SmemTransposeOp) for tile in (op.lhs, op.rhs)
        )
        self.issued.append([product])
        if op.pending is not None:
            self._finish(op.pending.data)
        return [self._given(product)]

    def issue_all(self, run: BlockRun, op: wg.WgmmaDotsOp) -> list[Array]:
        """Products of several tiles with one, which are finished together."""
        count = len(op.tiles)
        if op.condition is not None and not run.value(op.condition):
            count -= 1
        pairs = [op.operands_of(number) for number in range(count)]
        wholes = [
            self._sum(run, op, pair, acc) for pair, acc in zip(pairs, op.accs[:count], strict=True)
        ]
        values = [
            place(whole, required_layout(result.type))
            for whole, result in zip(wholes, op.sums[:count], strict=True)
        ]
        products = [
            self._product(run, pair, whole, value)
            for pair, whole, value in zip(pairs, wholes, values, strict=True)
        ]
        self.issued.append(products)
        self._finish(op.pending.data)
        given = [self._given(product) for product in products]
        return [*given, *(run.value(acc) for acc in op.accs[count:])]

    def _sum(
        self,
        run: BlockRun,
        op: Operation,
        operands: tuple[SSAValue, SSAValue],
        acc: SSAValue,
        adds: SSAValue | None = None,
    ) -> Array:
        """What a product adds up to, once it is finished."""
        tiles = WholeTiles(run, op)
        before = self.unread.pop(id(run.value(acc)), None)
        total = tiles.value(acc) if before is None else before.whole
        if adds is not None and not run.value(adds):
            total = np.zeros_like(total)
        return dot_rule(self.equivalents)(op, *map(tiles.value, operands), total)

    def _product(
        self, run: BlockRun, operands: Sequence[SSAValue], whole: Array, value: Array
    ) -> Product:
        """A product that starts, and the stages that it reads."""
        found = [self.stages.get(id(run.value(tile))) for tile in operands]
        reads = [(stage[1], stage[2]) for stage in found if stage is not None]
        return Product(whole, value, np.full_like(value, np.nan), reads)

    def _given(self, product: Product) -> Array:
        """What the registers hold after the product was issued."""
        if product.is_finished:
            return product.placed
        self.unread[id(product.unfinished)] = product
        return product.unfinished

    def smem_transpose(self, run: BlockRun, op: wg.SmemTransposeOp) -> list[Array]:
        """The same tile in memory of its own, where the one before was.

        Of two copies the other one was read by the product that runs beside this; the next tile
        goes there.
        """
        found = [np.array(run.value(op.tile))]
        if op.running is not None:
            found += self._waited(run.value(op.running), 0, op)
        running = (product for group in self.issued for product in group)
        if any(product.reads_smem_transposed for product in running):
            raise InterpreterError("a transposed tile is overwritten while a product reads it", op)
        return found

    def wait(self, run: BlockRun, op: wg.DotWaitOp) -> list[Any]:
        """The accumulator, which must be among the finished ones."""
        return self._waited(run.value(op.acc), op.pending.data, op)

    def _waited(self, acc: Array, pending: int, op: Operation) -> list[Array]:
        """A sum once all but the newest `pending` products are finished."""
        product = self.unread.pop(id(acc), None)
        self._finish(pending)
        if product is None:
            return [acc]
        if not product.is_finished:
            raise InterpreterError("the wait leaves the product unfinished", op)
        return [product.placed]

    def _finish(self, pending: int) -> None:
        """All but the newest `pending` are finished."""
        count = len(self.issued) - pending
        for group in self.issued[: max(0, count)]:
            for product in group:
                product.is_finished = True
        self.issued = self.issued[max(0, count) :]


def effect_rules(
    equivalents: EquivalentOps, races: RaceDetector
) -> dict[type[Operation], EffectRule]:
    """Operations of warp roles and pipelines by class."""
    products = Products(equivalents)
    return {
        pl.AgentSwitchOp: _agent_switch,
        pl.ConsumerReleaseOp: products.release,
        pl.ConsumerWaitOp: products.wait_for_slot,
        pl.CreatePipelineOp: _create,
        wg.DotWaitOp: products.wait,
        pl.FreePipelinesOp: _free,
        pl.GatherLoadOp: _gather_load,
        pl.CopyLoadOp: _copy_load,
        ScalesLoadOp: _scales_load,
        pl.MakeTensorMapOp: _tensor_map,
        pl.ProducerAcquireOp: _acquire,
        pl.ProducerCommitOp: _advance,
        pl.ProducerTailOp: _drain,
        pl.RenewTensorMapsOp: _drain,
        pl.ProxyFenceOp: _proxy_fence,
        pl.TmaLoadOp: _tma_load,
        pl.PrologueFillOp: _prologue_fill,
        pl.ProducerSkipOp: _producer_skip,
        ts.TmaStoreOp: _tma_store,
        ts.CreateStorePipelineOp: _create_store_pipeline,
        ts.StageForTmaStoreOp: _stage_for_tma_store,
        ts.StoreStageOp: _store_stage(races),
        ts.StoreTailOp: _store_tail,
        pl.SelectTileOp: _select_tile,
        pl.HeldTileOp: products.held,
        pl.ReadTileOp: _read_rows,
        pl.UniformOp: _uniform,
        wg.SmemTransposeOp: products.smem_transpose,
        wg.TransposeWarpsOp: _transpose_warps,
        wg.TransposeTileOp: _transpose_tile,
        wg.AwaitFirstOp: _nothing,
        wg.LeavePipelinesOp: _nothing,
        wg.StartOthersOp: _nothing,
        wg.HasRowsOp: _has_rows,
        wg.WgmmaDotOp: products.issue,
        wg.WgmmaDotsOp: products.issue_all,
        **tensor_memory_effect_rules(equivalents),
    }
