"""Looking through views: control flow never carries them, so their makers are in sight."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

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
