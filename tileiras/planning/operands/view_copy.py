"""Views that TMA cannot take: tiles whose rows threads of the producer copy, in chunks.

A row is cut into chunks of 16, 8 or 4 bytes, as large as base and strides are proven to be
multiples of (PTX ISA, "cp.async": both addresses are aligned to the size of the copy), or turn out
to be when the kernel runs. If all that is left is less than 4 bytes, elements are loaded and
stored. What is out of bounds becomes zero, in a chunk that is cut by a bound, too.

Measured on one H100, f16, TFLOP/s (before: mma.sync by all warps; library): 128x128 tiles, rows of
4100, 4098 and 4097 elements 324, 240, 97 (102, 102, 104; 214, 216, 133); 64x64, rows of 2052, 2050
and 2049 156, 116, 59 (75, 75, 75; 153, 152, 103). What is proven is the same in all of these.
"""

from __future__ import annotations

from math import gcd, prod

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering, PaddingValue
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

CHUNK_BYTES = (16, 8, 4)
"""Fixed: what cp.async copies at once."""
HOPED_BYTES = (8, 4)
"""Policy: what is tried where less is proven: clients prove 16 bytes if they can."""
MAX_BOX = 256
"""Fixed: elements of a box of TMA along a dim."""
GATHER_WARPS = 4
"""Fixed: the whole warpgroup of the producer copies."""
MAX_COPIES = 128
"""Policy: copies of a thread for one tile: they stand one after another in the program."""
COPY_REGISTERS = 16
"""Policy: registers of a thread for copies under way: tiles come one after another."""
TILE_REGISTERS = 8
"""Policy: registers of a thread for every tile: where its first copy comes from, and steps."""


def view_chunks(load: aa.TiledLoadOp, axis: int) -> tuple[int, ...]:
    """Elements along the contiguous dim `axis` that a copy of a thread moves; empty if none can.

    The last number is proven to be possible, those before may turn out to be. None is, too, where a
    copy is no substitute for the load: by its order or what it pads with.
    """
    type = view_type_of(load.view)
    element = type.memref.element_type
    if storage_bits(element) < 8 or type.sparse_dim is not None:
        return ()
    if load.ordering.data != MemoryOrdering.WEAK or type.padding_value not in (
        None,
        PaddingValue.ZERO,
    ):
        return ()
    # Else a tile could start below the tensor and end in it.
    if any(step % extent for step, extent in zip(type.steps, type.tile_shape, strict=True)):
        return ()
    # Longer tiles are cut for TMA.
    if any(extent > MAX_BOX for dim, extent in enumerate(type.tile_shape) if dim != axis):
        return ()
    size, known = storage_bytes(element), alignment(type, memref_of(load.view), axis)
    proven = next((chunk for chunk in CHUNK_BYTES if known % chunk == 0), size)
    copies = prod(type.tile_shape) * size // (32 * GATHER_WARPS * max(proven, size))
    if copies > MAX_COPIES:
        return ()
    hoped = [chunk for chunk in HOPED_BYTES if chunk > proven]
    return tuple(max(1, chunk // size) for chunk in (*hoped, proven))


def alignment(type: aa.TiledViewType, memref: aa.MakeMemRefOp, axis: int) -> int:
    """Bytes of which every chunk's address is proven to be a multiple, chunks along `axis`."""
    size = storage_bytes(type.memref.element_type)
    # Any pointer is aligned to its element.
    base = memref.base_align.value.data if memref.base_align is not None else 1
    known = base * size // gcd(base, size)
    divisors = memref.stride_divisor.data if memref.stride_divisor is not None else ()
    for tile_dim, dim in enumerate(type.dim_map):
        stride = type.memref.strides[dim]
        if stride == DYNAMIC:
            stride = divisors[dim] if divisors else 1
        if tile_dim == axis or type.tile_shape[tile_dim] == 1:
            stride *= type.steps[tile_dim]
        known = gcd(known, stride * size)
    return known
