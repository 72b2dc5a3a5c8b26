"""Operations of the cuda_tile dialect: structure (Tile IR specification)."""

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
)

from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr, SymbolVisibilityAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr


@irdl_op_definition
class ModuleOp(IRDLOperation):
    """`module`, since bytecode 13.1."""

    name = "cuda_tile.module"
    sym_name = prop_def(StringAttr)
    producer = opt_prop_def(StringAttr)
    body = region_def()


@irdl_op_definition
class EntryOp(IRDLOperation):
    """`entry`, since bytecode 13.1."""

    name = "cuda_tile.entry"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr)
    res_attrs = opt_prop_def(ArrayAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    body = region_def()


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """`global`, since bytecode 13.1."""

    name = "cuda_tile.global"
    sym_name = prop_def(StringAttr)
    value = prop_def(DenseAttr)
    alignment = prop_def(IntegerAttr)
    symbol_visibility = prop_def(SymbolVisibilityAttr)
    constant = opt_prop_def(UnitAttr)


@irdl_op_definition
class GetGlobalOp(IRDLOperation):
    """`get_global`, since bytecode 13.1."""

    name = "cuda_tile.get_global"
    symbol = prop_def(SymbolRefAttr, prop_name="name")
    result = result_def()
