"""The agent that stores: its part of the kernel, and the buffers between it and the consumers.

Consumers write tiles to shared memory and go on to the next ones; a warp beside the producer's has
TMA store them. It walks its own copy of the loops over tiles, for the indices of each store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import IntAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.codegen.atoms.store_pieces import BUFFERS, PIECE_BYTES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.alike import AlikeTiles
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.producer import ProducerBuilder
from tileiras.passes.nv_tileaa_to_nv_tileas.placer import Placer
from tileiras.planning.clusters import Sharing
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.operands.tma_stores import TmaWrite
from tileiras.planning.resources.cta import ROWS_PER_WARPGROUP, SLOT_BARRIER_BYTES
from tileiras.planning.warp_roles.store_warp import StoreSlice, store_slice


class StoreAgentBuilder(ProducerBuilder):
    """Clones the slice, with stores of staged tiles in place of the stores of `maps`."""

    def __init__(
        self,
        part: StoreSlice,
        plan: HopperPlan,
        pipeline: SSAValue,
        store_maps: dict[Operation, SSAValue],
    ):
        super().__init__(part.kept, part.layouts, plan, (), Sharing(1), ())
        self.alike = AlikeTiles({})
        self.pipeline = pipeline
        self.store_maps = store_maps

    def build(self, source: Block, arguments: Sequence[SSAValue]) -> Region:
        """The program for a function body whose arguments are given as values from outside."""
        self.values.update(zip(source.args, arguments, strict=True))
        block = Block()
        self.copy_block(source, block)
        return Region(block)

    def copy_op(self, op: Operation) -> None:
        """Stores and the end are the agent's own; the rest is as for the producer."""
        match op:
            case aa.TiledStoreOp() | aa.TiledAtomicRedOp():
                self._store(op)
            case aa.ReturnOp():
                self.emit(ts.StoreDrainOp, [self.pipeline])
                self.emit(aa.ReturnOp)
            case _:
                super().copy_op(op)

    def _store(self, op: TmaWrite) -> None:
        operands = [self.pipeline, self.store_maps[op], self.values[op.view]]
        operands += [self.values[index] for index in op.indices]
        properties: dict[str, Attribute] = {}
        if isinstance(op, aa.TiledAtomicRedOp):
            properties["reduction"] = op.mode
        if self.plan.is_transposed:
            properties["transposed"] = UnitAttr()
        self.emit(ts.StoreStagedOp, operands, (), properties)


def build_store_agent(
    func: aa.FuncOp,
    plan: HopperPlan,
    entry: Block,
    pipeline: SSAValue,
    store_maps: dict[Operation, SSAValue],
) -> Region:
    """The agent's program; `entry` has the kernel's arguments."""
    part = store_slice(func, plan.stores)
    if part is None:
        raise InternalError("a planned store agent has no program", where="hopper")
    builder = StoreAgentBuilder(part, plan, pipeline, store_maps)
    return builder.build(func.body.block, list(entry.args))


def create_store_pipeline(entry: Block) -> SSAValue:
    """The buffers at the start of the kernel; `choose_slots` says how large they are."""
    properties = {"stages": IntAttr(BUFFERS), "pieces": IntAttr(1)}
    op = ts.CreateStorePipelineOp.create(result_types=[pl.PIPELINE], properties=properties)
    entry.add_op(op)
    return op.result


def choose_slots(pipeline: SSAValue, plan: HopperPlan, body: Block, free: int) -> None:
    """Room for all that consumers store at once, if `free` bytes hold it beside what is taken.

    Then a slot is a whole tile: one wait and one arrival for it. Otherwise slots are single pieces,
    as many as there is room for; a power of two, as the pieces of a tile are, so that which slot is
    next needs no register.
    """
    maker = pipeline.owner
    if not isinstance(maker, ts.CreateStorePipelineOp):
        raise InternalError("a store pipeline has no maker", where="hopper")
    tiles = _staged_at_once(body, plan.warpgroups)
    largest, together = max(tiles), sum(tiles)
    of_all = plan.warpgroups * (PIECE_BYTES + SLOT_BARRIER_BYTES)
    room = BUFFERS + max(0, free) // of_all
    pieces, stages = 1, max(BUFFERS, min(room, together))
    if largest * len(tiles) <= room:
        pieces, stages = largest, len(tiles)
    maker.properties["pieces"] = IntAttr(pieces)
    maker.properties["stages"] = IntAttr(1 << (stages.bit_length() - 1))


def _staged_at_once(block: Block, warpgroups: int) -> list[int]:
    """Pieces of a warpgroup of each tile that is staged between two loops, where most are."""
    most: list[int] = []
    own: list[int] = []
    for op in block.ops:
        if isinstance(op, ts.StageTileOp):
            own.append(tile_pieces(op.value, warpgroups))
            continue
        inner = [_staged_at_once(b, warpgroups) for region in op.regions for b in region.blocks]
        found = max(inner, key=sum, default=[])
        if isinstance(op, aa.IfOp):
            own += found
        else:
            most = max(most, found, key=sum)
    return max(most, own, key=sum)


def tile_pieces(value: SSAValue, warpgroups: int) -> int:
    """The pieces that a warpgroup holds of a tile."""
    if not isinstance(value.type, TensorType):
        raise InternalError("a store of no tile", where="hopper")
    rows, columns = value.type.get_shape()[-2:]
    row = columns * storage_bytes(value.type.element_type)
    swizzle = widest_swizzle(row)
    if swizzle is None:
        raise InternalError("a store of rows without a swizzle", where="hopper")
    return rows * (row // swizzle) // (ROWS_PER_WARPGROUP * warpgroups)


def place_staged(placer: Placer, op: TmaWrite, pipeline: SSAValue) -> Sequence[SSAValue]:
    """The tile on its way to the agent, from the registers that a product leaves its result in."""
    (layout,) = placer.operand_layouts(op, [op.value])
    placer.emit(ts.StageTileOp, [placer.in_layout(op.value, layout), pipeline])
    return placer.emit(aa.CreateMemTokenOp, (), [op.result_token.type]).results


def drop_barriers(body: Block) -> None:
    """Takes away the consumers' barriers between stores, which the agent keeps in order.

    Where it stores nothing else needs any: other accesses ordered with stores rule TMA out.
    """
    barriers: Iterable[Operation] = [op for op in body.walk() if isinstance(op, tas.BarrierOp)]
    for op in barriers:
        op.detach()
        op.erase()
