"""Layouts of tiles that are reduced or scanned: which warps have which part of the combined dim.

Accesses place warps where lanes end: along a row, or over the next rows. What a loop combines in
every iteration then goes on through shared memory and a barrier. The same access serves where warps
have columns of their own, and where they have a part of the row each, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.axis_bits import AxisBit, axis_bits, is_unit

SECTOR_BITS = 8 * 32
"""Fixed: what memory moves at least (CUDA C++ Best Practices Guide, "Coalesced Access")."""
LEAST_BITS = 32
"""Fixed: of what cp.async copies (PTX ISA)."""


def warps_beside(layout: LinearLayout, axis: int, element_bits: int) -> LinearLayout:
    """The warps along `axis` change places with lanes along the dim that is fastest for lanes.

    As many as leave whole sectors to the lanes of a warp. Then lanes get the registers of columns
    for those of the row, as long as that saves shuffles. The same layout if no warps move, and
    where shuffles would be more than elements.

        64x64 f32, 4 warps; before   lane 16x4 elements of a row, 2 rows; warps 4 times 2 rows
                            after    lane 4x4 elements of a row, 8 rows; warps 4 times 16 columns
        64x64 f16, 4 warps; before   lane 8x8 elements of a row, 4 rows; warps 4 times 4 rows
                            then     lane 8x2 elements of a row, 16 rows: 32 shuffles
                            after    lane 4x4 elements of a row, 8 rows: 12 shuffles
    """
    fast = first_lane_dim(layout)
    if not is_unit(layout) or fast is None or fast == axis:
        return layout
    lanes = [bit for bit in axis_bits(layout, fast) if bit.unit == "lane"]
    warps = [bit for bit in axis_bits(layout, axis) if bit.unit == "warp"]
    spare = [bit for bit in lanes if element_bits << bit.position >= SECTOR_BITS]
    count = min(len(spare), len(warps))
    if not count:
        return layout
    bases = {unit: list(vectors) for unit, vectors in layout.bases}
    # What is left of the row stays with the lowest lanes; what they get goes along the axis.
    given, taken = spare[-count:], warps[-count:]
    for lane, warp in zip(given, taken, strict=True):
        bases["lane"][lane.bit], bases["warp"][warp.bit] = (
            bases["warp"][warp.bit],
            bases["lane"][lane.bit],
        )
    order = {fast: 0, axis: 1}
    bases["lane"].sort(key=lambda vector: [(order.get(d, 2), s) for d, s in enumerate(vector) if s])
    moved = _with_fewer_shuffles(LinearLayout(bases, layout.shape), axis, fast, element_bits)
    return layout if _shuffles(moved, axis) > moved.in_size("register") else moved


def _with_fewer_shuffles(
    layout: LinearLayout, axis: int, fast: int, element_bits: int
) -> LinearLayout:
    """Registers of the fast dim change places with lanes along the axis while that saves.

    An access then moves fewer elements, and there are more of them.
    """
    while True:
        registers = _in_units(axis_bits(layout, fast), "register")
        lanes = _in_units(axis_bits(layout, axis), "lane")
        if not registers or not lanes or element_bits << registers[-1].position < LEAST_BITS:
            return layout
        bases = {unit: list(vectors) for unit, vectors in layout.bases}
        mine, its = registers[-1].bit, lanes[-1].bit
        bases["register"][mine], bases["lane"][its] = bases["lane"][its], bases["register"][mine]
        order = {fast: 0, axis: 1}
        for unit in ("register", "lane"):
            bases[unit].sort(key=lambda v: [(order.get(d, 2), s) for d, s in enumerate(v) if s])
        moved = LinearLayout(bases, layout.shape)
        if _exchanged(moved, axis, fast) >= _exchanged(layout, axis, fast):
            return layout
        layout = moved


def _exchanged(layout: LinearLayout, axis: int, fast: int) -> int:
    """Shuffles of a reduction in each thread, and its accesses, each of which copies and reads."""
    run = 1 << len(_in_units(axis_bits(layout, fast), "register"))
    return _shuffles(layout, axis) + 2 * layout.in_size("register") // run


def rows_for_warps(layout: LinearLayout, axis: int) -> LinearLayout:
    """Warps along `axis`, which accesses go along, change places with registers of other rows.

    A thread then has fewer rows and more of each, and lanes exchange fewer partial results.

        4x8192 f16, 8 warps; before   registers 4 rows, 32 of each; 8 warps along a row: 20 shuffles
                             after    registers 128 of one row; 4 times 2 warps: 5 shuffles
    """
    if not is_unit(layout) or first_lane_dim(layout) != axis:
        return layout
    warps = [bit for bit in axis_bits(layout, axis) if bit.unit == "warp"]
    bases = {unit: list(vectors) for unit, vectors in layout.bases}
    rows = [n for n, v in enumerate(bases["register"]) if any(v) and not v[axis]]
    count = min(len(warps), len(rows))
    if not count:
        return layout
    for warp, row in zip(warps[-count:], rows[:count], strict=True):
        bases["warp"][warp.bit], bases["register"][row] = (
            bases["register"][row],
            bases["warp"][warp.bit],
        )
    bases["register"].sort(key=lambda vector: (not vector[axis], vector))
    return LinearLayout(bases, layout.shape)


def warps_last(layout: LinearLayout, axis: int) -> LinearLayout:
    """Warps have the highest bits along `axis`; registers and lanes keep their order below.

    Where an access does not go along the axis registers have the lowest: of what a thread has,
    lanes exchange one total.

        1x8192 f32, 4 warps; before   4 in registers, 32 lanes, 4 warps, 16 in registers
                             after    4 in registers, 32 lanes, 16 in registers, 4 warps
    """
    if not is_unit(layout):
        return layout
    found = axis_bits(layout, axis)
    if first_lane_dim(layout) == axis:
        ordered = _in_units(found, "register", "lane") + _in_units(found, "warp")
    else:
        units = ("register", "lane", "warp")
        ordered = [bit for unit in units for bit in _in_units(found, unit)]
    bases = {unit: list(vectors) for unit, vectors in layout.bases}
    for bit, place in zip(ordered, found, strict=True):
        vector = [0] * layout.rank
        vector[axis] = 1 << place.position
        bases[bit.unit][bit.bit] = tuple(vector)
    return LinearLayout(bases, layout.shape)


def _shuffles(layout: LinearLayout, axis: int) -> int:
    """How many a reduction along an axis takes in each thread, over lanes."""
    beside = [vector for vector in layout.basis("register") if not vector[axis]]
    lanes = [bit for bit in axis_bits(layout, axis) if bit.unit == "lane"]
    return len(lanes) << len(beside)


def first_lane_dim(layout: LinearLayout) -> int | None:
    """The dim along which the lowest lane bit moves, None if it makes copies."""
    return next((dim for dim, step in enumerate(layout.basis("lane")[0]) if step), None)


def _in_units(bits: Sequence[AxisBit], *units: str) -> list[AxisBit]:
    return [bit for bit in bits if bit.unit in units]
