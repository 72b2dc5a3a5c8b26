"""Which dot operands can be brought into shared memory asynchronously, where wgmma reads them.

An operand qualifies if it is a loaded tile, at most reshaped, permuted, or rounded from f32 to tf32
(decision 0009). A tile loaded through pointers is gathered (see `gather`); one loaded through a
view comes by TMA if the view meets its conditions (CUDA Driver API, "Tensor Map Object Management";
PTX ISA, "Tensors"): base 16-byte aligned, strides multiples of 16 bytes but for a unit inner one,
at most 5 dims, boxes of at most 256 (a tile has several along its contiguous dim). Through other
views threads copy (see `view_copy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeGuard

from xdsl.dialects.builtin import Float32Type, FloatTF32Type, TensorType
from xdsl.ir import Operation, OpResult, SSAValue, Use

from tileiras.codegen.atoms.element_names import tensor_map_element
from tileiras.codegen.atoms.shared_operands import PATTERN_BYTES, widest_swizzle
from tileiras.codegen.atoms.tma_boxes import CHUNK_BYTES, contiguous_dim, plain_dim
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, PaddingValue
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.scale_factors import LANE_ROWS, scale_bytes
from tileiras.dialects.layout.shared import ATOM_BYTES, row_major
from tileiras.dialects.nv_tileaa.rearranged import result_layout
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import TiledViewType, element_of, shape_of
from tileiras.dialects.nv_tileaa.views import half_of, memref_of, view_type_of
from tileiras.errors import InternalError
from tileiras.planning.hints import is_tma_allowed
from tileiras.planning.operands.gather import gathered_axis
from tileiras.planning.operands.view_copy import MAX_BOX, view_chunks

MAX_RANK = 5
"""Fixed: dims of a tensor map (CUDA Driver API)."""
TMA_ALIGNMENT = 16
"""Fixed: bytes; addresses and strides of a tensor map are such multiples (PTX ISA)."""

FIRST_SCALE = 3
"""Fixed: operands and accumulator of a product come first."""

OperandLoad = aa.TiledLoadOp | aa.LoadOp
"""A load whose tile may stay in shared memory: TMA or cp.async brings it, the latter cp.async."""


@dataclass(frozen=True)
class SharedOperand:
    """A dot operand in shared memory: the load that brings it, its contiguous dim in the tile."""

    load: OperandLoad
    major_axis: int
    swizzle: int
    """Bytes of a row of its panels."""
    atom: int = ATOM_BYTES
    """Bytes that its swizzle keeps together."""

    @property
    def bytes(self) -> int:
        """What the tile takes in a stage."""
        return place_bytes(self.load)


def shared_operand(value: SSAValue) -> SharedOperand | None:
    """The operand as TMA or cp.async would bring it, None if neither can."""
    found = shared_or_why_not(value)
    return None if isinstance(found, str) else found


def shared_or_why_not(value: SSAValue) -> SharedOperand | str:
    """The operand as TMA or cp.async would bring it, or why neither can."""
    root = root_load(value)
    if root is None:
        return "is computed, or loaded through pointers whose rows are not known to be contiguous"
    axis = contiguous_axis(root)
    if axis is None:
        return "has no contiguous dim of 16 bytes or more"
    refusal = tma_refusal(root) if isinstance(root, aa.TiledLoadOp) else None
    if refusal is not None and isinstance(root, aa.TiledLoadOp) and not view_chunks(root, axis):
        return f"comes neither by TMA ({refusal}) nor by cp.async"
    layout = pushed(value, plain_layout(root, axis))
    major = _major_axis(layout)
    # A reshape that cuts or joins rows would need the panels of other rows.
    if major is None or layout.shape[major] != shape_of(root.result)[axis]:
        return "is reshaped so that its rows are cut or joined"
    return SharedOperand(root, major, load_swizzle(root))


def root_load(value: SSAValue) -> OperandLoad | None:
    """The load under reshapes, permutations and roundings to tf32.

    One through pointers only if it can be gathered.
    """
    value = underneath(value)
    if not isinstance(value, OpResult):
        return None
    match value.op:
        case aa.TiledLoadOp() as load:
            return load
        case aa.LoadOp() as load:
            return load if gathered_axis(load) is not None else None
        case _:
            return None


def is_transparent(op: Operation) -> bool:
    """Whether a product reads what is under the operation in its place."""
    return isinstance(op, aa.ReshapeOp | aa.PermuteOp) or rounds_to_tf32(op)


def underneath(value: SSAValue) -> SSAValue:
    """What a product reads in the place of an operand."""
    while isinstance(value, OpResult) and is_transparent(value.op):
        value = value.op.operands[0]
    return value


def tile_uses(load: OperandLoad | aa.ReadStageOp) -> Iterator[Use]:
    """Where a loaded tile is used, those operations aside that a product sees through."""
    return (use for use in _uses(load) if not is_transparent(use.operation))


def scale_uses(load: OperandLoad | aa.ReadStageOp) -> Iterator[Use]:
    """Where a loaded tile is the scales of a product."""
    for use in tile_uses(load):
        if isinstance(use.operation, aa.DotScaledOp) and use.index >= FIRST_SCALE:
            yield use


def is_scale_load(load: OperandLoad) -> bool:
    """Whether a load brings scales: by TMA, or threads copy them beside what TMA brings."""
    return next(scale_uses(load), None) is not None


def transparent_users(load: OperandLoad | aa.ReadStageOp) -> Iterator[Operation]:
    """The operations between a load and products, which see through them."""
    return (use.operation for use in _uses(load) if is_transparent(use.operation))


def _uses(load: OperandLoad | aa.ReadStageOp) -> Iterator[Use]:
    """Where a loaded tile is used, under whatever name."""
    pending: list[SSAValue] = [load.result]
    while pending:
        for use in pending.pop().uses:
            if is_transparent(use.operation):
                pending.append(use.operation.results[0])
            yield use


def rounds_to_tf32(op: Operation) -> bool:
    """Whether an operation makes tf32 of f32: tensor cores ignore the low bits of an f32."""
    return (
        isinstance(op, aa.FpToFpOp)
        and isinstance(element_of(op.source), Float32Type)
        and isinstance(element_of(op.result), FloatTF32Type)
    )


def tile_bytes(load: OperandLoad) -> int:
    """Bytes of the tile that a load brings, of a pair of CTAs to each."""
    type = load.result.type
    if not isinstance(type, TensorType):
        raise InternalError("a load of an operand gives no tensor")
    size = storage_bytes(type.element_type) * prod(type.get_shape())
    return size if halved_dim(load) is None else size // 2


def halved_dim(load: OperandLoad) -> int | None:
    """The dim of the tile of which each CTA of a pair has one half; None if it has all of it."""
    if not isinstance(load, aa.TiledLoadOp) or load.halved is None:
        return None
    return load.halved.data


def own_view(load: aa.TiledLoadOp) -> TiledViewType:
    """The type of the view whose tiles come to a CTA: of halves, where a pair shares the tile."""
    type, dim = view_type_of(load.view), halved_dim(load)
    return type if dim is None else half_of(type, dim)


def place_bytes(load: OperandLoad) -> int:
    """Bytes that the tile takes in a stage: what follows starts where swizzle patterns start."""
    scales = next(scale_uses(load), None)
    size = tile_bytes(load) if scales is None else scale_bytes(*_rows_and_blocks(scales))
    return -(-size // PATTERN_BYTES) * PATTERN_BYTES


def _rows_and_blocks(use: Use) -> tuple[int, int]:
    """Of the scales that a product reads: those of so many rows of A, or columns of B, by K."""
    rows, blocks = shape_of(use.operation.operands[use.index])
    return (rows, blocks) if use.index == FIRST_SCALE else (blocks, rows)


def contiguous_axis(load: OperandLoad) -> int | None:
    """The tile dim along which memory is contiguous, if its rows have a swizzle.

    Of scales, if their rows have 16 bytes: these are not swizzled.
    """
    if isinstance(load, aa.LoadOp):
        return gathered_axis(load)
    if is_scale_load(load):
        return plain_dim(view_type_of(load.view))
    return contiguous_dim(view_type_of(load.view))


def is_for_threads(load: OperandLoad) -> bool:
    """Whether no product reads the tile of a load: threads do, from their registers."""
    return not any(isinstance(use.operation, aa.ProductOp) for use in tile_uses(load))


def load_swizzle(load: OperandLoad) -> int:
    """Bytes of a row of the panels in which a tile comes: the widest swizzle that divides it; 0 of
    scales.

    0 of a tile for threads, too: it is one panel, and lies as in memory.
    """
    if is_scale_load(load) or is_for_threads(load):
        return 0
    axis, type = contiguous_axis(load), load.result.type
    if axis is None or not isinstance(type, TensorType):
        raise InternalError("a tile brought to shared memory has no contiguous dim")
    swizzle = widest_swizzle(type.get_shape()[axis] * storage_bytes(type.element_type))
    if swizzle is None:
        raise InternalError("a tile brought to shared memory has no swizzle")
    return swizzle


def plain_layout(load: OperandLoad, axis: int) -> LinearLayout:
    """Offsets of a tile whose fastest dim is `axis`, swizzle and boxes aside."""
    shape = shape_of(load.result)
    others = [dim for dim in reversed(range(len(shape))) if dim != axis]
    return row_major(shape, (axis, *others))


def pushed(value: SSAValue, layout: LinearLayout) -> LinearLayout:
    """The layout of the load as the reshapes and permutations on top of it see it."""
    if not isinstance(value, OpResult):
        return layout
    match value.op:
        case aa.ReshapeOp() | aa.PermuteOp() as op:
            return result_layout(op, pushed(op.source, layout))
        case aa.FpToFpOp() as op:
            return pushed(op.source, layout)
        case _:
            return layout


def _major_axis(layout: LinearLayout) -> int | None:
    """The contiguous dim of a dense 2-d tile; None if it is laid out in any other way."""
    if layout.rank != 2:
        return None
    for axis in (0, 1):
        if layout == row_major(layout.shape, (axis, 1 - axis)):
            return axis
    return None


def is_by_tma(load: OperandLoad) -> TypeGuard[aa.TiledLoadOp]:
    """Whether the load meets TMA's conditions and may be done asynchronously."""
    return isinstance(load, aa.TiledLoadOp) and tma_refusal(load) is None


