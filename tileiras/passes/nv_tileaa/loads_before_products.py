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

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, OpResult

from tileiras.analysis.register_pressure import block_pressure
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of

MOST_BYTES, MOST_BYTES_ALONE = 1024, 2048
"""Policy: of a tile that waits in registers: two of each of 128 threads, and four where one CTA
takes most registers of an SM anyway. Fourier transforms of f16 with matrices of 1 KB, us on one
H200: 190.9 and 181.6; of f32 with 2 KB 722 and 676 in a CTA for an SM; of which two fit, registers
for the second one are gone, 666 and 847 (decision 0083).
"""


def move_loads(block: Block, target: GpuTarget) -> bool:
    """Moves them behind the first load of a kernel's outermost block; False if there are none."""
    loads = [op for op in block.ops if isinstance(op, aa.TiledLoadOp)]
    products = [op for op in block.ops if isinstance(op, aa.ProductOp)]
    if not loads or not products:
        return False
    _look_ahead(block, loads, target)
    is_alone = 2 * block_pressure(block) >= target.registers_per_sm
    most = MOST_BYTES_ALONE if is_alone else MOST_BYTES
    place, has_moved = loads[0], False
    for load in loads[1:]:
        if _is_for_all(load, block, most) and products[0].is_before_in_block(load):
            place = _move_behind(place, load)
            has_moved = True
    return has_moved


def _look_ahead(block: Block, loads: Sequence[aa.TiledLoadOp], target: GpuTarget) -> None:
    """Has L2 ask memory for what a later tile block loads, while this one multiplies.

    A tile block of a kernel without loops first loads, then multiplies, then stores; those on an SM
    are too few to keep memory busy. The tile block that an SM runs next is about as many further on
    as there are SMs.
    """
    if not target.has(Feature.TMA) or any(isinstance(op, aa.ForOp | aa.LoopOp) for op in block.ops):
        return
    for load in loads:
        numbers = [
            index
            for index in load.indices
            if isinstance(index, OpResult) and isinstance(index.op, aa.GetProgramIdOp)
        ]
        first = [n for n in numbers if isinstance(n.op, aa.GetProgramIdOp) and is_first_axis(n.op)]
        if len(numbers) == len(first) == 1 and _waits_for_nothing(load):
            load.ahead = IntAttr(target.performance.multiprocessors)


def is_first_axis(op: aa.GetProgramIdOp) -> bool:
    """Whether an operation tells the number of a tile block along the grid's fastest dim."""
    return op.axis.value.data == 0


def _waits_for_nothing(load: aa.TiledLoadOp) -> bool:
    """Whether a plain load is ordered after nothing."""
    if load.ordering.data != MemoryOrdering.WEAK or view_type_of(load.view).sparse_dim is not None:
        return False
    token = load.token
    return not isinstance(token, OpResult) or isinstance(token.op, aa.CreateMemTokenOp)


def _is_for_all(load: aa.TiledLoadOp, block: Block, most: int) -> bool:
    """Whether a load waits for nothing, and is the same and small in all tile blocks."""
    if not _waits_for_nothing(load):
        return False
    memref = memref_of(load.view)
    is_known = isinstance(memref, aa.MakeMemRefOp) and memref.parent_block() is block
    indices = [isinstance(i, OpResult) and isinstance(i.op, aa.ConstantOp) for i in load.indices]
    bytes = prod(shape_of(load.result)) * storage_bytes(element_of(load.result))
    return is_known and all(indices) and bytes <= most


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
