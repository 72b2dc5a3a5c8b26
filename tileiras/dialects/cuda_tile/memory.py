"""Operations of the cuda_tile dialect: memory (Tile IR specification)."""

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr
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
    MemoryOrderingAttr,
    MemoryScopeAttr,
    OptimizationHintsAttr,
)


@irdl_op_definition
class LoadViewTkoOp(IRDLOperation):
    """`load_view_tko`, since bytecode 13.1."""

    name = "cuda_tile.load_view_tko"
    view = operand_def()
    index = var_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    inbounds = prop_def(DenseArrayBase)
    tile = result_def()
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class StoreViewTkoOp(IRDLOperation):
    """`store_view_tko`, since bytecode 13.1."""

    name = "cuda_tile.store_view_tko"
    tile = operand_def()
    view = operand_def()
    index = var_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    inbounds = prop_def(DenseArrayBase)
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class LoadPtrTkoOp(IRDLOperation):
    """`load_ptr_tko`, since bytecode 13.1."""

    name = "cuda_tile.load_ptr_tko"
    source = operand_def()
    mask = opt_operand_def()
    padding_value = opt_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    result = result_def()
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class StorePtrTkoOp(IRDLOperation):
    """`store_ptr_tko`, since bytecode 13.1."""

    name = "cuda_tile.store_ptr_tko"
    destination = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    memory_ordering_semantics = prop_def(MemoryOrderingAttr)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class MakeTokenOp(IRDLOperation):
    """`make_token`, since bytecode 13.1."""

    name = "cuda_tile.make_token"
    result = result_def()


@irdl_op_definition
class JoinTokensOp(IRDLOperation):
    """`join_tokens`, since bytecode 13.1."""

    name = "cuda_tile.join_tokens"
    tokens = var_operand_def()
    result = result_def()


@irdl_op_definition
class AllocaOp(IRDLOperation):
    """`alloca`, since bytecode 13.3."""

    name = "cuda_tile.alloca"
    num_elem = prop_def(IntegerAttr)
    alignment = prop_def(IntegerAttr)
    is_global = opt_prop_def(UnitAttr, prop_name="global")
    result = result_def()


@irdl_op_definition
class MemoryFenceAliasTkoOp(IRDLOperation):
    """`memory_fence_alias_tko`, since bytecode 13.4."""

    name = "cuda_tile.memory_fence_alias_tko"
    token = operand_def()
    result_token = result_def()


@irdl_op_definition
class GdcLaunchDependentsTkoOp(IRDLOperation):
    """`gdc_launch_dependents_tko`, since bytecode 13.4."""

    name = "cuda_tile.gdc_launch_dependents_tko"
    token = opt_operand_def()
    result_token = result_def()


@irdl_op_definition
class GdcWaitTkoOp(IRDLOperation):
    """`gdc_wait_tko`, since bytecode 13.4."""

    name = "cuda_tile.gdc_wait_tko"
    token = opt_operand_def()
    result_token = result_def()


@irdl_op_definition
class PrintTkoOp(IRDLOperation):
    """`print_tko`, since bytecode 13.1."""

    name = "cuda_tile.print_tko"
    args = var_operand_def()
    token = opt_operand_def()
    format = prop_def(StringAttr, prop_name="str")
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
