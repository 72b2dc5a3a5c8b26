"""Operations of the cuda_tile dialect: atomics and multimem (Tile IR specification, "Atomics").

Each element is updated atomically; elements are not ordered among each other.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
    MultimemReductionKind,
    MultimemReductionKindAttr,
    PointerKind,
    PointerKindAttr,
)
from tileiras.dialects.cuda_tile.checks import (
    ATOMIC_ORDERINGS,
    LOAD_ORDERINGS,
    STORE_ORDERINGS,
    check_inbounds,
    check_ordering,
    check_pointee,
    check_same_shape,
    check_same_type,
    check_tile,
    check_token,
    check_unicast,
    check_unicast_view,
    check_view,
    check_view_indices,
    check_view_tile,
    fail,
)
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import (
    ATOMIC_INTEGER,
    ATOMIC_WORD,
    BASE_FLOAT,
    MULTIMEM_MIN_MAX,
    MULTIMEM_NUMBER,
    NUMBER,
    POINTER,
    ElementClass,
)
from tileiras.dialects.cuda_tile.memory import check_mask, scope_of
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.dialects.cuda_tile.types import GatherScatterViewType, TileType, ViewType


def rmw_elements(mode: AtomicRMWMode) -> ElementClass:
    """The element types that an atomic operation has."""
    match mode:
        case AtomicRMWMode.ADDF:
            return BASE_FLOAT
        case AtomicRMWMode.XCHG:
            return ATOMIC_WORD
        case _:
            return ATOMIC_INTEGER


def check_rmw_element(op: Operation, mode: AtomicRMWMode, element: Attribute) -> None:
    """The element type must be one that the atomic operation has."""
    allowed = rmw_elements(mode)
    if element not in allowed:
        found = element_text(element)
        fail(op, f"has element type {found}, expected {allowed.words} for mode {mode.value}")


def check_atomic_pointers(
    op: Operation, pointers: SSAValue, value: TileType, mask: SSAValue | None
) -> None:
    """Pointers to the value's elements, of the value's and the mask's shape."""
    type = check_tile(op, pointers, "pointers", POINTER)
    check_pointee(op, type, value.element_type, "pointers")
    check_unicast(op, getattr(type.element_type, "kind", None), "pointers")
    check_same_shape(op, type, value, "pointers and value")
    check_mask(op, mask, type)


@irdl_op_definition
class AtomicCASTkoOp(TileOp):
    """`result[i] = *p; if *p == cmp[i]: *p = val[i]`, comparing bits; masked off it is `cmp[i]`."""

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

    def check_semantics(self) -> None:
        """32 or 64-bit elements, one type throughout."""
        value = check_tile(self, self.val, "val", ATOMIC_WORD)
        check_same_type(self, value, self.cmp.type, "val and cmp")
        check_same_type(self, value, self.result.type, "val and result")
        check_atomic_pointers(self, self.pointers, value, self.mask)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, self.memory_scope.data, ATOMIC_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class AtomicRMWTkoOp(TileOp):
    """`result[i] = *p; *p = mode(*p, arg[i])`; masked off the result is anything."""

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

    def check_semantics(self) -> None:
        """Elements that the mode has, one type throughout."""
        value = check_tile(self, self.arg, "arg", NUMBER)
        check_rmw_element(self, self.mode.data, value.element_type)
        check_same_type(self, value, self.result.type, "arg and result")
        check_atomic_pointers(self, self.pointers, value, self.mask)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, self.memory_scope.data, ATOMIC_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class AtomicRedViewTkoOp(TileOp):
    """Reduces a tile into a view, without the old values; since 13.3.

    Only relaxed, only for tile blocks or the device, no padding, no gather/scatter.
    """

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

    def check_semantics(self) -> None:
        """The view's tile and index, a mode that is not xchg, ordering relaxed."""
        view = check_unicast_view(self, self.view)
        if isinstance(view, GatherScatterViewType):
            fail(self, "view is a gather_scatter_view, expected a partition or strided view")
        if view.padding_value is not None:
            fail(self, f"view has padding value {view.padding_value.value}, expected none")
        check_view_indices(self, view, self.index)
        check_view_tile(self, view, self.value, "value")
        mode = self.mode.data
        if mode is AtomicRMWMode.XCHG:
            fail(self, "has mode xchg, expected a reduction")
        check_rmw_element(self, mode, view.tensor_view.element_type)
        scope = self.memory_scope.data
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope, (MemoryOrdering.RELAXED,))
        if scope is MemoryScope.SYS:
            fail(self, "has memory scope sys, expected tl_blk or device")
        check_inbounds(self, self.inbounds, view.rank)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