def tma_refusal(load: aa.TiledLoadOp) -> str | None:
    """Which of TMA's conditions a load does not meet, None if it meets all."""
    type = view_type_of(load.view)
    element = type.memref.element_type
    if tensor_map_element(element) is None:
        return "a tensor map has no such element type"
    if type.sparse_dim is not None:
        return "its rows are gathered"
    if load.ordering.data != MemoryOrdering.WEAK:
        return "it is ordered with other accesses"
    if type.padding_value not in (None, PaddingValue.ZERO):
        return "it pads with other values than zero"
    if not is_tma_allowed(load):
        return "its author forbids it (allow_tma)"
    if (refusal := _refusal_of_scales(load)) is not None:
        return refusal
    rank = len(type.memref.strides)
    # Along the contiguous dim a tile comes in panels, a box each.
    panels = contiguous_axis(load)
    extents = [extent for axis, extent in enumerate(type.tile_shape) if axis != panels]
    if rank > MAX_RANK:
        return "the tensor has more than 5 dims"
    if any(extent > MAX_BOX for extent in extents):
        return "the tile has more than 256 rows"
    # A tensor map has one unit stride; along a dim of one element no other is used.
    others = [dim for axis, dim in enumerate(type.dim_map) if axis != panels]
    long = [dim for dim in others if type.memref.shape[dim] != 1]
    if any(type.memref.strides[dim] == 1 for dim in long):
        return "more than one dim has stride 1"
    memref = memref_of(load.view)
    if has_renewed_map(load) and not _is_copied_in_loop(load):
        return "the view of the tensor is made again for each copy"
    return unaligned(type, memref)


