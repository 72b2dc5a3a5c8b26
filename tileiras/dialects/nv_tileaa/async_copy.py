"""Loads that are started in one iteration of a loop and finished in a later one.

    %buffer = circular_buffer                     stages for one tile each
    async_copy %view[%later] into %buffer[1]      does not wait
    async_commit_group                            closes the group of one iteration's copies
    %tile = read_stage %view[%i] from %buffer[0]  waits: at most `pending` groups stay under way

Every thread copies what it will read itself, so that threads need not meet. A stage may be filled
again once the tile in it has been read.

    %buffer = circular_buffer {shared}            stages that all threads read: operands of products
    async_wait_group {pending = 1, meet}          all but one group; others' copies are there, too
    async_copy %view[%later] into %buffer[1]      behind it: nobody reads that stage any more
    %tile = read_stage %view[%i] from %buffer[0]  the tile stays where it is
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
from tileiras.dialects.operations import SegmentedOp


@irdl_attr_definition
class CircularBufferType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileaa.circular_buffer`: stages for tiles that are being loaded."""

    name = "nv_tileaa.circular_buffer"


CIRCULAR_BUFFER = CircularBufferType()


@irdl_op_definition
class CircularBufferOp(IRDLOperation):
    """Room for `stages` tiles of one load, until the loop that finishes it is over.

    `shared`: any thread reads what another one has copied, once both have met. `ctas`: so many tile
    blocks shall fit an SM.
    """

    name = "nv_tileaa.circular_buffer"
    stages = prop_def(IntAttr)
    shared = opt_prop_def(UnitAttr)
    ctas = opt_prop_def(IntAttr)
    result = result_def(CircularBufferType)


class AsyncCopyBase(SegmentedOp):
    """Fields of `async_copy`, which nv_tileaa and nv_tileas share: a load without a result.

    `streamed`: nobody reads the tile again, so L1 need not hold it.
    """

    buffer = operand_def(CircularBufferType)
    stage = operand_def()
    predicate = operand_def()
    view = operand_def()
    indices = var_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])
    hints = opt_prop_def(DictionaryAttr)
    streamed = opt_prop_def(UnitAttr)


@irdl_op_definition
class AsyncCopyOp(AsyncCopyBase):
    """Starts to load one tile of a view into a stage; does nothing if `predicate` is false.

    `streamed`: nobody reads the tile again, so L1 need not hold it.
    """

    name = "nv_tileaa.async_copy"


@irdl_op_definition
class AsyncCommitGroupOp(IRDLOperation):
    """Closes the group of the loads that were started since the last one."""

    name = "nv_tileaa.async_commit_group"


@irdl_op_definition
class AsyncWaitGroupOp(IRDLOperation):
    """All loads that were started are over, those too that had nothing to load: their stages are
    memory for others. With `pending` all but so many groups are; with `meet` those of all threads.
    `frees`: no load is started any more, and what follows finds room in the stages of all circular
    buffers.
    """

    name = "nv_tileaa.async_wait_group"
    pending = opt_prop_def(IntAttr)
    meet = opt_prop_def(UnitAttr)
    frees = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """Memory is free when all threads have waited for everything."""
        if self.frees is not None and (self.meet is None or self.pending is not None):
            raise VerifyException("async_wait_group frees stages that may be in use")


class ReadStageBase(TiledLoadBase):
    """Fields of `read_stage`, which nv_tileaa and nv_tileas share.

    Without `pending` an operation before it has waited.
    """

    buffer = operand_def(CircularBufferType)
    stage = operand_def()
    pending = opt_prop_def(IntAttr)


@irdl_op_definition
class ReadStageOp(ReadStageBase):
    """The tile in a stage, once at most `pending` groups are unfinished."""

    name = "nv_tileaa.read_stage"
