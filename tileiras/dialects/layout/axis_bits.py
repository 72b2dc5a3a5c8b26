"""Which registers, lanes and warps lie along one axis of a tile: what reductions and scans ask.

Everything here wants unit layouts: each input bit moves one bit of the tile's coordinates, no two
the same one, or none at all (copies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import Coordinate


@dataclass(frozen=True)
class AxisBit:
    """Bit `bit` of the input dim `unit` is bit `position` of the coordinate along the axis."""

    position: int
    unit: str
    bit: int


def is_unit(layout: LinearLayout) -> bool:
    """Whether every input bit is a bit of the tile's index of its own, or makes copies."""
    moving = [vector for vector in layout.all_vectors() if vector]
    return len(set(moving)) == len(moving) and all(v & (v - 1) == 0 for v in moving)


def axis_bits(layout: LinearLayout, axis: int) -> tuple[AxisBit, ...]:
    """The input bits along `axis`, lowest coordinate bit first."""
    found = [
        AxisBit(vector[axis].bit_length() - 1, unit, bit)
        for unit, vectors in layout.bases
        for bit, vector in enumerate(vectors)
        if vector[axis]
    ]
    return tuple(sorted(found, key=lambda bit: bit.position))


def along_axis_first(layout: LinearLayout, axis: int, vector: int | None = None) -> LinearLayout:
    """A unit layout of the same tile whose axis bits are registers, then lanes, then warps.

    `vector` elements along the axis are in each thread, or as many as leave no thread idle.
    """
    warps = layout.in_size("warp")
    if vector is None:
        vector = max(1, min(layout.shape[axis], layout.size // (32 * warps)))
    others = [dim for dim in reversed(range(layout.rank)) if dim != axis]
    return blocked(layout.shape, (axis, *others), vector, warps)


def without_register_bit(layout: LinearLayout, bit: int) -> LinearLayout:
    """The layout of the registers in which one bit is fixed."""
    bases = dict(layout.index_bases)
    registers = bases["register"]
    bases["register"] = registers[:bit] + registers[bit + 1 :]
    return LinearLayout.from_index_bases(bases, layout.shape)


def without_lane_bit(layout: LinearLayout, bit: int) -> LinearLayout:
    """The layout in which lanes that differ in one bit hold copies."""
    bases = dict(layout.index_bases)
    lanes = list(bases["lane"])
    lanes[bit] = 0
    bases["lane"] = tuple(lanes)
    return LinearLayout.from_index_bases(bases, layout.shape)


def bit_of_stride(layout: LinearLayout, axis: int, unit: str, stride: int) -> int | None:
    """The bit of the registers or lanes that moves by a stride along an axis, None without one."""
    for bit in axis_bits(layout, axis):
        if bit.unit == unit and 1 << bit.position == stride:
            return bit.bit
    return None


def without_stride(layout: LinearLayout, axis: int, unit: str, stride: int) -> LinearLayout:
    """The layout once elements that lie a stride apart are combined, in registers or lanes.

    LayoutError if they are not told apart by a bit of their own.
    """
    bit = bit_of_stride(layout, axis, unit, stride)
    if bit is None:
        raise LayoutError(f"no bit of {unit} moves by {stride} along dim {axis} of {layout}")
    without = without_register_bit if unit == "register" else without_lane_bit
    return without(layout, bit)


def with_copies(layout: LinearLayout, axis: int, units: Sequence[str]) -> LinearLayout:
    """The layout after the axis bits of some input dims have come to hold copies."""

    def forget(unit: str, vector: Coordinate) -> Coordinate:
        if unit in units and vector[axis]:
            return (0,) * layout.rank
        return vector

    return _mapped(layout, layout.shape, forget)


def compressed(layout: LinearLayout, axis: int) -> LinearLayout:
    """The same input bits on a tile that has only the axis coordinates which they reach."""
    bits = axis_bits(layout, axis)
    rank_of = {bit.position: rank for rank, bit in enumerate(bits)}
    shape = _resized(layout.shape, axis, 1 << len(bits))

    def compress(_: str, vector: Coordinate) -> Coordinate:
        if not vector[axis]:
            return vector
        return _resized(vector, axis, 1 << rank_of[vector[axis].bit_length() - 1])

    return _mapped(layout, shape, compress)


def totals_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """Where the totals of a scan's warps lie: in all lanes of each; the axis is one of warps."""
    registers = [bit.bit for bit in axis_bits(layout, axis) if bit.unit == "register"]
    for bit in sorted(registers, reverse=True):
        layout = without_register_bit(layout, bit)
    return compressed(with_copies(layout, axis, ("lane",)), axis)


def gathered_in_registers(layout: LinearLayout, axis: int) -> LinearLayout:
    """As `layout`, but every thread holds the whole axis, in its lowest registers in order."""
    rest = with_copies(layout, axis, ("lane", "warp"))
    bases = dict(rest.bases)
    zero = (0,) * layout.rank
    steps = [_resized(zero, axis, 1 << bit) for bit in range(layout.shape[axis].bit_length() - 1)]
    kept = [vector for vector in bases["register"] if not vector[axis]]
    bases["register"] = (*steps, *kept)
    return LinearLayout(bases, layout.shape)


def _resized(values: tuple[int, ...], axis: int, value: int) -> tuple[int, ...]:
    """The tuple with one entry replaced."""
    return (*values[:axis], value, *values[axis + 1 :])


def _mapped(
    layout: LinearLayout, shape: Sequence[int], change: Callable[[str, Coordinate], Coordinate]
) -> LinearLayout:
    """The layout with every basis vector changed."""
    bases = {unit: [change(unit, vector) for vector in vectors] for unit, vectors in layout.bases}
    return LinearLayout(bases, shape)
