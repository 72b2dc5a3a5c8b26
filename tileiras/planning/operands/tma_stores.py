"""Which tiles leave by TMA.

A store by TMA goes through shared memory in pieces of 64 rows of one swizzle span, or 128 from
tensor memory; bounds are the tensor map's affair. The next tile's products run while the last
pieces are on their way. One thread of a warpgroup, or of the store warp (`warp_roles/store_warp`),
issues all pieces and waits for them before those of the next tile, so stores keep their order among
themselves. With any other access that tokens order with a write they would not: then none is used.

A reduction into a view goes the same way: TMA combines each element atomically by itself, relaxed
at the scope of the GPU (PTX ISA, "cp.reduce.async.bulk.tensor").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.analysis.memory_hazards import find_hazards
from tileiras.codegen.atoms.element_names import tensor_map_element
from tileiras.codegen.atoms.reductions import tma_reduction
from tileiras.codegen.atoms.store_pieces import Held, PieceForm, piece_form, store_bytes
from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, MemoryScope
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.planning.hints import is_tma_allowed
from tileiras.planning.memory_order import WRITES, follows_write, precedes_write
from tileiras.planning.operands.tma import MAX_BOX, has_renewed_map, is_aligned
from tileiras.planning.resources.cta import (
    FIXED_BYTES,
    LEAST_SCRATCH,
    shared_bytes,
)

if TYPE_CHECKING:
    from tileiras.planning.model.dots import PlannedDot
    from tileiras.planning.model.kernel import RolePlan

TmaWrite = aa.TiledStoreOp | aa.TiledAtomicRedOp
"""What TMA can do from shared memory to global memory."""
EACH_TILE = "each_tile"
"""On a loop behind a loop over K: it goes on with each of the tiles that are computed at once."""
PIECE_ELEMENT_BYTES = (2, 4)
"""Fixed: elements that a piece has ways into shared memory for: stmatrix, or pairs of words."""


def tma_stores(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, prefer: bool | None
) -> tuple[TmaWrite, ...]:
    """The stores and reductions to do by TMA: all of the kernel's writes, or none.

    Only in loops, where there is something to do meanwhile, unless TMA is preferred (`prefer` True)
    or not wanted (False).
    """
    stores = stores_by_tma(func, plan, prefer)
    return stores if stores and has_room_to_store(func, plan, target, stores) else ()


def stores_by_tma(func: aa.FuncOp, plan: RolePlan, prefer: bool | None) -> tuple[TmaWrite, ...]:
    """The same, if there is room."""
    writes = [op for op in func.walk() if isinstance(op, WRITES)]
    if prefer is None and func.static_tile_scheduler is not None:
        # Of a last tile behind the loop over tiles consumers store what they have.
        writes = [op for op in writes if is_in_loop(op)]
    stores = tuple(op for op in writes if isinstance(op, TmaWrite) and _suits(op, plan))
    if prefer is False or not stores or len(stores) != len(writes):
        return ()
    transposed = {planned.transposed for planned in plan.dots.values()}
    if len(transposed) > 1 or any(map(_has_scattered_columns, plan.dots.values())):
        return ()
    if prefer is None and not any(is_again(op, plan) for op in stores):
        return ()
    loads = [op for op in func.walk() if isinstance(op, aa.TiledLoadOp | aa.LoadOp)]
    own = [op for op in loads if plan.pipeline_of(op) is None]
    ordinary = any(follows_write(op) or precedes_write(op) for op in own)
    hazards = find_hazards(func).before
    return () if any(op not in stores for op in hazards) or (hazards and ordinary) else stores


def has_room_to_store(
    func: aa.FuncOp, plan: RolePlan, target: GpuTarget, stores: Sequence[TmaWrite]
) -> bool:
    """Whether there is shared memory for tiles on their way out, beside the least stages."""
    least = sum(
        pipeline.bytes * pipeline.least for pipeline in plan.pipelines if pipeline.within is None
    )
    needed = least + own_store_bytes(func, plan, stores) + FIXED_BYTES + LEAST_SCRATCH
    return needed <= shared_bytes(plan.shape, target)


def _has_scattered_columns(planned: PlannedDot) -> bool:
    """Whether a warpgroup's columns of a transposed product are not what pieces are made of.

    Columns of which threads read the operand have changed places: of 8 bits within 16 of them.
    """
    if planned.fragments is None or not planned.transposed:
        return False
    return planned.fragments != "rhs" or planned.operand_bits != 8


def own_store_bytes(func: aa.FuncOp, plan: RolePlan, stores: Sequence[TmaWrite]) -> int:
    """Shared memory that tiles on their way out need beside the stages of pipelines.

    None if all leave behind the last product, through stages that nobody reads any more.
    """
    if not stores:
        return 0
    size = store_bytes(plan.warpgroups, plan.piece_rows)
    own = [pipeline for pipeline in plan.pipelines if pipeline.within is None]
    are_short = max(pipeline.bytes * pipeline.least for pipeline in own) < size
    if are_short or any(is_again(op, plan) for op in stores):
        return size
    ops = list(func.body.block.ops)
    last = max(n for n, op in enumerate(ops) if any(isinstance(i, aa.DotOp) for i in op.walk()))
    before = (inner for op in ops[: last + 1] for inner in op.walk())
    return size if any(op in stores for op in before) else 0


def is_again(op: Operation, plan: RolePlan) -> bool:
    """Whether a store happens more than once in a kernel that is planned so."""
    return plan.becomes_loop or is_in_loop(op)


def is_in_loop(op: Operation) -> bool:
    """Whether a store may happen more than once, tiles that are computed at once aside."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, aa.ForOp | aa.LoopOp) and EACH_TILE not in parent.attributes:
            return True
        parent = parent.parent_op()
    return False


