"""Memory operations: each names the token that orders it; facts sit on their users."""

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
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

from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWModeAttr,
    IntTupleAttr,
    MemoryOrderingAttr,
    MemoryScopeAttr,
    SymbolVisibilityAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.operations import SegmentedOp


@irdl_op_definition
class MakeMemRefOp(SegmentedOp):
    """A tensor in global memory at `base`.

    `base_align` (bytes), `shape_divisor` and `stride_divisor` (elements, per dim) are proven facts.
    """

    name = "nv_tileaa.make_memref"
    base = operand_def()
    dynamic_shape = var_operand_def()
    dynamic_strides = var_operand_def()
    base_align = opt_prop_def(IntegerAttr)
    shape_divisor = opt_prop_def(IntTupleAttr)
    stride_divisor = opt_prop_def(IntTupleAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class BlockTileOp(IRDLOperation):
    """Views a memref as a grid of tiles; the type says how."""

    name = "nv_tileaa.block_tile"
    memref = operand_def()
    result = result_def()
    traits = traits_def(Pure())


class TiledLoadBase(SegmentedOp):
    """Fields of `tiled_load`, which nv_tileaa and nv_tileas share.

    `is_apart`: its addresses are computed for it alone, not kept for or from other accesses.
    `tile_block`: which of the tile blocks that one CTA runs side by side, outside of critical
    sections. What two of them access there, one of them writing, is different memory.
    `halved`: the dim of the tile of which each CTA of a pair keeps one half in a stage, the first
    CTA the first one (`form-clusters`).
    `ahead`: L2 gets the tile of the tile block so many further on, too; of the indices the one that
    is the number of the tile block tells them apart (`hoist-loads`).
    """

    view = operand_def()
    indices = var_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])
    hints = opt_prop_def(DictionaryAttr)
    is_apart = opt_prop_def(UnitAttr)
    tile_block = opt_prop_def(IntAttr)
    halved = opt_prop_def(IntAttr)
    ahead = opt_prop_def(IntAttr)
    result = result_def()
    result_token = result_def()


@irdl_op_definition
class TiledLoadOp(TiledLoadBase):
    """Loads one tile of a view; `inbounds` promises per dim that nothing is out of bounds."""

    name = "nv_tileaa.tiled_load"


class TiledStoreBase(SegmentedOp):
    """Fields of `tiled_store`, which nv_tileaa and nv_tileas share; the rest is as for loads."""

    value = operand_def()
    view = operand_def()
    indices = var_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])
    hints = opt_prop_def(DictionaryAttr)
    is_apart = opt_prop_def(UnitAttr)
    tile_block = opt_prop_def(IntAttr)
    result_token = result_def()


@irdl_op_definition
class TiledStoreOp(TiledStoreBase):
    """Stores one tile of a view; elements out of bounds are not written."""

    name = "nv_tileaa.tiled_store"


@irdl_op_definition
class TiledAtomicRedOp(SegmentedOp):
    """Atomically combines one tile into memory through a view; no old value.

    Where it has been placed, `vector` elements along tile dim `axis` go in one instruction.
    """

    name = "nv_tileaa.tiled_atomic_red"
    value = operand_def()
    view = operand_def()
    indices = var_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = prop_def(MemoryScopeAttr)
    mode = prop_def(AtomicRMWModeAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])
    vector = opt_prop_def(IntAttr)
    axis = opt_prop_def(IntAttr)
    result_token = result_def()


class LoadBase(SegmentedOp):
    """Fields of `load`, which nv_tileaa and nv_tileas share."""

    pointers = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    hints = opt_prop_def(DictionaryAttr)
    contiguity = opt_prop_def(IntTupleAttr)
    alignment = opt_prop_def(IntTupleAttr)
    mask_constancy = opt_prop_def(IntTupleAttr)
    result = result_def()
    result_token = result_def()


@irdl_op_definition
class LoadOp(LoadBase):
    """Gathers through a scalar or tensor of pointers; a false mask gives `other`."""

    name = "nv_tileaa.load"


