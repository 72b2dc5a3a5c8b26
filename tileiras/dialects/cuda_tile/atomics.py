"""Operations of the cuda_tile dialect: atomics (Tile IR specification)."""

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWModeAttr,
    MemoryOrderingAttr,
    MemoryScopeAttr,
    MultimemReductionKindAttr,
)


@irdl_op_definition
class AtomicCASTkoOp(IRDLOperation):
    """`atomic_cas_tko`, since bytecode 13.1."""

    name = "cuda_tile.atomic_cas_tko"
    pointers = operand_def()
    cmp = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = prop_def(MemoryScopeAttr)
    result = result_def()
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class AtomicRMWTkoOp(IRDLOperation):
    """`atomic_rmw_tko`, since bytecode 13.1."""

    name = "cuda_tile.atomic_rmw_tko"
    pointers = operand_def()
    arg = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = prop_def(MemoryScopeAttr)
    mode = prop_def(AtomicRMWModeAttr)
    result = result_def()
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class AtomicRedViewTkoOp(IRDLOperation):
    """`atomic_red_view_tko`, since bytecode 13.3."""

    name = "cuda_tile.atomic_red_view_tko"
    view = operand_def()
    index = var_operand_def()
    value = operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = prop_def(MemoryScopeAttr)
    mode = prop_def(AtomicRMWModeAttr)
    inbounds = prop_def(DenseArrayBase)
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class MultimemLoadReduceViewTkoOp(IRDLOperation):
    """`multimem_load_reduce_view_tko`, since bytecode 13.5."""

    name = "cuda_tile.multimem_load_reduce_view_tko"
    view = operand_def()
    index = var_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    reduction = prop_def(MultimemReductionKindAttr)
    inbounds = prop_def(DenseArrayBase)
    tile = result_def()
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class MultimemReduceViewTkoOp(IRDLOperation):
    """`multimem_reduce_view_tko`, since bytecode 13.5."""

    name = "cuda_tile.multimem_reduce_view_tko"
    view = operand_def()
    tile = operand_def()
    index = var_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = prop_def(MemoryScopeAttr)
    reduction = prop_def(MultimemReductionKindAttr)
    inbounds = prop_def(DenseArrayBase)
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class MultimemStoreViewTkoOp(IRDLOperation):
    """`multimem_store_view_tko`, since bytecode 13.5."""

    name = "cuda_tile.multimem_store_view_tko"
    view = operand_def()
    tile = operand_def()
    index = var_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    inbounds = prop_def(DenseArrayBase)
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
