"""Operations that ask: sizes, parts of tuples and layouts, comparisons; arithmetic of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra import int_tuples
from tileiras.dialects.cute.algebra.banks import bank_conflicts, vector_width
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf, ceil_div, equal_leaves
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import Tensor, is_static, layout_of, plain_layout

Query = Any
"""A layout, tensor or tuple."""


def _shape(value: Query) -> IntTuple:
    """The shape of a layout or tensor; a tuple itself."""
    if isinstance(value, (Layout, ComposedLayout, Tensor)):
        return plain_layout(value).shape
    return value


def size(value: Query) -> Leaf:
    """The number of coordinates."""
    return int_tuples.product(_shape(value))


def cosize(value: AnyLayout | Tensor) -> Leaf:
    """One more than the largest index."""
    layout = layout_of(value)
    if isinstance(layout, ComposedLayout) and not is_static(layout):
        raise AlgebraError(f"the cosize of {layout} is not static")
    return layout.cosize


def rank(value: Query) -> int:
    """The number of top-level modes."""
    return int_tuples.rank(_shape(value))


def depth(value: Query) -> int:
    """How deep tuples are nested."""
    return int_tuples.depth(_shape(value))


def get_shape(value: AnyLayout | Tensor) -> IntTuple:
    """The shape."""
    return plain_layout(value).shape


def get_stride(value: AnyLayout | Tensor) -> IntTuple:
    """The stride; of a composed layout, which has none, an AlgebraError."""
    layout = layout_of(value)
    if isinstance(layout, ComposedLayout):
        raise AlgebraError(f"{layout} is no sum of strides")
    return layout.stride


def get_layout(value: Tensor) -> AnyLayout:
    """The layout of a tensor."""
    return value.layout


def get_iter(value: Tensor) -> Any:
    """The pointer of a tensor."""
    return value.engine


def at(value: IntTuple, *path: int) -> Any:
    """The part of a tuple at a path of modes."""
    for mode in path:
        parts = int_tuples.modes(value)
        if not 0 <= mode < len(parts):
            raise AlgebraError(f"{text_of(value)} has no mode {mode}, its rank is {len(parts)}")
        value = parts[mode]
    return value


def get_leaf(value: IntTuple, *path: int) -> Leaf:
    """The integer at a path of modes."""
    found = at(value, *path)
    if isinstance(found, tuple) or found is None:
        raise AlgebraError("the mode is no integer")
    return found


def shape_at(value: AnyLayout | Tensor, *path: int) -> IntTuple:
    """A part of the shape."""
    return at(get_shape(value), *path)


def stride_at(value: AnyLayout | Tensor, *path: int) -> IntTuple:
    """A part of the stride."""
    return at(get_stride(value), *path)


def layout_at(value: Layout, *path: int) -> Layout:
    """A mode of a layout."""
    for mode in path:
        value = value[mode]
    return value


def size_at(value: Query, *path: int) -> Leaf:
    """The number of coordinates of a mode."""
    return int_tuples.product(at(_shape(value), *path))


def congruent(left: Query, right: Query) -> bool:
    """Whether both are nested alike."""
    return int_tuples.is_congruent(_shape(left), _shape(right))


def weakly_congruent(left: Query, right: Query) -> bool:
    """Whether the right one is nested alike or deeper."""
    return int_tuples.is_weakly_congruent(_shape(left), _shape(right))


def compatible(left: Query, right: Query) -> bool:
    """Whether coordinates of the left one are such of the right one."""
    return int_tuples.is_compatible(_shape(left), _shape(right))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, Layout) and isinstance(right, Layout):
        return _same(left.shape, right.shape) and _same(left.stride, right.stride)
    if isinstance(left, (int, Dynamic)) and isinstance(right, (int, Dynamic)):
        return equal_leaves(left, right)
    return left == right


def equal(left: Any, right: Any) -> Any:
    """Whether both are the same tuple or layout; dynamic if that is not known."""
    if is_static(left) and is_static(right):
        return left == right
    return True if _same(left, right) else Dynamic.symbol(UNKNOWN)


def elem_less(left: IntTuple, right: IntTuple) -> Any:
    """Whether each leaf is less than the one it faces: the predicate of a coordinate."""
    if not int_tuples.is_congruent(left, right):
        raise AlgebraError(f"{text_of(left)} and {text_of(right)} are not congruent")
    if not (is_static(left) and is_static(right)):
        return Dynamic.symbol(UNKNOWN)
    pairs = zip(int_tuples.leaves(left), int_tuples.leaves(right), strict=True)
    return all(int(str(one)) < int(str(other)) for one, other in pairs)


def is_static_value(value: Any) -> bool:
    """Whether all of a value is known when compiling."""
    return is_static(layout_of(value) if isinstance(value, Tensor) else value)


def _leafwise(change: Callable[[Leaf, Leaf], Leaf]) -> Callable[[IntTuple, IntTuple], IntTuple]:
    """An operation on leaves for tuples that are nested alike."""

    def apply(left: IntTuple, right: IntTuple) -> IntTuple:
        if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
            return tuple(map(apply, left, right))
        if isinstance(left, tuple) or isinstance(right, tuple):
            raise AlgebraError(f"{text_of(left)} and {text_of(right)} are not congruent")
        return change(left, right)

    return apply


def _quotient(left: Leaf, right: Leaf) -> Leaf:
    if not isinstance(right, int) or not isinstance(left, int):
        return Dynamic.symbol(UNKNOWN)
    return left // _positive(right)


def _remainder(left: Leaf, right: Leaf) -> Leaf:
    if isinstance(right, int) and isinstance(left, Dynamic):
        return 0 if left.divisibility % _positive(right) == 0 else Dynamic.symbol(UNKNOWN)
    if not isinstance(right, int) or not isinstance(left, int):
        return Dynamic.symbol(UNKNOWN)
    return left % _positive(right)


def _positive(divisor: int) -> int:
    if divisor < 1:
        raise AlgebraError(f"a divisor is positive, found {divisor}")
    return divisor


def _ceiling(left: Leaf, right: Leaf) -> Leaf:
    return ceil_div(left, _positive(right)) if isinstance(right, int) else Dynamic.symbol(UNKNOWN)


def _least(left: Leaf, right: Leaf) -> Leaf:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return left if equal_leaves(left, right) else Dynamic.symbol(UNKNOWN)


def _greatest(left: Leaf, right: Leaf) -> Leaf:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return left if equal_leaves(left, right) else Dynamic.symbol(UNKNOWN)


def shape_div(shape: IntTuple, divisor: Leaf) -> IntTuple:
    """A shape with its first elements as one."""
    if not isinstance(divisor, int) or not is_static(shape):
        raise AlgebraError("shapes are divided by static integers when they are static")
    return int_tuples.shape_div(shape, _positive(divisor))


def conflicts(thread_value: Layout, shared: AnyLayout, bits: int, vector: int) -> int:
    """The wavefronts of an access."""
    return bank_conflicts(thread_value, shared, bits, vector)


def _composed(value: AnyLayout) -> ComposedLayout:
    if not isinstance(value, ComposedLayout):
        raise AlgebraError(f"expected a composed layout, found {value}")
    return value


_SOME = "view|tuple"
_PATH = range(1, 9)

OPERATIONS: tuple[type[CuteOp], ...] = (
    operation("size", f"{_SOME} -> int", size, "The number of coordinates: `size(4,(2,8)) = 64`."),
    operation(
        "size_at",
        f"{_SOME} -> int",
        size_at,
        "The number of coordinates of a mode: `size_at<1>((4,(2,8))) = 16`.",
        statics=_PATH,
    ),
    operation(
        "cosize", "view -> int", cosize, "The reach of a layout: `cosize(L) = 1 + max over c L(c)`."
    ),
    operation("rank", f"{_SOME} -> int", rank, "The number of modes: `rank((4,(2,8))) = 2`."),
    operation("depth", f"{_SOME} -> int", depth, "The nesting: `depth((4,(2,8))) = 2`."),
    operation("get_shape", "view -> shape", get_shape, "The shape: `get_shape(s:d) = s`."),
    operation("get_stride", "view -> stride", get_stride, "The stride: `get_stride(s:d) = d`."),
    operation(
        "get_layout", "tensor -> layout", get_layout, "The layout: `T(c) = p[get_layout(T)(c)]`."
    ),
    operation("get_iter", "tensor -> ptr", get_iter, "The pointer: `T(c) = get_iter(T)[L(c)]`."),
    operation(
        "get_outer",
        "any_layout -> layout",
        lambda value: _composed(value).outer,
        "What a composed layout applies first: `get_outer(f o n o L) = L`.",
    ),
    operation(
        "get_offset",
        "any_layout -> int",
        lambda value: _composed(value).offset,
        "What a composed layout adds: `get_offset(f o n o L) = n`.",
    ),
    operation(
        "get_leaf",
        "tuple -> int",
        get_leaf,
        "An integer of a tuple: `get_leaf<1,0>((4,(2,8))) = 2`.",
        statics=_PATH,
    ),
    operation(
        "shape_at",
        "view -> shape",
        shape_at,
        "A part of the shape: `shape_at<1>((4,(2,8)):d) = (2,8)`.",
        statics=_PATH,
    ),
    operation(
        "stride_at",
        "view -> stride",
        stride_at,
        "A part of the stride: `stride_at<1>(s:(1,(4,8))) = (4,8)`.",
        statics=_PATH,
    ),
    operation(
        "layout_at",
        "layout -> layout",
        layout_at,
        "A mode of a layout: `layout_at<1>((4,8):(1,4)) = 8:4`.",
        statics=_PATH,
    ),
    operation(
        "congruent",
        f"{_SOME}, {_SOME} -> bool",
        congruent,
        "Whether both are nested alike: `congruent((4,8), (1,2)) = true`.",
    ),
    operation(
        "weakly_congruent",
        f"{_SOME}, {_SOME} -> bool",
        weakly_congruent,
        "Whether the second is nested alike or deeper: `weakly_congruent(4, (2,2)) = true`.",
    ),
    operation(
        "compatible",
        f"{_SOME}, {_SOME} -> bool",
        compatible,
        "Whether coordinates of the first are such of the second: `compatible(24, (4,6)) = true`.",
    ),
    operation(
        "equal",
        "tuple|any_layout, tuple|any_layout -> bool",
        equal,
        "Whether both are the same: `equal(a, b) = (a == b)`.",
    ),
    operation(
        "elem_less",
        "tuple, tuple -> bool",
        elem_less,
        "Whether a coordinate is inside: `elem_less(c, s) = all of c_i < s_i`.",
    ),
    operation(
        "is_static",
        f"{_SOME}|swizzle -> bool",
        is_static_value,
        "Whether no leaf is dynamic: `is_static((4,?)) = false`.",
    ),
    operation(
        "tuple_add",
        "tuple, tuple -> first",
        _leafwise(lambda a, b: a + b),
        "Leaf by leaf: `tuple_add(a, b)_i = a_i + b_i`.",
    ),
    operation(
        "tuple_sub",
        "tuple, tuple -> first",
        _leafwise(lambda a, b: a + b * -1),
        "Leaf by leaf: `tuple_sub(a, b)_i = a_i - b_i`.",
    ),
    operation(
        "tuple_mul",
        "tuple, tuple -> first",
        _leafwise(lambda a, b: a * b),
        "Leaf by leaf: `tuple_mul(a, b)_i = a_i * b_i`.",
    ),
    operation(
        "tuple_div",
        "tuple, tuple -> first",
        _leafwise(_quotient),
        "Leaf by leaf, rounded down: `tuple_div(a, b)_i = a_i / b_i`.",
    ),
    operation(
        "tuple_mod",
        "tuple, tuple -> first",
        _leafwise(_remainder),
        "Leaf by leaf: `tuple_mod(a, b)_i = a_i mod b_i`.",
    ),
    operation(
        "ceil_div",
        "tuple, tuple -> first",
        _leafwise(_ceiling),
        "Leaf by leaf, rounded up: `ceil_div(a, b)_i = (a_i + b_i - 1) / b_i`.",
    ),
    operation(
        "tuple_min",
        "tuple, tuple -> first",
        _leafwise(_least),
        "Leaf by leaf: `tuple_min(a, b)_i = min(a_i, b_i)`.",
    ),
    operation(
        "tuple_max",
        "tuple, tuple -> first",
        _leafwise(_greatest),
        "Leaf by leaf: `tuple_max(a, b)_i = max(a_i, b_i)`.",
    ),
    operation(
        "shape_div",
        "shape, int -> shape",
        shape_div,
        "A shape with its first elements as one: `shape_div((4,3), 2) = (2,3)`.",
    ),
    operation(
        "bank_conflicts",
        "layout, any_layout -> int",
        conflicts,
        "The wavefronts of a shared-memory access of a TV layout: "
        "`bank_conflicts<bits,vector>(tv, L) = most words of one bank`.",
        statics=2,
    ),
    operation(
        "vector_width",
        "layout, any_layout -> int",
        vector_width,
        "The widest vector in elements of a TV layout in shared memory: "
        "`vector_width<bits>(tv, L) = max v, L(tv(t, v*i + j)) = L(tv(t, v*i)) + j`.",
        statics=1,
    ),
)
"""The operations of this chapter."""
