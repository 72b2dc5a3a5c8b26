"""Divides: a layout cut into tiles. The first mode is a tile, the second the tiles.

For a layout of shape (M, N) and the tiler <TM, TN>, with rests RM, RN:

    logical_divide   ((TM,RM), (TN,RN))
    zipped_divide    ((TM,TN), (RM,RN))
    tiled_divide     ((TM,TN), RM, RN)
    flat_divide      (TM, TN, RM, RN)

Source: CUTLASS documentation, "CuTe Layout Algebra", Division.
"""

from __future__ import annotations

from collections.abc import Callable

from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.inverses import complement
from tileiras.dialects.cute.algebra.layout import Layout, Tiler, as_layout, by_mode

Splitter = Callable[[Layout, Tiler], Layout]


def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """`layout` after (tiler, complement of the tiler): a tile, and where the tiles begin."""
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, logical_divide)
    tile = as_layout(tiler)
    return composition(layout, Layout.of([tile, complement(tile, layout.size)]))


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """As `logical_divide` with the tile modes and the rest modes gathered: always of rank 2."""
    return zipped(logical_divide, layout, tiler)


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """As `zipped_divide` with the rest modes at the top."""
    tile, rest = zipped_divide(layout, tiler).modes
    return Layout.of([tile, *rest.modes])


def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """As `zipped_divide` with all modes at the top."""
    tile, rest = zipped_divide(layout, tiler).modes
    return Layout.of([*tile.modes, *rest.modes])


def zipped(split: Splitter, layout: Layout, tiler: Tiler | None) -> Layout:
    """`split` by mode, as ((first parts), (second parts, modes without a tiler))."""
    if tiler is None:
        return Layout.of([Layout(1, 0), layout])
    if not isinstance(tiler, tuple):
        return split(layout, tiler)
    parts = layout.modes
    if len(tiler) > len(parts):
        raise AlgebraError(f"a tiler of {len(tiler)} modes does not fit {layout}")
    pieces = [zipped(split, part, t) for part, t in zip(parts, tiler, strict=False)]
    firsts = Layout.of(piece[0] for piece in pieces)
    return Layout.of([firsts, Layout.of([*(p[1] for p in pieces), *parts[len(tiler) :]])])
