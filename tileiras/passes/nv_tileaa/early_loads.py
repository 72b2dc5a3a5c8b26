"""Loads of what all tile blocks read, in front of the products that want it.

    %x = tiled_load %rows[%block]                      %x = tiled_load %rows[%block]
    %a = tiled_load %matrix[0, 0]                      %a = tiled_load %matrix[0, 0]
    %y = dot %a, %x                             ->     %b = tiled_load %other[0, 0]
    %b = tiled_load %other[0, 0]                       %y = dot %a, %x
    %z = dot %b, %y                                    %z = dot %b, %y

Products meet at barriers, which loads do not cross later on: each load would be waited for from its
barrier on. What all tile blocks read lies in L2, and its place is known from the start.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, OpResult

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

MOST_BYTES = 1024
"""Policy: of a tile that waits in registers: two of each of 128 threads. Fourier transforms of f16
with matrices of 1 KB, us on one H200: 190.9 and 181.6; of f32 with 2 KB registers for a second CTA
are gone: 666 and 847 (decision 0083).
"""


def start_loads(block: Block) -> bool:
    """Moves them behind the first load of a kernel's outermost block; False if there are none."""
    loads = [op for op in block.ops if isinstance(op, aa.TiledLoadOp)]
    products = [op for op in block.ops if isinstance(op, aa.ProductOp)]
    if not loads or not products:
        return False
    place, has_moved = loads[0], False
    for load in loads[1:]:
        if _is_for_all(load, block) and products[0].is_before_in_block(load):
            place = _move_behind(place, load)
            has_moved = True
    return has_moved


def _is_for_all(load: aa.TiledLoadOp, block: Block) -> bool:
    """Whether a load waits for nothing, and is the same and small in all tile blocks."""
    if load.ordering.data != MemoryOrdering.WEAK or view_type_of(load.view).sparse_dim is not None:
        return False
    token = load.token
    if isinstance(token, OpResult) and not isinstance(token.op, aa.CreateMemTokenOp):
        return False
    memref = memref_of(load.view)
    is_known = isinstance(memref, aa.MakeMemRefOp) and memref.parent_block() is block
    indices = [isinstance(i, OpResult) and isinstance(i.op, aa.ConstantOp) for i in load.indices]
    bytes = prod(shape_of(load.result)) * storage_bytes(element_of(load.result))
    return is_known and all(indices) and bytes <= MOST_BYTES


def _move_behind(place: aa.TiledLoadOp, load: aa.TiledLoadOp) -> aa.TiledLoadOp:
    """Puts a load and what it needs behind another one; the load."""
    block = place.parent_block()
    needed = [load, load.view.owner, *(index.owner for index in load.indices)]
    for op in needed:
        if block is None or isinstance(op, Block) or not place.is_before_in_block(op):
            continue
        op.detach()
        block.insert_op_after(op, place)
    return load
