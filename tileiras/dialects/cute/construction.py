"""Operations that make values: integers, tuples, layouts, swizzles, tensors."""

from __future__ import annotations

from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import (
    IntTuple,
    is_congruent,
    leaves,
    regrouped,
    text_of,
)
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Basis, Dynamic, Leaf
from tileiras.dialects.cute.algebra.partitions import tv_layout
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout, Swizzle
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import (
    PointerInfo,
    Tensor,
    element_bits,
    is_static,
    layout_of,
    on_layout,
)


def filled(pattern: Any, *values: Any) -> Any:
    """`pattern` with its dynamic leaves, from left to right, replaced by the values.

    A value that is dynamic itself must promise the divisor that the pattern states.
    """
    rest = list(values)
    result = _filled(pattern, rest)
    if rest:
        raise AlgebraError(
            f"{len(values)} operands, expected one for each dynamic leaf of the result: "
            f"{len(values) - len(rest)}"
        )
    return result


def _filled(pattern: Any, rest: list[Any]) -> Any:
    match pattern:
        case tuple():
            return tuple(_filled(part, rest) for part in pattern)
        case Layout():
            return Layout(_filled(pattern.shape, rest), _filled(pattern.stride, rest))
        case Basis():
            return Basis(tuple((path, _filled(factor, rest)) for path, factor in pattern.terms))
        case Dynamic():
            if not rest:
                raise AlgebraError("fewer operands than dynamic leaves of the result")
            return _joined(pattern, rest.pop(0))
        case _:
            return pattern


def _joined(pattern: Dynamic, value: Any) -> Any:
    """The value; while compiling, what the written type says of it."""
    if isinstance(value, tuple) or value is None:
        raise AlgebraError(f"a leaf is one integer, found {value}")
    if isinstance(value, int):
        if value % pattern.divisibility:
            raise AlgebraError(f"{value} is not divisible by {pattern.divisibility}")
        return value
    if isinstance(value, Dynamic) and value.is_known:
        return value
    if value.divisibility % pattern.divisibility and value.divisibility != 1:
        raise AlgebraError(f"{value} is not known to be divisible by {pattern.divisibility}")
    return pattern


def _static(pattern: Any) -> Any:
    if not is_static(pattern):
        raise AlgebraError("a static value has no dynamic leaves")
    return pattern


def make_layout(shape: IntTuple, stride: IntTuple | None = None) -> Layout:
    """`shape:stride`; without a stride the compact one, first mode fastest."""
    return Layout.compact(shape) if stride is None else Layout(shape, stride)


def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """The compact layout whose modes are fast in the order of `order`, smallest first."""
    if not is_congruent(shape, order):
        raise AlgebraError(f"{text_of(shape)} and order {text_of(order)} are not congruent")
    extents, places = list(leaves(shape)), list(leaves(order))
    if not all(isinstance(place, int) for place in places):
        raise AlgebraError(f"an order is static, found {text_of(order)}")
    strides: dict[int, Leaf] = {}
    step: Leaf = 1
    for mode in sorted(range(len(extents)), key=lambda i: (int(str(places[i])), i)):
        strides[mode] = step
        step = step * extents[mode]
    flat = iter([strides[mode] for mode in range(len(extents))])
    return Layout(shape, regrouped(flat, shape))


def make_layout_like(view: AnyLayout | Tensor) -> Layout:
    """The compact layout of a layout's shape, its modes fast in the order of its strides.

    Modes of stride 0 keep it: they need no memory.
    """
    layout = view.layout if isinstance(view, Tensor) else view
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    pairs = list(outer.pairs)
    if not is_static(outer):
        raise AlgebraError(f"a layout of registers is static, found {outer}")
    if any(isinstance(stride, Basis) for _, stride in pairs):
        return Layout.compact(outer.shape)
    found: dict[int, Leaf] = {}
    step: Leaf = 1
    for mode in sorted(range(len(pairs)), key=lambda i: (int(str(pairs[i][1])), i)):
        extent, stride = pairs[mode]
        found[mode] = 0 if stride == 0 else step
        step = step if stride == 0 else step * extent
    return Layout(outer.shape, regrouped(iter([found[i] for i in range(len(pairs))]), outer.shape))


