"""Operations of the cuda_tile dialect: memory and tokens (Tile IR specification, "Memory").

`_tko` operations are token-ordered: one runs after those whose tokens it takes, and only after
those; program order says nothing. Loads take the orderings weak, relaxed and acquire, stores weak,
relaxed and release; weak has no scope, all others need one.
"""

import re

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
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
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
    OptimizationHintsAttr,
)
from tileiras.dialects.cuda_tile.checks import (
    LOAD_ORDERINGS,
    STORE_ORDERINGS,
    check_inbounds,
    check_ordering,
    check_pointee,
    check_same_shape,
    check_same_type,
    check_scalar,
    check_tile,
    check_token,
    check_unicast,
    check_unicast_view,
    check_view_indices,
    check_view_tile,
    fail,
)
from tileiras.dialects.cuda_tile.element_types import ANY, BOOL, POINTER, bit_width
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import PointerType, TileType

_LETTERS = "diuoxXeEfFgGaAcsSpn"
PRINT_CONVERSION = re.compile(
    rf"(?P<escape>%%)|(?P<conversion>%[^%{_LETTERS}]*(?:[{_LETTERS}]|(?=%)))|(?P<open>%)"
)
"""`%%`; a conversion of printf, up to its letter or the next conversion; one that does not end."""


def scope_of(attr: MemoryScopeAttr | None) -> MemoryScope | None:
    """The scope, if there is one."""
    return None if attr is None else attr.data


def check_mask(op: Operation, mask: SSAValue | None, tile: TileType) -> None:
    """The mask, if there is one, is a tile of i1 of the pointers' shape."""
    if mask is not None:
        type = check_tile(op, mask, "mask", BOOL)
        check_same_shape(op, type, tile, "mask and pointers")


@irdl_op_definition
class LoadViewTkoOp(TileOp):
    """Loads the tile of a view at an index.

    Out of bounds the padding value of the view, or anything if it has none. An `inbounds` flag
    promises that nothing is out of bounds in that dim.
    """

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

    def check_semantics(self) -> None:
        """The view's tile and index, an ordering of loads."""
        view = check_unicast_view(self, self.view)
        check_view_indices(self, view, self.index)
        check_view_tile(self, view, self.tile, "result")
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), LOAD_ORDERINGS)
        check_inbounds(self, self.inbounds, view.rank)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class StoreViewTkoOp(TileOp):
    """Stores a tile to a view at an index; what is out of bounds is left out."""

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

    def check_semantics(self) -> None:
        """The view's tile and index, an ordering of stores."""
        view = check_unicast_view(self, self.view)
        check_view_indices(self, view, self.index)
        check_view_tile(self, view, self.tile, "tile")
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), STORE_ORDERINGS)
        check_inbounds(self, self.inbounds, view.rank)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class LoadPtrTkoOp(TileOp):
    """`result[i] = mask[i] ? *source[i] : padding_value[i]`, i1 read from a byte.

    Masked off without a padding value it is anything; padding without a mask is legal and idle.
    """

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

    def check_semantics(self) -> None:
        """Pointers to the result's elements, an ordering of loads."""
        source = check_tile(self, self.source, "source", POINTER)
        result = check_tile(self, self.result, "result", ANY)
        check_pointee(self, source, result.element_type, "source")
        check_unicast(self, getattr(source.element_type, "kind", None), "source")
        check_same_shape(self, source, result, "source and result")
        check_mask(self, self.mask, source)
        if self.padding_value is not None:
            check_same_type(self, self.padding_value.type, result, "padding value and result")
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), LOAD_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class StorePtrTkoOp(TileOp):
    """`*destination[i] = value[i]` where `mask[i]`; i1 is stored as a byte, 0 or 1."""

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

    def check_semantics(self) -> None:
        """Pointers to the value's elements, an ordering of stores."""
        destination = check_tile(self, self.destination, "destination", POINTER)
        value = check_tile(self, self.value, "value", ANY)
        check_pointee(self, destination, value.element_type, "destination")
        check_unicast(self, getattr(destination.element_type, "kind", None), "destination")
        check_same_shape(self, destination, value, "destination and value")
        check_mask(self, self.mask, destination)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), STORE_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class MakeTokenOp(TileOp):
    """A token that waits for nothing."""

    name = "cuda_tile.make_token"
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """The result is a token."""
        check_token(self, self.result, "result")


