"""The pass `tileas-remove-barriers`: threads that only wait for themselves need not meet.

A barrier stands wherever token order asks for one. Layouts tell where both accesses of an element
are the same thread's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.memory_hazards import superfluous_barriers
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.types import DYNAMIC
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import owner_mask
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileaa.views import view_type_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.rewriting import erase_op

BITS_OF_BYTE = 8


@dataclass(frozen=True)
class RemoveBarriersPass(IrPass):
    """Takes away barriers between a load and a store of elements that each thread has for itself.

    Before   %x = tiled_load %v;  barrier;  tiled_store %y, %v      both in one layout
    After    %x = tiled_load %v;  tiled_store %y, %v
    Requires nv_tileas
    Leaves   accesses in different layouts, or in one that gives an element to two threads; views
             whose elements may overlap; where warps have roles, all barriers, unless a warp of its
             own stores: it keeps stores in order, and where it stores nothing else needs any
    """

    name = "tileas-remove-barriers"
    title: ClassVar[str] = "Remove barriers between a thread's own accesses"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all functions."""
        for func in op.body.ops:
            if not isinstance(func, aa.FuncOp):
                continue
            switches = pl.switches_of(func)
            for switch in switches:
                if switch.store is not None:
                    drop_barriers(switch.consumer.block)
            if not switches:
                remove_barriers(func)


def drop_barriers(body: Block) -> None:
    """Takes away the consumers' barriers between stores, which a warp of its own keeps in order.

    Where it stores nothing else needs any: other accesses ordered with stores rule TMA out.
    """
    for op in [op for op in body.walk() if isinstance(op, aa.BarrierOp)]:
        erase_op(op)


def remove_barriers(func: aa.FuncOp) -> None:
    """Takes barriers away where, as layouts show now, threads store what they have loaded."""
    barriers = [op for op in func.walk() if isinstance(op, aa.BarrierOp)]
    if not barriers or not any(
        _own_layout(op) is not None for op in func.walk() if isinstance(op, tas.TiledStoreOp)
    ):
        return
    for op in superfluous_barriers(func, barriers, have_same_threads):
        erase_op(op)


def have_same_threads(first: Operation, second: Operation) -> bool:
    """Whether each element of two accesses to one tile belongs to one thread in both.

    Both have the same layout, which gives no element to two threads, and no two elements of the
    tile share an address, as they could where a stride is 0.
    """
    mine, its = _own_layout(first), _own_layout(second)
    return mine is not None and mine == its


def _own_layout(op: Operation) -> LinearLayout | None:
    """The layout of a tile that is loaded or stored, if it gives each address to one thread."""
    match op:
        case tas.TiledLoadOp():
            value: SSAValue = op.result
        case tas.TiledStoreOp():
            value = op.value
        case _:
            return None
    layout = layout_of(value.type)
    if layout is None or owner_mask(layout) != (0, 0) or not _are_elements_apart(op.view):
        return None
    return layout


def _are_elements_apart(view: SSAValue) -> bool:
    """Whether the elements of a tile are known to lie apart: they do along a single dim."""
    type = view_type_of(view)
    long = [dim for dim, size in zip(type.dim_map, type.tile_shape, strict=True) if size > 1]
    if type.sparse_dim is not None or len(long) != 1:
        return False
    stride = type.memref.strides[long[0]]
    return stride not in (0, DYNAMIC) and storage_bits(type.memref.element_type) >= BITS_OF_BYTE