def make_identity_layout(shape: IntTuple) -> Layout:
    """The layout with `L(c) == c`: its strides are the basis elements."""
    return Layout(shape, _basis(shape, ()))


def _basis(shape: IntTuple, path: tuple[int, ...]) -> IntTuple:
    if isinstance(shape, tuple):
        return tuple(_basis(mode, (*path, number)) for number, mode in enumerate(shape))
    return Basis.unit(*path) if path else 1


def make_composed_layout(inner: Swizzle | Layout, offset: Leaf, outer: Layout) -> ComposedLayout:
    """`inner o offset o outer`."""
    return ComposedLayout(inner, offset, outer)


def make_tensor(pointer: Any, layout: AnyLayout) -> Tensor:
    """The tensor of a pointer and a layout."""
    return Tensor(pointer, layout)


def _registers(pattern: Any) -> Any:
    """A new tensor as written: its memory is made by whoever runs it."""
    if not isinstance(pattern, Tensor) or not is_static(pattern.layout):
        raise AlgebraError("memory is made for static layouts only")
    if pattern.engine.space not in ("rmem", "smem"):
        raise AlgebraError(f"memory is made in rmem or smem, not in {pattern.engine.space}")
    return pattern


def make_fragment_like(view: Tensor) -> Tensor:
    """Registers for the elements of a tensor: `rmem` with `make_layout_like(view)`."""
    engine = PointerInfo(view.engine.element, "rmem", REGISTER_ALIGNMENT)
    return Tensor(engine, make_layout_like(view))


REGISTER_ALIGNMENT = 16
"""Bytes: vectors of registers are accessed whole."""


def recast_ptr(pattern: Any, pointer: Any) -> Any:
    """The same address as a pointer to other elements."""
    if isinstance(pointer, PointerInfo) and (
        pattern.space != pointer.space or pattern.alignment > pointer.alignment
    ):
        raise AlgebraError(f"{pointer} cannot be seen as {pattern}")
    return pointer.recast(pattern.element) if not isinstance(pointer, PointerInfo) else pattern


def recast_tensor(pattern: Any, view: Tensor) -> Any:
    """The same memory as elements of another width: the layout is recast."""
    old, new = element_bits(view.engine.element), element_bits(pattern.engine.element)
    from tileiras.dialects.cute.algebra.transforms import recast

    def change(layout: Layout) -> Layout:
        return recast(layout, old, new)

    changed = layout_of(on_layout(Tensor(_Still(), view.layout), change))
    if isinstance(changed, ComposedLayout) and isinstance(changed.inner, Swizzle):
        swizzle = changed.inner.recast(old, new)
        changed = ComposedLayout(swizzle, changed.offset, changed.outer)
    return Tensor(recast_ptr(pattern.engine, view.engine), changed)


class _Still:
    """A pointer that stays where it is."""

    element = ""

    def advanced(self, offset: Leaf) -> _Still:
        """Itself: recasting moves nothing."""
        return self


def assume_align(pattern: Any, pointer: Any) -> Any:
    """The same pointer with a larger alignment, which is a promise of the program."""
    if isinstance(pointer, PointerInfo):
        if (pattern.element, pattern.space) != (pointer.element, pointer.space):
            raise AlgebraError(f"{pointer} cannot be seen as {pattern}")
        return pattern
    return pointer


def assume(pattern: Any, value: Any) -> Any:
    """The same integer with a divisor, which is a promise of the program."""
    return value if isinstance(value, int) else pattern


def add_offset(pointer: Any, offset: Leaf) -> Any:
    """The pointer so many elements further."""
    return pointer.advanced(offset)


def _to_int(value: Leaf) -> Leaf:
    return value


def make_tv_layout(threads: Layout, values: Layout) -> Layout:
    """The TV layout of threads that hold values each."""
    return tv_layout(threads, values)[0]


