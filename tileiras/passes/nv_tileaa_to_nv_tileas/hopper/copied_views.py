"""Views that TMA cannot take: tiles whose rows threads of the producer copy, in chunks.

A row is cut into chunks of 16, 8 or 4 bytes, as large as base and strides are proven to be
multiples of (PTX ISA, "cp.async": both addresses are aligned to the size of the copy). What is out
of bounds becomes zero, in a chunk that is cut by a bound, too.
"""

from __future__ import annotations

import os
from math import gcd, prod

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, PaddingValue
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

CHUNK_BYTES = (16, 8, 4)
"""What cp.async copies at once."""
GATHER_WARPS = 4
"""The whole warpgroup of the producer copies."""
MAX_COPIES = 128
"""Copies of a thread for one tile: they stand one after another in the program."""
ROW_REGISTERS = 16
"""Registers of a thread for a tile: where its copies come from and go to, steps, bounds."""


def least_chunk() -> int:
    """The fewest bytes that a copy may have."""
    return int(os.environ.get("TI_EXP_CHUNK", "4"))


def view_chunk(load: aa.TiledLoadOp, axis: int) -> int | None:
    """Elements along the contiguous dim `axis` that one copy of a thread moves; None if none can.

    None, too, where a copy is no substitute for the load: by its order or what it pads with.
    """
    type = view_type_of(load.view)
    element = type.memref.element_type
    if storage_bits(element) < 8 or type.sparse_dim is not None:
        return None
    if load.ordering.data != MemoryOrdering.WEAK or type.padding_value not in (
        None,
        PaddingValue.ZERO,
    ):
        return None
    # Else a tile could start below the tensor and end in it.
    if any(step % extent for step, extent in zip(type.steps, type.tile_shape, strict=True)):
        return None
    size, known = storage_bytes(element), alignment(type, memref_of(load.view), axis)
    for chunk in CHUNK_BYTES:
        copies = prod(type.tile_shape) * size // (32 * GATHER_WARPS * chunk)
        if known % chunk == 0 and chunk % size == 0:
            fits = copies <= MAX_COPIES and chunk >= least_chunk()
            return chunk // size if fits else None
    return None


def alignment(type: aa.TiledViewType, memref: aa.MakeMemRefOp, axis: int) -> int:
    """Bytes of which every chunk's address is proven to be a multiple, chunks along `axis`."""
    size = storage_bytes(type.memref.element_type)
    known = memref.base_align.value.data if memref.base_align is not None else 1
    divisors = memref.stride_divisor.data if memref.stride_divisor is not None else ()
    for tile_dim, dim in enumerate(type.dim_map):
        stride = type.memref.strides[dim]
        if stride == DYNAMIC:
            stride = divisors[dim] if divisors else 1
        if tile_dim == axis or type.tile_shape[tile_dim] == 1:
            stride *= type.steps[tile_dim]
        known = gcd(known, stride * size)
    return known


