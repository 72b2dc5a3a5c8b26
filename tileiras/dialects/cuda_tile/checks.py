"""Small checks that the verifiers of cuda_tile operations are made of.

Every check raises `VerifyException` with a message that starts with the operation's name and says
what was found and what was expected. `verify_module`, for whole programs, is in `verification.py`.
"""

from collections.abc import Iterable, Sequence
from typing import NoReturn

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import (
    MemoryOrdering,
    MemoryScope,
    PointerKind,
    PointerKindAttr,
    RoundingMode,
)
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import F32, ElementClass
from tileiras.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PointerType,
    TensorViewType,
    TileType,
    TokenType,
    ViewType,
)

IEEE_ROUNDING = frozenset(
    {
        RoundingMode.NEAREST_EVEN,
        RoundingMode.ZERO,
        RoundingMode.NEGATIVE_INF,
        RoundingMode.POSITIVE_INF,
    }
)
LOAD_ORDERINGS = (MemoryOrdering.WEAK, MemoryOrdering.RELAXED, MemoryOrdering.ACQUIRE)
STORE_ORDERINGS = (MemoryOrdering.WEAK, MemoryOrdering.RELAXED, MemoryOrdering.RELEASE)
ATOMIC_ORDERINGS = (
    MemoryOrdering.RELAXED,
    MemoryOrdering.ACQUIRE,
    MemoryOrdering.RELEASE,
    MemoryOrdering.ACQ_REL,
)


def mnemonic(op: Operation) -> str:
    """The operation's name without the dialect."""
    return op.name.removeprefix("cuda_tile.")


def fail(op: Operation, message: str) -> NoReturn:
    """Raises the verification error of an operation."""
    raise VerifyException(f"'{op.name}' op {message}")


def show(type: Attribute) -> str:
    """A type as messages print it."""
    from tileiras.dialects.cuda_tile.type_text import type_text

    return type_text(type)


def full_type(type: Attribute) -> str:
    """A type with its dialect's prefix, as MLIR's own messages print it."""
    from tileiras.dialects.cuda_tile.type_text import full_type_text

    return full_type_text(type)


def position(op: Operation, value: SSAValue, what: str) -> str:
    """`operand #1` or `result #0` of the operation; `what` for any other value."""
    for word, values in (("operand", op.operands), ("result", op.results)):
        for index, other in enumerate(values):
            if other is value:
                return f"{word} #{index}"
    return what


