"""Operations of the cuda_tile dialect: modules, entries, globals (Tile IR specification)."""

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoTerminator, Pure

from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr, SymbolVisibilityAttr
from tileiras.dialects.cuda_tile.checks import (
    check_pointee,
    check_scalar,
    check_types,
    fail,
    mnemonic,
    show,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.control_flow import check_body, types_of
from tileiras.dialects.cuda_tile.element_types import POINTER
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import TileType


@irdl_op_definition
class ModuleOp(TileOp):
    """A program: entries and globals. Bytecode does not keep its name."""

    name = "cuda_tile.module"
    sym_name = prop_def(StringAttr)
    producer = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(NoTerminator())

    def check_semantics(self) -> None:
        """One block of entries and globals (`verify_module` checks that their names differ)."""
        if len(self.body.blocks) != 1:
            fail(self, f"body has {len(self.body.blocks)} blocks, expected 1")
        for op in self.body.blocks[0].ops:
            if not isinstance(op, EntryOp | GlobalOp):
                fail(self, f"body has '{mnemonic(op)}', expected entries and globals only")

    def find_global(self, symbol: str) -> "GlobalOp | None":
        """The global with this name."""
        for op in self.body.blocks[0].ops:
            if isinstance(op, GlobalOp) and op.sym_name.data == symbol:
                return op
        return None


@irdl_op_definition
class EntryOp(TileOp):
    """A kernel. Its block arguments are the parameters, all scalars (rank-0 tiles)."""

    name = "cuda_tile.entry"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr)
    res_attrs = opt_prop_def(ArrayAttr)
    optimization_hints = opt_prop_def(OptimizationHintsAttr)
    body = region_def()

    def check_semantics(self) -> None:
        """Scalar parameters, no results, one block that ends in a return."""
        _check_parent_module(self)
        if not self.sym_name.data:
            fail(self, "has an empty name")
        parameters = self.function_type.inputs.data
        for index, type in enumerate(parameters):
            if not isinstance(type, TileType) or type.rank:
                fail(self, f"argument {index} has type {show(type)}, expected a scalar tile")
        if self.function_type.outputs.data:
            fail(self, f"has {len(self.function_type.outputs.data)} results, expected none")
        block = check_body(self, self.body, "body", ("return",))
        check_types(self, types_of(block.args), parameters, "block argument", "the entry's type")


@irdl_op_definition
class GlobalOp(TileOp):
    """Device memory with an initial value of rank 1; `constant` promises that none writes it."""

    name = "cuda_tile.global"
    sym_name = prop_def(StringAttr)
    value = prop_def(DenseAttr)
    alignment = prop_def(IntegerAttr)
    symbol_visibility = prop_def(SymbolVisibilityAttr)
    constant = opt_prop_def(UnitAttr)

    def check_semantics(self) -> None:
        """A rank-1 value; an alignment that is 0 (none) or a power of two."""
        _check_parent_module(self)
        rank = self.value.type.rank
        if rank != 1:
            fail(self, f"value has rank {rank}, expected 1")
        alignment = self.alignment.value.data
        if alignment < 0 or alignment & (alignment - 1):
            fail(self, f"has alignment {alignment}, expected 0 or a power of two")


def _check_parent_module(op: Operation) -> None:
    parent = op.parent_op()
    if not isinstance(parent, ModuleOp):
        found = "nothing" if parent is None else f"'{mnemonic(parent)}'"
        fail(op, f"is in {found}, expected 'module'")


@irdl_op_definition
class GetGlobalOp(TileOp):
    """The address of a global of this module."""

    name = "cuda_tile.get_global"
    symbol = prop_def(SymbolRefAttr, prop_name="name")
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """The symbol is a global; the result points to its elements."""
        type = check_scalar(self, self.result, "result", POINTER)
        parent = self.parent_op()
        while parent is not None and not isinstance(parent, ModuleOp):
            parent = parent.parent_op()
        if parent is None:
            return
        symbol = self.symbol.root_reference.data
        target = parent.find_global(symbol)
        if target is None:
            fail(self, f"refers to '{symbol}', expected a global of the module")
        check_pointee(self, type, target.value.type.element_type, "result")
