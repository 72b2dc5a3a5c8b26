"""Buffers through which tiles leave by TMA: how large they are, how many, and where they lie."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, LocationAttr, TensorType, i8, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES, widest_swizzle
from tileiras.codegen.atoms.store_pieces import (
    BUFFERS,
    Held,
    piece_bytes,
    piece_form,
    store_bytes,
)
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.tmem import BLOCK_ROWS
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.memdesc import MemDescType, NvmmaSharedAttr
from tileiras.dialects.nv_tileas.memory import AllocTensorOp
from tileiras.errors import InternalError, required
from tileiras.planning.resources.cta import ROWS_PER_WARPGROUP, STAGE_BARRIER_BYTES

PASS_NAME = "tileas-optimize-alloc-tensor"
WARPS_PER_WARPGROUP = 4


def choose_store_buffers(func: aa.FuncOp, switch: pl.AgentSwitchOp, free: int) -> None:
    """Room for all that consumers store at once, if `free` bytes hold it beside what is taken.

    Then a stage is a whole tile: one wait and one arrival for it. Otherwise stages are single
    pieces, as many as there is room for; a power of two, as the pieces of a tile are, so that which
    stage is next needs no register.
    """
    warpgroups, rows = switch.consumer_warps.data // WARPS_PER_WARPGROUP, piece_rows(func)
    tiles, room = _tiles_and_room(func, switch, free)
    largest, together = max(tiles), sum(tiles)
    pieces, stages = 1, max(BUFFERS, min(room, together))
    if largest * len(tiles) <= room:
        pieces, stages = largest, len(tiles)
    stages = 1 << (stages.bit_length() - 1)
    place = _first_staged(switch).location
    for maker in func.body.block.ops:
        if isinstance(maker, ts.CreateStorePipelineOp):
            maker.properties["pieces"] = IntAttr(pieces)
            maker.properties["stages"] = IntAttr(stages)
            maker.operands = [_allocate(maker, rows, warpgroups * stages * pieces, place)]


def hold_tiles(func: aa.FuncOp, switch: pl.AgentSwitchOp, free: int) -> bool:
    """Whether `free` bytes, beside the first buffers, hold all that consumers store at once."""
    tiles, room = _tiles_and_room(func, switch, free)
    return max(tiles) * len(tiles) <= room


def _tiles_and_room(func: aa.FuncOp, switch: pl.AgentSwitchOp, free: int) -> tuple[list[int], int]:
    """Pieces of a warpgroup of each tile that is staged at once, and for how many there is room."""
    warpgroups = switch.consumer_warps.data // WARPS_PER_WARPGROUP
    tiles = _staged_at_once(switch.consumer.block, warpgroups, has_sums_in_tmem(func))
    of_all = warpgroups * (piece_bytes(piece_rows(func)) + STAGE_BARRIER_BYTES)
    return tiles, BUFFERS + max(0, free) // of_all


def place_tma_stores(
    func: aa.FuncOp, switch: pl.AgentSwitchOp, largest: pl.CreatePipelineOp
) -> None:
    """Lets tiles that consumers store leave through the largest pipeline, if its stages are free.

    And if they have room for pieces; else through memory that all stores share.
    """
    stores = [op for op in switch.consumer.block.walk() if isinstance(op, ts.TmaStoreOp)]
    if not stores:
        return
    warpgroups, rows = switch.consumer_warps.data // WARPS_PER_WARPGROUP, piece_rows(func)
    has_room = largest.stages.data * largest.stage_bytes.data >= store_bytes(warpgroups, rows)
    if has_room and not stores_before_the_end(switch.consumer.block):
        buffers: SSAValue = largest.result
    else:
        buffers = _allocate(switch, rows, warpgroups * BUFFERS, stores[0].location)
    for store in stores:
        sizes = [1, 1, 1, len(store.indices), 1]
        store.operands = [*store.operands, buffers]
        store.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)


def _first_staged(switch: pl.AgentSwitchOp) -> Operation:
    """The first store that goes through the buffers, whose place in the source they have."""
    staged = (op for op in switch.consumer.block.walk() if isinstance(op, ts.StageForTmaStoreOp))
    return next(staged, switch)


def _allocate(before: Operation, rows: int, pieces: int, place: LocationAttr) -> SSAValue:
    """Memory for so many pieces, in front of an operation: rows of the widest swizzle span."""
    type = MemDescType((rows, SWIZZLE_BYTES), i8, NvmmaSharedAttr(SWIZZLE_BYTES, 1))
    made = AllocTensorOp.create(
        properties={"stages": IntAttr(pieces)}, result_types=[type], location=place
    )
    block = required(before.parent_block(), "buffers of stores stand nowhere", PASS_NAME)
    block.insert_op_before(made, before)
    return made.result


def stores_before_the_end(body: Block) -> bool:
    """Whether tiles leave by TMA before the stages are free memory."""
    for op in body.ops:
        if isinstance(op, pl.FreePipelinesOp):
            break
        if any(isinstance(inner, ts.TmaStoreOp) for inner in op.walk()):
            return True
    return False


def _staged_at_once(block: Block, warpgroups: int, is_in_tmem: bool) -> list[int]:
    """Pieces of a warpgroup of each tile that is staged between two loops, where most are."""
    most: list[int] = []
    own: list[int] = []
    for op in block.ops:
        if isinstance(op, ts.StageForTmaStoreOp):
            own.append(tile_pieces(op.value, warpgroups, is_in_tmem))
            continue
        inner = [
            _staged_at_once(b, warpgroups, is_in_tmem)
            for region in op.regions
            for b in region.blocks
        ]
        found = max(inner, key=sum, default=[])
        if isinstance(op, aa.IfOp):
            own += found
        else:
            most = max(most, found, key=sum)
    return max(most, own, key=sum)


def tile_pieces(value: SSAValue, warpgroups: int, is_in_tmem: bool) -> int:
    """The pieces that a warpgroup holds of a tile."""
    if not isinstance(value.type, TensorType):
        raise InternalError("a store of no tile", where=PASS_NAME)
    shape, element = value.type.get_shape(), value.type.element_type
    if is_in_tmem:
        form = piece_form(shape, warpgroups, storage_bits(element), Held.LANES)
        if form is None:
            raise InternalError("a store of lanes without pieces", where=PASS_NAME)
        return len(form.corners)
    rows, columns = shape[-2:]
    row = columns * storage_bytes(element)
    swizzle = required(widest_swizzle(row), "a store of rows without a swizzle", PASS_NAME)
    return rows * (row // swizzle) // (ROWS_PER_WARPGROUP * warpgroups)


def has_sums_in_tmem(func: aa.FuncOp) -> bool:
    """Whether tiles come from tensor memory."""
    return any(isinstance(op, tc.CreateAccumulatorOp) for op in func.body.block.ops)


def piece_rows(func: aa.FuncOp) -> int:
    """Rows of a piece of a tile that leaves by TMA, at most."""
    return BLOCK_ROWS if has_sums_in_tmem(func) else ROWS_PER_WARPGROUP