def listed(words: Iterable[object]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def check_tile(op: Operation, value: SSAValue, what: str, elements: ElementClass) -> TileType:
    """The value must be a tile of such elements; returns its type."""
    type = value.type
    if not isinstance(type, TileType) or type.element_type not in elements:
        where = position(op, value, what)
        found = full_type(type)
        fail(op, f"{where} must be tile of {elements.words} values, but got '{found}'")
    return type


def check_scalar(op: Operation, value: SSAValue, what: str, elements: ElementClass) -> TileType:
    """The value must be a rank-0 tile of such elements; returns its type."""
    type = value.type
    if not isinstance(type, TileType) or type.rank or type.element_type not in elements:
        where = position(op, value, what)
        found = full_type(type)
        fail(op, f"{where} must be 0D tile of {elements.words} values, but got '{found}'")
    return type


def check_token(op: Operation, value: SSAValue | None, what: str) -> None:
    """The value, if there is one, must be a token."""
    if value is not None and not isinstance(value.type, TokenType):
        where = position(op, value, what)
        fail(op, f"{where} must be cuda tile token type, but got '{full_type(value.type)}'")


def check_same_shape(op: Operation, first: TileType, second: TileType, what: str) -> None:
    """Two tiles must have one shape; `what` names both, the first first."""
    if first.shape != second.shape:
        names = what.replace(" and ", ", ")
        found = f"{list(first.shape)} and {list(second.shape)}"
        fail(op, f"failed to verify that all of {{{names}}} have same shape, but got {found}")


def check_same_type(op: Operation, first: Attribute, second: Attribute, what: str) -> None:
    """Two types must be equal; `what` names both, the first first."""
    if first != second:
        names = what.replace(" and ", ", ")
        found = f"'{full_type(first)}' and '{full_type(second)}'"
        fail(op, f"failed to verify that all of {{{names}}} have same type, but got {found}")


def check_uniform(op: Operation, elements: ElementClass) -> TileType:
    """All operands and results must have one type, a tile of such elements; returns it."""
    first = check_tile(op, op.operands[0], "operand 0", elements)
    for index, operand in enumerate(op.operands[1:], 1):
        if operand.type != first:
            check_same_type(op, first, operand.type, f"operands 0 and {index}")
    for result in op.results:
        if result.type != first:
            check_same_type(op, first, result.type, "operand and result")
    return first


def check_rounding(op: Operation, mode: RoundingMode, allowed: Iterable[RoundingMode]) -> None:
    """The rounding mode must be one of these."""
    if mode in allowed:
        return
    names = ", ".join(member.value for member in RoundingMode if member in allowed)
    fail(op, f"invalid rounding mode specified, expect one of [{names}], but got: '{mode.value}'")


def check_f32_modifiers(
    op: Operation, type: TileType, mode: RoundingMode | None, flush_to_zero: bool
) -> None:
    """`flush_to_zero` and the roundings approx and full are for f32 only."""
    if type.element_type in F32:
        return
    found = element_text(type.element_type)
    if flush_to_zero:
        fail(op, f"flush_to_zero modifier only supported for f32 data type, but got: '{found}'")
    if mode is RoundingMode.APPROX or mode is RoundingMode.FULL:
        fail(op, f"{mode.value} modifier only supported for f32 data type, but got: '{found}'")


def check_pointee(op: Operation, pointer: TileType, element: Attribute, what: str) -> None:
    """The pointer tile must point to this element type."""
    pointer_type = pointer.element_type
    if not isinstance(pointer_type, PointerType):
        fail(op, f"{what} has element type {element_text(pointer_type)}, expected a pointer type")
    if pointer_type.pointee != element:
        found, expected = element_text(pointer_type.pointee), element_text(element)
        fail(op, f"{what} points to {found}, expected {expected}")


def check_ordering(
    op: Operation,
    ordering: MemoryOrdering,
    scope: MemoryScope | None,
    allowed: Sequence[MemoryOrdering],
) -> None:
    """The ordering must be one of these; weak has no scope and all others have one."""
    if ordering not in allowed:
        names = listed(member.value for member in allowed)
        fail(op, f"has memory ordering {ordering.value}, expected {names}")
    if ordering is MemoryOrdering.WEAK:
        if scope is not None:
            fail(op, f"has memory scope {scope.value} with ordering weak, expected no scope")
    elif scope is None:
        fail(op, f"has no memory scope with ordering {ordering.value}, expected one")


def check_view(op: Operation, value: SSAValue) -> ViewType:
    """The value must be a partition, strided or gather/scatter view; returns its type."""
    if not isinstance(value.type, ViewType):
        fail(op, f"view has type {show(value.type)}, expected a tile view")
    return value.type


def check_unicast(op: Operation, kind: Attribute | None, what: str) -> None:
    """Only multimem operations access multicast memory."""
    if isinstance(kind, PointerKindAttr) and kind.data is PointerKind.MULTICAST:
        fail(op, f"{what} has ptr_attr multicast, expected unicast or none")


def check_unicast_view(op: Operation, value: SSAValue) -> ViewType:
    """The value must be a view of memory that is not multicast; returns its type."""
    view = check_view(op, value)
    check_unicast(op, view.tensor_view.kind, "view")
    return view


def check_view_indices(op: Operation, view: ViewType, indices: Sequence[SSAValue]) -> None:
    """One index per dim of the view: scalars of one type, and a vector along a sparse dim."""
    from tileiras.dialects.cuda_tile.element_types import INTEGER

    if len(indices) != view.rank:
        fail(op, f"has {len(indices)} indices, expected {view.rank} (the rank of the view)")
    sparse_dim = view.sparse_dim if isinstance(view, GatherScatterViewType) else None
    scalar: TileType | None = None
    for position, index in enumerate(indices):
        if position == sparse_dim:
            type = check_tile(op, index, f"index {position}", INTEGER)
            if type.shape != (view.tile_shape[position],):
                expected = f"[{view.tile_shape[position]}] (the sparse dim of the view)"
                fail(op, f"index {position} has shape {list(type.shape)}, expected {expected}")
            continue
        type = check_scalar(op, index, f"index {position}", INTEGER)
        if scalar is not None and type != scalar:
            fail(op, f"index {position} has type {show(type)}, expected {show(scalar)}")
        scalar = type


def check_inbounds(op: Operation, inbounds: DenseArrayBase, rank: int) -> None:
    """One `inbounds` flag per index."""
    count = len(inbounds)
    if count != rank:
        fail(op, f"inbounds has {count} elements, expected {rank} (the rank of the view)")


def check_view_tile(op: Operation, view: ViewType, value: SSAValue, what: str) -> None:
    """The tile that is loaded or stored must be the view's tile."""
    if value.type != view.tile_type:
        found, expected = show(value.type), show(view.tile_type)
        fail(op, f"{what} has type {found}, expected {expected} (the tile of the view)")


def check_no_views(op: Operation, types: Iterable[Attribute], what: str) -> None:
    """Values that cross a region's border may be tiles and tokens, not views."""
    for index, type in enumerate(types):
        if isinstance(type, ViewType | TensorViewType):
            fail(op, f"{what} {index} has type {show(type)}, expected a tile or a token")


def check_types(
    op: Operation, found: Sequence[Attribute], expected: Sequence[Attribute], what: str, of: str
) -> None:
    """Two lists of types must agree; `what` names the found values, `of` where the others are."""
    if len(found) != len(expected):
        fail(op, f"has {len(found)} {what}s, expected {len(expected)} ({of})")
    for index, (mine, other) in enumerate(zip(found, expected)):
        if mine != other:
            fail(op, f"{what} {index} has type {show(mine)}, expected {show(other)} ({of})")


def check_dim(op: Operation, dim: IntegerAttr, rank: int) -> int:
    """`dim` must name a dim of a tile of this rank; returns it."""
    value = dim.value.data
    if not 0 <= value < rank:
        fail(op, f"has dim {value}, expected 0 <= dim < {rank} (the rank of the operand)")
    return value