class MultimemOp(TileOp, ABC):
    """An access to one address in the memories of all devices of a multicast object; since 13.5."""

    MIN_MAX: ClassVar[ElementClass] = ATOMIC_INTEGER

    def check_reduction(self, kind: MultimemReductionKind, element: Attribute) -> None:
        """The element type must be one that the reduction has (observed behaviour)."""
        allowed = ATOMIC_INTEGER
        if kind is MultimemReductionKind.ADD:
            allowed = MULTIMEM_NUMBER
        elif kind in (MultimemReductionKind.MIN, MultimemReductionKind.MAX):
            allowed = self.MIN_MAX
        if element not in allowed:
            found = element_text(element)
            fail(self, f"has element type {found}, expected {allowed.words} for {kind.value}")

    def check_access(
        self,
        view: SSAValue,
        tile: SSAValue,
        indices: tuple[SSAValue, ...],
        inbounds: DenseArrayBase,
    ) -> ViewType:
        """The view's tile and index, and a view of multicast memory; returns its type."""
        type = check_view(self, view)
        check_view_indices(self, type, indices)
        check_view_tile(self, type, tile, "tile")
        check_inbounds(self, inbounds, type.rank)
        kind = type.tensor_view.kind
        if not isinstance(kind, PointerKindAttr) or kind.data is not PointerKind.MULTICAST:
            found = kind.data.value if isinstance(kind, PointerKindAttr) else "none"
            fail(self, f"view has ptr_attr {found}, expected multicast")
        element = type.tensor_view.element_type
        if element not in MULTIMEM_NUMBER:
            found = element_text(element)
            fail(self, f"has element type {found}, expected {MULTIMEM_NUMBER.words}")
        return type


@irdl_op_definition
class MultimemLoadReduceViewTkoOp(MultimemOp):
    """Loads a tile from every device and reduces the copies."""

    name = "cuda_tile.multimem_load_reduce_view_tko"
    MIN_MAX: ClassVar[ElementClass] = MULTIMEM_MIN_MAX
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

    def check_semantics(self) -> None:
        """A multicast view, elements that the reduction has, an ordering of loads."""
        view = self.check_access(self.view, self.tile, self.index, self.inbounds)
        self.check_reduction(self.reduction.data, view.tensor_view.element_type)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), LOAD_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class MultimemReduceViewTkoOp(MultimemOp):
    """Reduces a tile into the memory of every device."""

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

    def check_semantics(self) -> None:
        """A multicast view, elements that the reduction has; relaxed or release, with a scope."""
        view = self.check_access(self.view, self.tile, self.index, self.inbounds)
        self.check_reduction(self.reduction.data, view.tensor_view.element_type)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, self.memory_scope.data, STORE_ORDERINGS[1:])
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")


@irdl_op_definition
class MultimemStoreViewTkoOp(MultimemOp):
    """Stores a tile to the memory of every device."""

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

    def check_semantics(self) -> None:
        """A multicast view, an ordering of stores."""
        self.check_access(self.view, self.tile, self.index, self.inbounds)
        ordering = self.memory_ordering_semantics.data
        check_ordering(self, ordering, scope_of(self.memory_scope), STORE_ORDERINGS)
        check_token(self, self.token, "token")
        check_token(self, self.result_token, "result token")
