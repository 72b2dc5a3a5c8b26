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

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.errors import InternalError
from tileiras.passes.nv_tileaa_to_nv_tileas.access import MAX_ACCESS_BYTES, plan_pointer_access

GATHER_WARPS = 4
"""The whole warpgroup of the producer gathers."""
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
    row = shape[access.axis] * size
    if widest_swizzle(row) is None or chunks > MAX_CHUNKS * 32 * GATHER_WARPS:
        return None
    return access.axis


def chunk_elements(load: aa.LoadOp) -> int:
    """Elements that one copy moves."""
    type = load.result.type
    if not isinstance(type, TensorType):
        raise InternalError("a gathered operand is no tensor")
    return MAX_ACCESS_BYTES // storage_bytes(type.element_type)


def chunk_layout(load: aa.LoadOp) -> LinearLayout:
    """Where the producer's threads hold the pointers: the first one of every chunk only.

    Neighbouring lanes take neighbouring chunks, so that a warp reads whole lines and writes whole
    rows of the swizzle.
    """
    access = plan_pointer_access(load, GATHER_WARPS)
    type = load.result.type
    if access is None or not isinstance(type, TensorType):
        raise InternalError("a gathered operand is no tensor")
    shape = type.get_shape()
    others = [dim for dim in reversed(range(len(shape))) if dim != access.axis]
    vector = chunk_elements(load)
    whole = blocked(shape, (access.axis, *others), vector, GATHER_WARPS)
    bases: dict[str, Sequence[int]] = {name: whole.vectors(name) for name in whole.in_dims}
    bases["register"] = whole.vectors("register")[vector.bit_length() - 1 :]
    return LinearLayout.from_index_bases(bases, shape)


def gather_registers(loads: Sequence[aa.LoadOp]) -> int:
    """Registers that a thread of the producer needs more for these tiles, a multiple of 8."""
    copies = sum(chunk_layout(load).in_size("register") for load in loads)
    return -(-REGISTERS_PER_COPY * copies // 8) * 8 + REGISTERS_FOR_INDICES if copies else 0


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
