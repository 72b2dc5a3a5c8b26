"""Gathered operands: tiles whose rows lie anywhere, brought by cp.async into swizzled memory.

A load through a tensor of pointers qualifies if the facts about it (`analysis`) prove that
its pointers form runs of 16 bytes along one dim. Chunks of 16, 8 or 4 bytes, as long as a run is
aligned and under one mask, are copies of their own: `cp.async`, which writes zeros where the mask
is false (PTX ISA, "cp.async": fewer source bytes than bytes to copy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas import chunks
from tileiras.errors import InternalError, required
from tileiras.planning.access import MAX_ACCESS_BYTES, plan_pointer_access
from tileiras.planning.operands.view_copy import (
    CHUNK_BYTES,
    COPY_REGISTERS,
    GATHER_WARPS,
    TILE_REGISTERS,
)

MAX_RUNS = 16
"""Policy: of 16 bytes, of a thread for one tile: every one holds an address and a mask in
registers.
"""
REGISTERS_PER_RUN = 4
"""Policy: an address takes two registers; the row under it or its mask, and what is in flight, the
rest.
"""
REGISTERS_FOR_INDICES = 8
"""Policy: indices are on their way while the tensor maps are made."""


def gathered_axis(load: aa.LoadOp) -> int | None:
    """The dim along which cp.async may copy chunks of a tile; None if it may not."""
    type = load.result.type
    if not isinstance(type, TensorType) or load.ordering.data != MemoryOrdering.WEAK:
        return None
    if load.other is not None and not _is_spread_zero(load.other):
        return None
    access = plan_pointer_access(load, GATHER_WARPS)
    size = storage_bytes(type.element_type)
    if access is None or access.vector * size not in CHUNK_BYTES:
        return None
    runs = load.contiguity.data if load.contiguity is not None else ()
    run = runs[access.axis] if access.axis < len(runs) else 1
    if run * size < MAX_ACCESS_BYTES:
        return None
    shape = type.get_shape()
    runs_of_thread = prod(shape) * size // (MAX_ACCESS_BYTES * 32 * GATHER_WARPS)
    if widest_swizzle(shape[access.axis] * size) is None or runs_of_thread > MAX_RUNS:
        return None
    return access.axis


def chunk_elements(load: aa.LoadOp) -> int:
    """Elements that one copy moves."""
    access = required(plan_pointer_access(load, GATHER_WARPS), "a gathered operand is no tensor")
    return access.vector


def run_elements(load: aa.LoadOp, axis: int) -> int:
    """Elements along the dim whose pointers are proven to follow each other, a power of two."""
    runs = load.contiguity.data if load.contiguity is not None else ()
    run = min(runs[axis] if axis < len(runs) else 1, shape_of(load.result)[axis])
    return run & -run


def chunk_layout(load: aa.LoadOp) -> LinearLayout:
    """Where the producer's threads hold the pointers: the first one of every chunk only."""
    access = plan_pointer_access(load, GATHER_WARPS)
    type = load.result.type
    if access is None or not isinstance(type, TensorType):
        raise InternalError("a gathered operand is no tensor")
    shape = type.get_shape()
    run = MAX_ACCESS_BYTES // storage_bytes(type.element_type)
    return chunks.run_layout(shape, access.axis, access.vector, run, GATHER_WARPS)


def gather_registers(loads: Sequence[aa.TiledLoadOp | aa.LoadOp]) -> int:
    """Registers that a thread of the producer needs more for these tiles, a multiple of 8.

    Of two branches of an `if` one runs, and of two loops behind each other one at a time.
    """
    return max(
        (
            _registers_together([other for other in loads if not _take_turns(load, other)])
            for load in loads
        ),
        default=0,
    )


def _take_turns(one: Operation, other: Operation) -> bool:
    """Whether only one of two accesses runs, or another loop is over before one begins."""
    loops = (aa.loop_around(one), aa.loop_around(other))
    apart = [
        loop is not None and not loop.is_ancestor(op)
        for loop, op in zip(loops, (other, one), strict=True)
    ]
    if all(apart):
        return True
    mine, others = _branches(one), _branches(other)
    return any(others.get(branch, block) is not block for branch, block in mine.items())


def _branches(load: Operation) -> dict[Operation, Block]:
    """The `if`s around a load, and the branch of each that it is in."""
    found: dict[Operation, Block] = {}
    block = load.parent_block()
    while block is not None and (parent := block.parent_op()) is not None:
        if isinstance(parent, aa.IfOp):
            found[parent] = block
        block = parent.parent_block()
    return found


def _registers_together(loads: Sequence[aa.TiledLoadOp | aa.LoadOp]) -> int:
    """The same for loads that may all run."""
    gathered = [load for load in loads if isinstance(load, aa.LoadOp)]
    runs = sum(map(_runs_of_thread, gathered))
    taken = -(-REGISTERS_PER_RUN * runs // 8) * 8 + REGISTERS_FOR_INDICES if runs else 0
    tiles = len(loads) - len(gathered)
    return taken + (COPY_REGISTERS + TILE_REGISTERS * tiles if tiles else 0)


def _runs_of_thread(load: aa.LoadOp) -> int:
    """Runs of 16 bytes that a thread copies."""
    run = MAX_ACCESS_BYTES // storage_bytes(element_of(load.result))
    return max(1, chunk_layout(load).in_size("register") * chunk_elements(load) // run)


def _is_spread_zero(value: SSAValue) -> bool:
    """Whether every element is zero, whose bits are zero."""
    while isinstance(value, OpResult) and isinstance(
        value.op, aa.SplatOp | aa.BroadcastOp | aa.ReshapeOp
    ):
        value = value.op.operands[0]
    return is_zero(value)
