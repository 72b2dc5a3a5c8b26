"""Operations between coordinates and indices, and those that give a layout another form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra import composition as _composition
from tileiras.dialects.cute.algebra import coordinates, inverses, transforms
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, product
from tileiras.dialects.cute.algebra.layout import Layout, Tiler
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout, Swizzle
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import Tensor, index_of, is_static, on_layout, plain_layout


def crd2idx(coordinate: Any, view: AnyLayout) -> Any:
    """The index of a coordinate."""
    return index_of(view, coordinate)


def idx2crd(index: Any, shape: IntTuple) -> Any:
    """The coordinate of a number."""
    if is_static(index) and is_static(shape):
        return coordinates.idx2crd(index, shape)
    return _unknown(shape)


def crd2crd(coordinate: Any, source: IntTuple, target: IntTuple) -> Any:
    """The same element's coordinate in a shape of equal size."""
    if is_static(coordinate) and is_static(source) and is_static(target):
        return coordinates.crd2crd(coordinate, source, target)
    return _unknown(target)


def _unknown(shape: IntTuple) -> IntTuple:
    """A coordinate of which only the nesting is known, and that of extents of 1."""
    if isinstance(shape, tuple):
        return tuple(map(_unknown, shape))
    return 0 if shape == 1 else Dynamic.symbol(UNKNOWN)


def slice_view(coordinate: Any, view: Any) -> Any:
    """The modes that face `_`; a tensor begins where the numbers say."""
    return on_layout(view, lambda layout: coordinates.slice_and_offset(coordinate, layout))


def dice_view(coordinate: Any, layout: Layout) -> Layout:
    """The modes that face a number."""
    return coordinates.dice_layout(coordinate, layout)


def domain_offset(coordinate: Any, view: Any) -> Any:
    """The tensor that begins at a coordinate: `R(c) = T(c + coordinate)`."""
    return on_layout(view, lambda layout: (layout, coordinates.crd2idx(coordinate, layout)))


def apply_swizzle(swizzle: Swizzle, index: Leaf) -> Leaf:
    """The swizzled index."""
    return swizzle(index) if isinstance(index, int) else Dynamic.symbol(UNKNOWN)


def composition(view: Any, tiler: Tiler) -> Any:
    """The view after a layout or a tiler."""
    return on_layout(view, lambda layout: _composition.composition(layout, tiler))


def _by_layout(change: Callable[..., Layout]) -> Callable[..., Any]:
    """A function of layouts for all views."""

    def apply(view: Any, *rest: Any) -> Any:
        return on_layout(view, lambda layout: change(layout, *rest))

    return apply


def complement(layout: Layout, size: Leaf | tuple[Any, ...] = 1) -> Layout:
    """The layout of the repetitions up to a size."""
    total = product(size)
    if not isinstance(total, (int, Dynamic)):
        raise AlgebraError(f"a size is an integer, found {total}")
    return inverses.complement(layout, total)


def select(layout: Layout, *modes: int) -> Layout:
    """Some modes, in this order."""
    return transforms.select(layout, modes)


def take(layout: Layout, begin: int, end: int) -> Layout:
    """Modes begin .. end - 1."""
    if not 0 <= begin < end <= layout.rank:
        raise AlgebraError(f"modes {begin} to {end} of {layout} do not exist or are none")
    return transforms.select(layout, range(begin, end))


def _inverse(invert: Callable[[Layout], Layout]) -> Callable[[AnyLayout], Any]:
    """An inverse of layouts, also of a swizzled one: the swizzle then comes last."""

    def apply(layout: AnyLayout) -> Any:
        if isinstance(layout, Layout):
            return invert(layout)
        raise AlgebraError(f"the inverse of {layout} is no layout")

    return apply


def with_shape(view: Any, shape: IntTuple) -> Any:
    """The same elements, in order, under another shape of equal size."""
    if isinstance(view, (Tensor, ComposedLayout, Layout)):
        size = plain_layout(view).size
        if product(shape) != size:
            raise AlgebraError(f"a shape of {product(shape)} elements is none of {size}")
    return composition(view, Layout.compact(shape))