OPERATIONS: tuple[type[CuteOp], ...] = (
    operation(
        "static",
        "-> int|bool|shape|stride|coord|tiler|any_layout|swizzle|copy_atom|mma_atom|tiled_copy"
        "|tiled_mma",
        _static,
        "The value that its type says: `static() : !cute.int<8>` is 8.",
        given=True,
    ),
    operation("to_int", "int -> int", _to_int, "An i32 as a leaf of shapes: `to_int(x) = x`."),
    operation(
        "assume",
        "int -> int",
        assume,
        "An integer that the program promises to be divisible: `assume(x) = x`, `?{div=8}`.",
        given=True,
    ),
    operation(
        "make_shape",
        "int* -> shape",
        filled,
        "A shape; operands are its dynamic leaves: `make_shape(m) = (m,4)` for `(?,4)`.",
        given=True,
    ),
    operation(
        "make_stride",
        "int* -> stride",
        filled,
        "A stride; operands are its dynamic leaves: `make_stride(d) = (1,d)` for `(1,?)`.",
        given=True,
    ),
    operation(
        "make_coord",
        "int* -> coord",
        filled,
        "A coordinate; operands are its dynamic leaves: `make_coord(i) = (i,_)` for `(?,_)`.",
        given=True,
    ),
    operation(
        "make_int_tuple",
        "int* -> tuple",
        filled,
        "A tuple of integers; operands are its dynamic leaves: `make_int_tuple(i) = (i,2)`.",
        given=True,
    ),
    operation(
        "make_tile",
        "int* -> tiler",
        filled,
        "A tiler, a layout per mode: `make_tile() = [128:1;64:1]`.",
        given=True,
    ),
    operation(
        "make_layout",
        "shape, stride? -> layout",
        make_layout,
        "A layout, compact without a stride: `make_layout(s, d)(c) = sum of c_i * d_i`.",
    ),
    operation(
        "make_ordered_layout",
        "shape, shape|coord|stride -> layout",
        make_ordered_layout,
        "A compact layout, fast in a given order: `make_ordered_layout((4,8),(1,0)) = "
        "(4,8):(8,1)`.",
    ),
    operation(
        "make_layout_like",
        "view -> layout",
        make_layout_like,
        "A compact layout with the shape and the order of another: `(4,8):(100,1)` gives "
        "`(4,8):(8,1)`.",
    ),
    operation(
        "make_identity_layout",
        "shape -> layout",
        make_identity_layout,
        "The layout of coordinates themselves: `make_identity_layout(s)(c) = c`.",
    ),
    operation(
        "make_tv_layout",
        "layout, layout -> layout",
        make_tv_layout,
        "Who holds what: `tv(thread, value) = index in the tile`, the inverse of the raked "
        "product.",
    ),
    operation(
        "make_swizzle",
        "-> swizzle",
        Swizzle,
        "A swizzle from bits, base and shift: `S<B,M,S>(i) = i ^ ((i >> S) & mask<B,M>)`.",
        statics=3,
    ),
    operation(
        "make_composed_layout",
        "function, int, layout -> layout",
        make_composed_layout,
        "A function after a layout: `R(c) = inner(offset + outer(c))`.",
    ),
    operation(
        "make_tensor",
        "ptr, any_layout -> tensor",
        make_tensor,
        "A tensor: `T(c) = pointer[layout(c)]`.",
    ),
    operation(
        "alloc",
        "-> tensor",
        _registers,
        "A new tensor in registers or shared memory: `alloc() = T` of its static layout.",
        pure=False,
        given=True,
    ),
    operation(
        "make_fragment_like",
        "tensor -> tensor",
        make_fragment_like,
        "New registers for the elements of a tensor: `shape(R) = shape(T)`, compact.",
        pure=False,
    ),
    operation(
        "recast_ptr",
        "ptr -> ptr",
        recast_ptr,
        "The same address, other elements: `address(recast_ptr(p)) = address(p)`.",
        given=True,
    ),
    operation(
        "recast_tensor",
        "tensor -> tensor",
        recast_tensor,
        "The same memory as other elements: `layout(R) = recast(layout(T))`.",
        given=True,
    ),
    operation(
        "assume_align",
        "ptr -> ptr",
        assume_align,
        "A pointer that the program promises to be aligned: `assume_align(p) = p`.",
        given=True,
    ),
    operation(
        "add_offset",
        "ptr, int -> ptr",
        add_offset,
        "A pointer so many elements further: `add_offset(p, i)[j] = p[i + j]`.",
    ),
)
"""The operations of this chapter."""

StaticOp = OPERATIONS[0]
"""`cute.static`."""