@irdl_op_definition
class JoinTokensOp(TileOp):
    """A token that waits for all operands, two or more."""

    name = "cuda_tile.join_tokens"
    tokens = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_semantics(self) -> None:
        """Two or more tokens."""
        if len(self.tokens) < 2:
            fail(self, f"has {len(self.tokens)} operands, expected at least 2")
        for index, token in enumerate(self.tokens):
            check_token(self, token, f"operand {index}")
        check_token(self, self.result, "result")


@irdl_op_definition
class AllocaOp(TileOp):
    """Memory for `num_elem` elements that lives as long as the tile block; since 13.3.

    With `global` all threads of the block can share it.
    """

    name = "cuda_tile.alloca"
    num_elem = prop_def(IntegerAttr)
    alignment = prop_def(IntegerAttr)
    is_global = opt_prop_def(UnitAttr, prop_name="global")
    result = result_def()

    def check_semantics(self) -> None:
        """Sizes not negative, an alignment that is a power of two and fits the pointee."""
        type = check_scalar(self, self.result, "result", POINTER)
        count = self.num_elem.value.data
        if count < 0:
            fail(self, f"has num_elem {count}, expected 0 or more")
        alignment = self.alignment.value.data
        if alignment < 1 or alignment & (alignment - 1):
            fail(self, f"has alignment {alignment}, expected a power of two")
        pointer = type.element_type
        if not isinstance(pointer, PointerType):
            return
        size = (bit_width(pointer.pointee) + 7) // 8
        if alignment < size:
            fail(self, f"has alignment {alignment}, expected at least {size} (the pointee)")


class TokenOp(TileOp):
    """An operation on the order of memory accesses alone."""

    token = opt_operand_def()
    result_token = result_def()

    def check_semantics(self) -> None:
        """Tokens in and out."""
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class MemoryFenceAliasTkoOp(TileOp):
    """Orders accesses to one memory through different addresses; since 13.4."""

    name = "cuda_tile.memory_fence_alias_tko"
    token = operand_def()
    result_token = result_def()

    def check_semantics(self) -> None:
        """A token in and a token out."""
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class GdcLaunchDependentsTkoOp(TokenOp):
    """Lets the next grid start (programmatic dependent launch); since 13.4."""

    name = "cuda_tile.gdc_launch_dependents_tko"


@irdl_op_definition
class GdcWaitTkoOp(TokenOp):
    """Waits for the previous grid's memory (programmatic dependent launch); since 13.4."""

    name = "cuda_tile.gdc_wait_tko"


@irdl_op_definition
class PrintTkoOp(TileOp):
    """Prints tiles by a C `printf` format, one conversion per operand."""

    name = "cuda_tile.print_tko"
    args = var_operand_def()
    token = opt_operand_def()
    format = prop_def(StringAttr, prop_name="str")
    result_token = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def check_semantics(self) -> None:
        """As many conversions (`%%` is none) as operands, all tiles."""
        kinds = [match.lastgroup for match in PRINT_CONVERSION.finditer(self.format.data)]
        if "open" in kinds:
            fail(self, f"format {self.format.data!r} ends inside a conversion")
        count = kinds.count("conversion")
        if count != len(self.args):
            fail(self, f"has {len(self.args)} operands, expected {count} (the format's)")
        for index, operand in enumerate(self.args):
            check_tile(self, operand, f"operand {index}", ANY)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")
