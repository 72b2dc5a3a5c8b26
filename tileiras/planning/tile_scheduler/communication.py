"""Whether tile blocks of a grid may tell each other something: then their order matters."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase

_SHARED = (
    aa.AtomicCASOp,
    aa.AtomicRMWOp,
    aa.TiledAtomicRedOp,
    aa.MultimemReduceOp,
    aa.MultimemStoreOp,
    aa.GridDependencyOp,
)


def may_communicate(op: Operation) -> bool:
    """Whether the operation is one that tile blocks of a grid tell each other something by."""
    if isinstance(op, LoadBase | StoreBase | TiledLoadBase | TiledStoreBase):
        return op.ordering.data != MemoryOrdering.WEAK
    return isinstance(op, _SHARED)
