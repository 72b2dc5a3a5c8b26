"""Accesses to multicast memory: one address in the memories of all devices of a group."""

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from tileiras.dialects.cuda_tile.attributes import MultimemReductionKindAttr
from tileiras.dialects.nv_tileaa.memory import TiledLoadBase, TiledStoreBase


@irdl_op_definition
class MultimemLoadOp(TiledLoadBase):
    """Loads a tile from every device and reduces the copies; `axis` is the one of unit stride."""

    name = "nv_tileaa.multimem_load"
    reduction = prop_def(MultimemReductionKindAttr)
    axis = opt_prop_def(IntAttr)


@irdl_op_definition
class MultimemStoreOp(TiledStoreBase):
    """Stores a tile to every device."""

    name = "nv_tileaa.multimem_store"
    axis = opt_prop_def(IntAttr)


@irdl_op_definition
class MultimemReduceOp(TiledStoreBase):
    """Reduces a tile into the memory of every device."""

    name = "nv_tileaa.multimem_reduce"
    reduction = prop_def(MultimemReductionKindAttr)
    axis = opt_prop_def(IntAttr)
