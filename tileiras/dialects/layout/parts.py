"""Layouts of parts: slices of a tile and halves of one."""

from __future__ import annotations

from tileiras.dialects.layout.axis_bits import without_register_bit
from tileiras.dialects.layout.linear_layout import LinearLayout

Shape = tuple[int, ...]


def within_slice(layout: LinearLayout, shape: Shape) -> LinearLayout:
    """Coordinates relative to the slice of `shape` in which an element lies."""
    bases = {
        unit: [tuple(c % size for c, size in zip(vector, shape, strict=True)) for vector in vectors]
        for unit, vectors in layout.bases
    }
    return LinearLayout(bases, shape)


def slice_axis(layout: LinearLayout, register_bit: int, shape: Shape) -> int | None:
    """The axis along which a register bit moves from slice to slice, None if it moves within."""
    vector = layout.basis("register")[register_bit]
    return next((axis for axis, step in enumerate(vector) if step >= shape[axis]), None)


def one_slice_in_registers(layout: LinearLayout, shape: Shape) -> LinearLayout:
    """The layout once each thread has chosen the registers of one slice."""
    for bit in reversed(range(layout.in_bits("register"))):
        if slice_axis(layout, bit, shape) is not None:
            layout = without_register_bit(layout, bit)
    return layout


def tells_slices_apart(layout: LinearLayout, shape: Shape) -> bool:
    """Whether threads hold elements of different slices."""
    vectors = (*layout.basis("lane"), *layout.basis("warp"))
    return any(step >= size for vector in vectors for step, size in zip(vector, shape, strict=True))


def splitting_bit(layout: LinearLayout, axis: int) -> int | None:
    """The register bit that alone moves from the first half along an axis to the second."""
    top = top_of(layout.shape, axis)
    moving = [
        (unit, bit, vector)
        for unit, vectors in layout.bases
        for bit, vector in enumerate(vectors)
        if vector[axis] & top[axis]
    ]
    match moving:
        case [("register", bit, vector)] if vector == top:
            return bit
        case _:
            return None


def top_of(shape: Shape, axis: int) -> Shape:
    """The first element of the second half along an axis."""
    return tuple(shape[axis] // 2 if dim == axis else 0 for dim in range(len(shape)))


def half_of(layout: LinearLayout, axis: int, bit: int) -> LinearLayout:
    """The first half along an axis, which a register bit tells from the second."""
    shape = (*layout.shape[:axis], layout.shape[axis] // 2, *layout.shape[axis + 1 :])
    return LinearLayout(dict(without_register_bit(layout, bit).bases), shape)


def twice_in_registers(half: LinearLayout, axis: int) -> LinearLayout:
    """Twice a tile along an axis, the second one in the upper half of the registers."""
    shape = (*half.shape[:axis], half.shape[axis] * 2, *half.shape[axis + 1 :])
    bases = dict(half.bases)
    bases["register"] = (*bases["register"], top_of(shape, axis))
    return LinearLayout(bases, shape)