def _suits(op: TmaWrite, plan: RolePlan) -> bool:
    """Whether TMA can store the tile, and a product's registers hold it."""
    type = view_type_of(op.view)
    element, shape = type.memref.element_type, type.tile_shape
    if tensor_map_element(element) is None or type.sparse_dim is not None:
        return False
    if storage_bytes(element) not in PIECE_ELEMENT_BYTES or not _may_be_asynchronous(op):
        return False
    if not is_aligned(type, memref_of(op.view)):
        return False
    rank = len(type.memref.strides)
    if not 2 <= len(shape) <= rank <= 5 or len(shape) != rank or any(e > MAX_BOX for e in shape):
        return False
    strides = [type.memref.strides[dim] for dim in type.dim_map]
    if strides[-1] != 1 or 1 in strides[:-1] or any(extent != 1 for extent in shape[:-2]):
        return False
    # A warpgroup's columns are a span of 16-bit elements.
    if plan.is_transposed and storage_bytes(element) != 2:
        return False
    if pieces_of(op, plan) is None:
        return False
    if not (_is_from_arguments(op.view) or has_renewed_map(op)):
        return False
    return is_from_product(op.value, (shape[-2], shape[-1]))


def pieces_of(op: TmaWrite, plan: RolePlan) -> PieceForm | None:
    """The pieces of a tile that leaves by TMA, None if it has none."""
    type = view_type_of(op.view)
    held = Held.COLUMNS if plan.is_transposed else Held.ROWS
    if plan.is_in_tmem:
        held = Held.LANES
    return piece_form(
        type.tile_shape, plan.warpgroups, storage_bits(type.memref.element_type), held
    )


def _may_be_asynchronous(op: TmaWrite) -> bool:
    """Whether TMA does what the operation says, in an order as strong."""
    if isinstance(op, aa.TiledAtomicRedOp):
        element = view_type_of(op.view).memref.element_type
        is_relaxed = op.ordering.data == MemoryOrdering.RELAXED
        is_near = op.scope.data in (MemoryScope.TL_BLK, MemoryScope.DEVICE)
        return is_relaxed and is_near and tma_reduction(op.mode.data, element) is not None
    return is_tma_allowed(op) and op.ordering.data == MemoryOrdering.WEAK


def _is_from_arguments(value: SSAValue) -> bool:
    """Whether a value can be made at the start of the kernel, from its arguments alone."""
    if not isinstance(value, OpResult):
        return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), aa.FuncOp)
    op = value.op
    is_simple = isinstance(op, aa.MakeMemRefOp | aa.BlockTileOp | aa.ConstantOp | ElementwiseOp)
    return is_simple and all(_is_from_arguments(operand) for operand in op.operands)


def is_from_product(value: SSAValue, shape: tuple[int, int]) -> bool:
    """Whether elementwise operations make the value of a product, or of a loop of products.

    It may be one of the tiles that are computed at once, of which a loop makes the value.
    """
    while True:
        match value.owner:
            case aa.DotOp() | aa.DotScaledOp() | aa.ForOp():
                return isinstance(value.type, TensorType) and value.type.get_shape() == shape
            case ElementwiseOp() | aa.ReshapeOp() as op if op.operands:
                value = op.operands[0]
            case aa.IfOp() as op if isinstance(end := op.then_region.block.last_op, aa.YieldOp):
                value = end.operands[op.results.index(value)]
            case Block() as body if isinstance(loop := body.parent_op(), aa.ForOp):
                if EACH_TILE not in loop.attributes or value is body.args[0]:
                    return False
                value = loop.init_values[body.args.index(value) - 1]
            case _:
                return False
