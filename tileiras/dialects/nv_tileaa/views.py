"""Looking through views: control flow never carries them, so their makers are in sight."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.nv_tileaa.memory import BlockTileOp, MakeMemRefOp
from tileiras.dialects.nv_tileaa.types import TiledViewType
from tileiras.errors import InternalError


def memref_of(view: SSAValue) -> MakeMemRefOp:
    """The operation that made the memref under a view."""
    owner = view.op if isinstance(view, OpResult) else None
    if isinstance(owner, BlockTileOp):
        return memref_of(owner.memref)
    if isinstance(owner, MakeMemRefOp):
        return owner
    raise InternalError("a view does not come from a make_memref operation")


def view_type_of(view: SSAValue) -> TiledViewType:
    """The type of a view."""
    if not isinstance(view.type, TiledViewType):
        raise InternalError("a tiled access goes through something that is no view")
    return view.type


def half_of(type: TiledViewType, dim: int) -> TiledViewType:
    """The view of the first halves along a dim of all tiles of a view."""
    shape = list(type.tile_shape)
    shape[dim] //= 2
    steps = IntTupleAttr(type.steps)
    return TiledViewType(
        type.memref, IntTupleAttr(shape), type.dim_map_dims, steps, type.padding, type.sparse
    )
