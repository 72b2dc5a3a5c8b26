"""Stores by TMA: by the consumers themselves, or by a warp role to which they hand tiles over.

A store pipeline leads from the consumers to that warp role as a pipeline does from the producer to
them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import AtomicRMWModeAttr
from tileiras.dialects.nv_tileas.memdesc import IN_SMEM
from tileiras.dialects.nv_tileas.pipeline import PipelineType, TensorMapType
from tileiras.dialects.operations import SegmentedOp, operations_in


@irdl_op_definition
class TmaStoreOp(SegmentedOp):
    """Stores one tile of a view from the registers of a product, through shared memory.

    Its pieces go through `buffers`, once `tileas-optimize-alloc-tensor` has chosen them: an
    `alloc_tensor`, or a pipeline whose stages are free. With `reduction` each element is combined
    atomically with the one in memory. `delayed`: it may still be under way when the operation is
    over; the next one waits for it.
    """

    name = "nv_tileas.async.tiled_tma_store"
    value = operand_def()
    tensor_map = operand_def()
    view = operand_def()
    indices = var_operand_def()
    buffers = opt_operand_def()
    delayed = prop_def(IntAttr)
    reduction = opt_prop_def(AtomicRMWModeAttr)


@irdl_op_definition
class CreateStorePipelineOp(IRDLOperation):
    """Buffers through which tiles leave: each consumer warpgroup has `stages` stages of its own.

    A stage has `pieces` pieces (`codegen/atoms/store_pieces.py`) of one tile, or fewer if the tile
    has no more; of `rows`, or of 64. Consumers fill stages, the store warp empties them; both keep
    their own position. `buffers` has room for the pieces of all stages, once
    `tileas-optimize-alloc-tensor` has chosen how many there are.
    """

    name = "nv_tileas.async.pipeline.create_store_pipeline"
    buffers = opt_operand_def(IN_SMEM)
    stages = prop_def(IntAttr)
    pieces = prop_def(IntAttr)
    rows = opt_prop_def(IntAttr)
    result = result_def(PipelineType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """There is room for something."""
        if min(self.stages.data, self.pieces.data) < 1:
            raise VerifyException("a store pipeline has at least one stage of one piece")


@irdl_op_definition
class StageForTmaStoreOp(IRDLOperation):
    """Consumers write a tile from the registers of a product into the next stages, once empty."""

    name = "nv_tileas.async.pipeline.stage_for_tma_store"
    value = operand_def()
    pipeline = operand_def(PipelineType)


@irdl_op_definition
class StoreStageOp(IRDLOperation):
    """The store warp stores the next staged tile to its place in a view, stage by stage, once full.

    All tiles that it has stored before are complete then. With `reduction` each element is combined
    atomically with the one in memory. Stages are handed back when they have been read.
    `transposed`: each warpgroup stages columns of the tile, not rows. `lanes`: it stages what it
    has loaded from its lanes of tensor memory.
    """

    name = "nv_tileas.async.pipeline.store_stage"
    pipeline = operand_def(PipelineType)
    tensor_map = operand_def(TensorMapType)
    view = operand_def()
    indices = var_operand_def()
    reduction = opt_prop_def(AtomicRMWModeAttr)
    transposed = opt_prop_def(UnitAttr)
    lanes = opt_prop_def(UnitAttr)


@irdl_op_definition
class StoreTailOp(IRDLOperation):
    """Waits until all tiles that were stored are complete: in memory for everyone to see."""

    name = "nv_tileas.async.pipeline.store_tail"
    pipeline = operand_def(PipelineType)


TMA_STORE_OPS = operations_in(vars())
