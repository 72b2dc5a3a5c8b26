"""Gathered operands: tiles whose rows lie anywhere, brought by cp.async into swizzled memory.

A load through a tensor of pointers qualifies if the facts about it (`passes/analysis`) prove that
its pointers form runs of 16 bytes along one dim, aligned and under one mask. Each run is a copy of
its own: `cp.async` of 16 bytes, which writes zeros where the mask is false (PTX ISA, "cp.async":
fewer source bytes than bytes to copy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from tileiras.codegen.atoms.shared_operands import SWIZZLE_BYTES
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileas import chunks
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.access import MAX_ACCESS_BYTES, plan_pointer_access
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.copied_views import GATHER_WARPS, ROW_REGISTERS

MAX_CHUNKS = 16
"""Copies of a thread for one tile; every one holds an address and a mask in registers."""
REGISTERS_PER_COPY = 4
"""An address takes two registers; the row under it or its mask, and what is in flight, the rest."""
REGISTERS_FOR_INDICES = 8
"""Indices are on their way while the tensor maps are made."""


def gathered_axis(load: aa.LoadOp) -> int | None:
    """The dim along which cp.async may copy 16 bytes at a time; None if it may not."""
    type = load.result.type
    if not isinstance(type, TensorType) or load.ordering.data != MemoryOrdering.WEAK:
        return None
    if load.other is not None and not _is_zero(load.other):
        return None
    access = plan_pointer_access(load, GATHER_WARPS)
    size = storage_bytes(type.element_type)
    if access is None or access.vector * size != MAX_ACCESS_BYTES:
        return None
    shape = type.get_shape()
    chunks = prod(shape) * size // MAX_ACCESS_BYTES
    if shape[access.axis] * size < SWIZZLE_BYTES or chunks > MAX_CHUNKS * 32 * GATHER_WARPS:
        return None
    return access.axis


def chunk_elements(load: aa.LoadOp) -> int:
    """Elements that one copy moves."""
    type = load.result.type
    if not isinstance(type, TensorType):
        raise InternalError("a gathered operand is no tensor")
    return MAX_ACCESS_BYTES // storage_bytes(type.element_type)


def chunk_layout(load: aa.LoadOp) -> LinearLayout:
    """Where the producer's threads hold the pointers: the first one of every chunk only."""
    access = plan_pointer_access(load, GATHER_WARPS)
    type = load.result.type
    if access is None or not isinstance(type, TensorType):
        raise InternalError("a gathered operand is no tensor")
    shape = type.get_shape()
    return chunks.chunk_layout(shape, access.axis, chunk_elements(load), GATHER_WARPS)


def gather_registers(loads: Sequence[aa.TiledLoadOp | aa.LoadOp]) -> int:
    """Registers that a thread of the producer needs more for these tiles, a multiple of 8."""
    gathered = [load for load in loads if isinstance(load, aa.LoadOp)]
    copies = sum(chunk_layout(load).in_size("register") for load in gathered)
    taken = -(-REGISTERS_PER_COPY * copies // 8) * 8 + REGISTERS_FOR_INDICES if copies else 0
    return taken + ROW_REGISTERS * (len(loads) - len(gathered))


def _is_zero(value: SSAValue) -> bool:
    """Whether every element is zero, whose bits are zero."""
    while isinstance(value, OpResult) and isinstance(
        value.op, aa.SplatOp | aa.BroadcastOp | aa.ReshapeOp
    ):
        value = value.op.operands[0]
    if not isinstance(value, OpResult) or not isinstance(value.op, aa.ConstantOp):
        return False
    constant = value.op.value
    return isinstance(constant, DenseAttr) and not any(constant.raw.data)