class StoreBase(SegmentedOp):
    """Fields of `store`, which nv_tileaa and nv_tileas share."""

    pointers = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = opt_prop_def(MemoryScopeAttr)
    hints = opt_prop_def(DictionaryAttr)
    contiguity = opt_prop_def(IntTupleAttr)
    alignment = opt_prop_def(IntTupleAttr)
    mask_constancy = opt_prop_def(IntTupleAttr)
    result_token = result_def()


@irdl_op_definition
class StoreOp(StoreBase):
    """Scatters through a scalar or tensor of pointers where the mask is true."""

    name = "nv_tileaa.store"


@irdl_op_definition
class AtomicRMWOp(SegmentedOp):
    """Atomic read-modify-write through pointers; the result is the old value."""

    name = "nv_tileaa.atomic_rmw"
    pointers = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = prop_def(MemoryScopeAttr)
    mode = prop_def(AtomicRMWModeAttr)
    result = result_def()
    result_token = result_def()


@irdl_op_definition
class AtomicCASOp(SegmentedOp):
    """Atomic compare-and-swap through pointers; the result is the old value."""

    name = "nv_tileaa.atomic_cas"
    pointers = operand_def()
    compare = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    token = opt_operand_def()
    ordering = prop_def(MemoryOrderingAttr)
    scope = prop_def(MemoryScopeAttr)
    result = result_def()
    result_token = result_def()


@irdl_op_definition
class CreateMemTokenOp(IRDLOperation):
    """A token that nothing precedes."""

    name = "nv_tileaa.create_mem_token"
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class JoinMemTokensOp(IRDLOperation):
    """A token that all the given ones precede."""

    name = "nv_tileaa.join_mem_tokens"
    tokens = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the tile block meet; memory accesses before are visible after.

    `insert-barriers` puts it where token order asks for one.
    """

    name = "nv_tileaa.barrier"


@irdl_op_definition
class FenceAliasOp(IRDLOperation):
    """Orders accesses through different addresses of the same memory."""

    name = "nv_tileaa.fence_alias"
    token = operand_def()
    result = result_def()


@irdl_op_definition
class GridDependencyOp(IRDLOperation):
    """Programmatic dependent launch: `wait` for the primary grid, or `launch` dependents."""

    name = "nv_tileaa.grid_dependency"
    token = opt_operand_def()
    kind = prop_def(StringAttr)
    result = result_def()


@irdl_op_definition
class PrintOp(SegmentedOp):
    """Prints by a C format: a scalar once, a tensor as a nested list of its elements.

    Arguments are f64, i64 (`%ll...`) or i32 (`%c`).
    """

    name = "nv_tileaa.print"
    arguments = var_operand_def()
    token = opt_operand_def()
    format = prop_def(StringAttr)
    result = result_def()


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Reports every element of the condition that is false."""

    name = "nv_tileaa.assert"
    condition = operand_def()
    message = prop_def(StringAttr)


@irdl_op_definition
class DebugValueOp(IRDLOperation):
    """From here on the variable `variable` of the source has this value.

    `parameter` is the number of the kernel's parameter that it is, from 1; 0 for other variables.
    Only `-g` makes it, and only where code for debugging is made it becomes an instruction: a store
    to the place where the debugger looks.
    """

    name = "nv_tileaa.debug_value"
    value = operand_def()
    variable = prop_def(StringAttr)
    parameter = prop_def(IntAttr)


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A variable in global memory."""

    name = "nv_tileaa.global"
    sym_name = prop_def(StringAttr)
    value = prop_def(DenseAttr)
    alignment = prop_def(IntegerAttr)
    symbol_visibility = prop_def(SymbolVisibilityAttr)
    constant = opt_prop_def(UnitAttr)


@irdl_op_definition
class GetGlobalOp(IRDLOperation):
    """Address of a global."""

    name = "nv_tileaa.get_global"
    symbol = prop_def(SymbolRefAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class AllocaOp(IRDLOperation):
    """Address of memory that this tile block allocates; with `global` others can reach it, too."""

    name = "nv_tileaa.alloca"
    num_elem = prop_def(IntegerAttr)
    alignment = prop_def(IntegerAttr)
    is_global = opt_prop_def(UnitAttr, prop_name="global")
    result = result_def()
