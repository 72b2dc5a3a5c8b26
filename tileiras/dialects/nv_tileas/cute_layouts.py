"""Layouts of nv_tileas as CuTe's: of registers, of shared memory, of tensor memory.

    registers        (thread, value) -> index in the tile, column-major
    shared memory    coordinate in the tile -> offset in elements, under a swizzle
    tensor memory    coordinate in the tile -> address: lane in the upper half, column in the lower

Only what shows layouts imports this; compiling needs none of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Basis, Leaf
from tileiras.dialects.cute.algebra.linear import distributed_from_linear, shared_from_linear
from tileiras.dialects.cute.algebra.swizzles import AnyLayout
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.shared import swizzled_panels
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas.memdesc import (
    MemDescType,
    NvmmaSharedAttr,
    PairSharedAttr,
    TensorMemoryAttr,
)

TMEM_LANE = 1 << 16
"""What a lane adds to an address of tensor memory (PTX ISA, "Tensor Memory Addressing")."""


def thread_value_text(layout: LinearLayout) -> str:
    """(thread, value) -> index in the tile; the bits themselves where no strides say that."""
    try:
        return str(distributed_from_linear(layout))
    except AlgebraError:
        return str(layout)


def smem_bits(type: MemDescType) -> LinearLayout | None:
    """{offset} -> coordinates of a tile that TMA writes; None of one that lies in another way.

    Of a tile that a pair of CTAs shares, of the half that one has.
    """
    if not isinstance(type.encoding, NvmmaSharedAttr | PairSharedAttr):
        return None
    bits = storage_bits(type.element_type)
    return swizzled_panels(type.own_shape, type.major, bits, type.swizzle, type.atom)


def smem_layout(type: MemDescType) -> AnyLayout | None:
    """Coordinate -> offset of a tile that TMA writes; None of one that lies in another way."""
    bits = smem_bits(type)
    return None if bits is None else shared_from_linear(bits)


def tmem_layout(type: MemDescType) -> Layout | None:
    """Coordinate -> address of sums in tensor memory: rows are lanes, blocks of rows lie side by
    side; None of what lies in another memory.
    """
    if not isinstance(type.encoding, TensorMemoryAttr):
        return None
    rows, width = type.shape
    block = type.encoding.block_m.data
    lanes = (Layout(16, TMEM_LANE), Layout(4, 32 * TMEM_LANE))
    first = Layout(block, TMEM_LANE) if block == 128 else Layout.of(lanes)
    if rows > block:
        first = Layout.of([first, Layout(rows // block, width)])
    return Layout.of([first, Layout(width, 1)])


def coordinate_layout(columns: Sequence[Sequence[int]]) -> Layout:
    """The bits of a number -> coordinates, with strides that name the dim: `8:2@1`.

    Each bit moves one dim at most. Neighbouring bits are one mode; a bit that only makes copies has
    stride 0.
    """
    modes: list[tuple[int, int, int]] = []
    for vector in columns:
        moved = [(axis, step) for axis, step in enumerate(vector) if step]
        axis, step = moved[0] if moved else (0, 0)
        extent, last_axis, last_step = modes[-1] if modes else (1, -1, -1)
        if modes and last_axis == axis and step == extent * last_step:
            modes[-1] = (2 * extent, axis, last_step)
        else:
            modes.append((2, axis, step))
    if not modes:
        return Layout(1, 0)
    layouts = [Layout(extent, _stride(axis, step)) for extent, axis, step in modes]
    return layouts[0] if len(layouts) == 1 else Layout.of(layouts)


def _adds_up(vectors: Sequence[Sequence[int]]) -> bool:
    """Whether each bit moves one dim, and no two the same bit of a coordinate."""
    taken: dict[int, int] = {}
    for vector in vectors:
        moved = [(axis, step) for axis, step in enumerate(vector) if step]
        if len(moved) > 1 or any(taken.get(axis, 0) & step for axis, step in moved):
            return False
        for axis, step in moved:
            taken[axis] = taken.get(axis, 0) | step
    return True


def _stride(axis: int, step: int) -> Leaf:
    """So many elements along a dim."""
    return Basis((((axis,), step),)) if step else 0


def decomposed(layout: LinearLayout) -> list[tuple[str, str]]:
    """A layout of registers, taken apart: what it is for whom, each in CuTe's notation.

        tv      (thread, value) -> index in the tile
        lane    lane of a warp -> coordinates
        warp    warp of the CTA -> coordinates
        value   value of a thread -> coordinates

    Where elements are held several times, `copies` says how often. Coordinates add up; where
    bits meet by ^, which strides cannot say, the coordinates of each bit are given instead.
    """
    parts = [("tv", thread_value_text(layout))]
    bases = dict(layout.bases)
    adds_up = _adds_up([vector for _, columns in layout.bases for vector in columns])
    for name, shown in (("lane", "lane"), ("warp", "warp"), ("register", "value")):
        columns = bases.get(name, ())
        if adds_up:
            parts.append((shown, str(coordinate_layout(columns))))
        else:
            vectors = " ^ ".join(text_of(tuple(vector)) for vector in columns)
            parts.append((shown, f"bits {vectors or 0}"))
    held = sum(layout.in_bits(name) for name in layout.in_dims)
    copies = (1 << held) // layout.size
    if copies > 1:
        parts.append(("copies", str(copies)))
    return parts