def _refusal_of_scales(load: aa.TiledLoadOp) -> str | None:
    """Why threads copy scales, None if TMA may bring them, or there are none.

    A row of the tile is what TMA moves at least; the warp that issues the product puts them in
    order where they lie, once.
    """
    uses = list(scale_uses(load))
    if not uses:
        return None
    rows, blocks = _rows_and_blocks(uses[0])
    if plain_dim(view_type_of(load.view)) is None or blocks != CHUNK_BYTES:
        return "a row of its scales has not 16 bytes"
    if not _is_first_prepared(uses):
        return "several products read its scales, of which none is always the first"
    return None if rows % LANE_ROWS == 0 else "its scales do not fill the lanes of a warp"


def _is_first_prepared(uses: Sequence[Use]) -> bool:
    """Whether the first of the products that read some scales is computed whenever others are."""
    products = {use.operation: None for use in uses}
    if len(products) == 1:
        return len(uses) == 1
    first = next(iter(products))
    block = first.parent_block()
    if block is None or any(product.parent_block() is not block for product in products):
        return False
    first = next(op for op in block.ops if op in products)
    return len(uses) == len(products) and isinstance(first, aa.ProductOp) and not first.condition


def has_renewed_map(access: aa.TiledLoadOp | aa.TiledStoreOp | aa.TiledAtomicRedOp) -> bool:
    """Whether the tensor map is made again: its view is made in a loop or a branch."""
    return not isinstance(memref_of(access.view).parent_op(), aa.FuncOp)


def _is_copied_in_loop(load: aa.TiledLoadOp) -> bool:
    """Whether a loop around the load stands behind the view, so that one map serves many copies.

    Or a loop over tiles is around both: maps are made while consumers are a tile behind.
    """
    block = memref_of(load.view).parent_block()
    op = load.parent_op()
    while op is not None and not isinstance(op, aa.FuncOp):
        if isinstance(op, aa.ForOp) and op.takes_over is not None:
            return True
        if isinstance(op, aa.ForOp | aa.LoopOp):
            break
        op = op.parent_op()
    while op is not None:
        if op.parent_block() is block:
            return not isinstance(op, aa.FuncOp)
        op = op.parent_op()
    return False


def is_aligned(type: aa.TiledViewType, memref: aa.MakeMemRefOp) -> bool:
    """Whether base and strides are proven to be multiples of 16 bytes."""
    return unaligned(type, memref) is None


def unaligned(type: aa.TiledViewType, memref: aa.MakeMemRefOp) -> str | None:
    """What is not proven to be a multiple of 16 bytes: the base, or a stride; None if all is."""
    size = storage_bytes(type.memref.element_type)
    align = memref.base_align.value.data if memref.base_align is not None else 1
    divisors = memref.stride_divisor.data if memref.stride_divisor is not None else ()
    if align % TMA_ALIGNMENT:
        return "the base pointer is not proven to be 16-byte aligned"
    if not divisors:
        return "no stride is proven to be a multiple of 16 bytes"
    strides = zip(type.memref.strides, divisors, strict=True)
    for dim, (stride, divisor) in enumerate(strides):
        if stride != 1 and divisor * size % TMA_ALIGNMENT:
            return f"the stride of dim {dim} is not proven to be a multiple of 16 bytes"
    return None
