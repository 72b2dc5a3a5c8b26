"""Loads that are started in one iteration of a loop and finished in a later one.

    %ring = load_ring                       slots for one tile each
    start_load %view[%later] into %ring[1]  does not wait
    commit_loads                            closes the group of loads of one iteration
    %tile = finish_load %view[%i] from %ring[0]  waits until at most `pending` groups are under way

Every thread copies what it will read itself, so that threads need not meet. A slot may be filled
again once the tile in it has been finished.

    %ring = load_ring {shared}              slots that all threads read: operands of products
    wait_loads {pending = 1, meet}          for all but one group; what others copied is there, too
    start_load %view[%later] into %ring[1]  behind it: nobody reads that slot any more
    %tile = finish_load %view[%i] from %ring[0]  the tile stays where it is
"""

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerType,
    UnitAttr,
)
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import MemoryOrderingAttr, MemoryScopeAttr
from tileiras.dialects.nv_tileaa.memory import TiledLoadBase


@irdl_attr_definition
class LoadRingType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.load_ring`: slots for tiles that are being loaded."""

    name = "nv_tileaa.load_ring"


LOAD_RING = LoadRingType()


@irdl_op_definition
class LoadRingOp(IRDLOperation):
    """Room for `slots` tiles of one load, until the loop that finishes it is over.

    `shared`: any thread reads what another one has copied, once both have met. `ctas`: so many tile
    blocks shall fit an SM.
    """

    name = "nv_tileaa.load_ring"
    slots = prop_def(IntAttr)
    shared = opt_prop_def(UnitAttr)
    ctas = opt_prop_def(IntAttr)
    result = result_def(LoadRingType)


class StartLoadBase(IRDLOperation):
    """Fields of `start_load`, which nv_tileaa and nv_tileas share: a load without a result."""

    ring = operand_def(LoadRingType)
    slot = operand_def()
    predicate = operand_def()
    view = operand_def()
    indices = var_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])
    hints = opt_prop_def(DictionaryAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class StartLoadOp(StartLoadBase):
    """Starts to load one tile of a view into a slot; does nothing if `predicate` is false."""

    name = "nv_tileaa.start_load"


@irdl_op_definition
class CommitLoadsOp(IRDLOperation):
    """Closes the group of the loads that were started since the last one."""

    name = "nv_tileaa.commit_loads"


@irdl_op_definition
class WaitLoadsOp(IRDLOperation):
    """All loads that were started are over, those too that had nothing to load: their slots are
    memory for others. With `pending` all but so many groups are; with `meet` those of all threads.
    `frees`: no load is started any more, and what follows finds room in the slots of all rings.
    """

    name = "nv_tileaa.wait_loads"
    pending = opt_prop_def(IntAttr)
    meet = opt_prop_def(UnitAttr)
    frees = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Memory is free when all threads have waited for everything."""
        if self.frees is not None and (self.meet is None or self.pending is not None):
            raise VerifyException("wait_loads frees slots that may be in use")


class FinishLoadBase(TiledLoadBase):
    """Fields of `finish_load`, which nv_tileaa and nv_tileas share.

    Without `pending` an operation before it has waited.
    """

    ring = operand_def(LoadRingType)
    slot = operand_def()
    pending = opt_prop_def(IntAttr)


@irdl_op_definition
class FinishLoadOp(FinishLoadBase):
    """The tile in a slot, once at most `pending` groups are unfinished."""

    name = "nv_tileaa.finish_load"