OPERATIONS: tuple[type[CuteOp], ...] = (
    operation(
        "crd2idx",
        "coord, any_layout -> int",
        crd2idx,
        "The index of a coordinate: `crd2idx(c, s:d) = sum of c_i * d_i`.",
    ),
    operation(
        "idx2crd",
        "int, shape -> coord",
        idx2crd,
        "The coordinate of a number: `idx2crd(i, (4,8)) = (i mod 4, i / 4)`.",
    ),
    operation(
        "crd2crd",
        "coord, shape, shape -> coord",
        crd2crd,
        "The same element's coordinate in another shape: `crd2idx(R, t) = crd2idx(c, s)`.",
    ),
    operation(
        "slice",
        "coord, view -> view",
        slice_view,
        "The modes that face `_`: `slice((_,i), T)(c) = T(c, i)`.",
    ),
    operation(
        "dice",
        "coord, layout -> layout",
        dice_view,
        "The modes that face a number: `dice((_,1), (4,8):(8,1)) = (8):(1)`.",
    ),
    operation(
        "domain_offset",
        "coord, tensor -> tensor",
        domain_offset,
        "A tensor that begins at a coordinate: `R(c) = T(c + offset)`.",
    ),
    operation(
        "apply_swizzle",
        "swizzle, int -> int",
        apply_swizzle,
        "A swizzled index: `S<B,M,S>(i) = i ^ ((i >> S) & mask<B,M>)`.",
    ),
    operation(
        "coalesce",
        "view, shape|coord? -> view",
        _by_layout(transforms.coalesce),
        "As few modes as the function needs: `coalesce(L)(i) = L(i)`.",
    ),
    operation(
        "filter",
        "view -> view",
        _by_layout(transforms.filter_layout),
        "Without modes of stride 0 or extent 1: `image(filter(L)) = image(L)`.",
    ),
    operation(
        "filter_zeros",
        "view -> view",
        _by_layout(transforms.filter_zeros),
        "Extent 1 where the stride is 0: `filter_zeros((4,8):(0,1)) = (1,8):(0,1)`.",
    ),
    operation(
        "composition",
        "view, tiler -> view",
        composition,
        "A layout after another: `composition(A, B)(c) = A(B(c))`.",
    ),
    operation(
        "complement",
        "layout, int|shape? -> layout",
        complement,
        "The repetitions of a layout: `image(A) + image(complement(A, n)) = [0, n)`.",
    ),
    operation(
        "left_inverse",
        "layout -> layout",
        _inverse(inverses.left_inverse),
        "The way back from indices: `left_inverse(L)(L(i)) = i`.",
    ),
    operation(
        "right_inverse",
        "layout -> layout",
        _inverse(inverses.right_inverse),
        "Coordinates of the first indices: `L(right_inverse(L)(i)) = i`.",
    ),
    operation(
        "recast_layout",
        "any_layout -> layout",
        _by_layout(transforms.recast),
        "The layout for elements of another width: `recast_layout<16,32>(8:1) = 4:1`.",
        statics=2,
    ),
    operation(
        "upcast",
        "layout -> layout",
        transforms.upcast,
        "Groups of elements as one: `upcast<4>(8:1) = 2:1`.",
        statics=1,
    ),
    operation(
        "downcast",
        "layout -> layout",
        transforms.downcast,
        "Parts of elements as elements: `downcast<4>(8:1) = 32:1`.",
        statics=1,
    ),
    operation(
        "group_modes",
        "view -> view",
        _by_layout(transforms.group_modes),
        "Modes b to e - 1 as one: `group_modes<0,2>((2,3,4):d) = ((2,3),4):d'`.",
        statics=2,
    ),
    operation(
        "flatten",
        "view -> view",
        _by_layout(transforms.flatten),
        "All leaves as modes: `flatten((4,(2,8)):d) = (4,2,8):d'`.",
    ),
    operation(
        "append",
        "view, layout -> view",
        _by_layout(transforms.append),
        "One more mode at the end: `append(A, B) = (A_0, .., A_n, B)`.",
    ),
    operation(
        "prepend",
        "view, layout -> view",
        _by_layout(transforms.prepend),
        "One more mode at the beginning: `prepend(A, B) = (B, A_0, .., A_n)`.",
    ),
    operation(
        "select",
        "view -> view",
        _by_layout(select),
        "Some modes in an order: `select<1,0>(L)(i, j) = L(j, i)`.",
        statics=range(1, 9),
    ),
    operation(
        "take",
        "view -> view",
        _by_layout(take),
        "Modes b to e - 1: `take<1,3>(L) = (L_1, L_2)`.",
        statics=2,
    ),
    operation(
        "with_shape",
        "view, shape -> view",
        with_shape,
        "The same elements under another shape: `with_shape(L, s)(i) = L(i)`.",
    ),
)
"""The operations of this chapter."""
