"""Copies and products of tensors, and how threads share them: tiled copies, tiled MMAs.

A tiled copy is an atom and a TV layout, (thread, value) -> index in a tile. A tiled MMA is an atom,
whose operands are (thread, value) -> index as well, and the layout of the atoms of a tile: which
group of threads computes which of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal

from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.coordinates import crd2idx, slice_and_offset
from tileiras.dialects.cute.algebra.divides import zipped_divide
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Leaf, static
from tileiras.dialects.cute.algebra.linear import distributed_from_linear
from tileiras.dialects.cute.algebra.partitions import tv_layout
from tileiras.dialects.cute.construction import make_fragment_like
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import (
    CopyAtom,
    MmaAtom,
    Tensor,
    TiledCopy,
    TiledMma,
    element_bits,
    for_thread,
    is_static,
    on_layout,
    plain_layout,
)
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.mma import Operand, mma_fragments

OPERANDS: dict[Operand, tuple[int, int]] = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}
"""The dims of (M, N, K) that each operand has, in CuTe's order: A is (M,K), B (N,K), C (M,N)."""
Scales = Literal["SFA", "SFB"]
SCALES: dict[Scales, tuple[int, int]] = {"SFA": (0, 2), "SFB": (1, 2)}
"""Those of scales, whose K counts blocks."""


# Copies ---------------------------------------------------------------------------------------


def make_tiled_copy(atom: CopyAtom, threads: Layout, values: Layout) -> TiledCopy:
    """The tiled copy of threads that hold values each, both (coordinates) -> number."""
    layout, tile = tv_layout(threads, values)
    extents = tile if isinstance(tile, tuple) else (tile,)
    return make_tiled_copy_tv(atom, layout, extents)


def make_tiled_copy_tv(atom: CopyAtom, layout: Layout, tile: Any) -> TiledCopy:
    """The tiled copy of a TV layout in a tile."""
    extents = tile if isinstance(tile, tuple) else (tile,)
    if layout.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {layout}")
    if not all(isinstance(extent, int) for extent in extents) or not is_static(layout):
        raise AlgebraError("a tiled copy has a static TV layout and a tile (M,N,..)")
    if set(layout.indices) != set(range(prod(extents))):
        raise AlgebraError(f"{layout} does not cover the tile {text_of(extents)}")
    return TiledCopy(atom, layout, extents)


def partition(copy: TiledCopy, view: Any, thread: Leaf) -> Any:
    """The elements of one thread: modes (V, RM, RN), RM x RN tiles."""

    def change(layout: Layout) -> tuple[Layout, Leaf]:
        tiles = _tiles(layout, copy.tile)
        parts = Layout.of([composition(tiles[0], copy.layout), *tiles.modes[1:]])
        threads = parts[0][0]
        size = copy.layout[0].static_size
        return for_thread(thread, size, lambda number: _of_thread(parts, number), threads)

    return on_layout(view, change)


def _tiles(layout: Layout, tile: tuple[int, ...]) -> Layout:
    """(tile, RM, RN): AlgebraError where the layout has fewer modes than the tile, or is cut."""
    if layout.rank < len(tile):
        raise AlgebraError(f"a tile {text_of(tile)} has more modes than {layout}")
    for mode, extent in zip(layout.modes, tile, strict=False):
        if isinstance(mode.size, int) and mode.size % extent:
            raise AlgebraError(f"{layout} is not made of whole tiles {text_of(tile)}")
    divided = zipped_divide(layout, tile)
    return Layout.of([divided[0], *divided[1].modes])


def _of_thread(parts: Layout, thread: int) -> tuple[Layout, Leaf]:
    """((thread, value), rest ..) at a thread: (value, rest ..)."""
    free = (None,) * (parts.rank - 1)
    return slice_and_offset(((thread, None), *free), parts)


def retile(copy: TiledCopy, view: Tensor) -> Tensor:
    """Registers that another tiled operation has partitioned, as (V, rest) of this copy."""
    values = copy.atom.held if copy.atom.is_matrix else copy.layout[1].static_size

    def change(layout: Layout) -> Layout:
        if layout.static_size % values:
            raise AlgebraError(f"{layout} does not hold vectors of {values} values")
        return composition(layout, Layout.compact((values, layout.static_size // values)))

    if view.engine.space != "rmem":
        raise AlgebraError(f"registers are retiled, not {view.engine.space}")
    return on_layout(view, change)


# Products -------------------------------------------------------------------------------------


def make_tiled_mma(atom: MmaAtom, layout: Layout) -> TiledMma:
    """The atom, repeated over (M, N, K); indices of the layout number groups of threads."""
    if layout.rank != 3:
        raise AlgebraError(f"the atoms of a tile have a layout (M,N,K), found {layout}")
    groups = static(layout.cosize, "the number of groups of threads")
    if not is_static(layout) or set(layout.indices) != set(range(groups)):
        raise AlgebraError(f"{layout} does not number groups of threads from 0 on")
    atom_layout(atom, "C")
    return TiledMma(atom, layout)


def operand_shape(atom: MmaAtom, which: Operand | Scales) -> tuple[int, int]:
    """The extents of an operand of an atom; AlgebraError for scales of one that has none."""
    first, second = (OPERANDS | SCALES)[which]
    if which not in SCALES:
        return atom.shape[first], atom.shape[second]
    if not atom.scale:
        raise AlgebraError(f"the products of {atom} have no scales")
    return atom.shape[first], atom.shape[second] // atom.block


def _scale_layout(atom: MmaAtom, which: Scales) -> Layout:
    """(thread, value) -> index of scales: a thread has all of a row of A or a column of B.

    PTX ISA, "Block Scaling for mma.sync", thread-id 0: of four lanes the first two have rows g and
    g + 8 of A, the first has column g of B. The others have copies here.
    """
    if atom.kind != "warp":
        raise AlgebraError(f"the scales of '{atom.kind}' are in no registers of threads")
    extent, blocks = operand_shape(atom, which)
    threads = ((2, 2, 8), (8, 0, 1)) if which == "SFA" else ((4, 8), (0, 1))
    return Layout((threads[0], blocks), (threads[1], extent))


def atom_layout(atom: MmaAtom, which: Operand | Scales) -> Layout:
    """(thread, value) -> index of an operand of an atom."""
    if which == "SFA" or which == "SFB":
        return _scale_layout(atom, which)
    m, n, k = atom.shape
    if atom.kind == "universal":
        if atom.shape != (1, 1, 1):
            raise AlgebraError(f"the universal atom is (1,1,1), found {text_of(atom.shape)}")
        return Layout((1, 1), (0, 0))
    if which == "C" and atom.family in ("warpgroup", "tcgen05"):
        return _accumulator(atom)
    if atom.kind != "warp":
        raise AlgebraError(f"the operands of '{atom.kind}' are in no registers of threads")
    try:
        fragments = mma_fragments(m, n, k, element_bits(atom.elements[0]))
        linear = fragments.operand(which)
    except LayoutError as error:
        raise AlgebraError(str(error)) from error
    if which == "B":
        linear = linear.permute((1, 0))
    return distributed_from_linear(linear)


def _accumulator(atom: MmaAtom) -> Layout:
    """The accumulator of a warpgroup as its registers hold it.

    PTX ISA, "Register Fragments" of wgmma.m64nNk16 (D); of tcgen05, a thread has a row: what
    "tcgen05.ld" of shape 32x32b gives. Of a pair of CTAs the second one's threads follow the
    first's; of 128 rows ("Data path layout") a CTA has 64, half of the columns in lanes 64 on.
    """
    m, n, _ = atom.shape
    if atom.ctas == 2:
        if m not in (128, 256) or n % 16 or not 16 <= n <= 256:
            raise AlgebraError(f"{atom} is no atom of 128 or 256 rows and 16 to 256 columns")
        if m == 256:
            return Layout((m, n), (1, m))
        return Layout(((64, 2, 2), n // 2), ((1, m * n // 2, 64), m))
    rows = 64 if atom.kind == "warpgroup" else 128
    if m != rows or n % 8 or not 8 <= n <= 256:
        raise AlgebraError(f"{atom} is no atom of {rows} rows and 8 to 256 columns")
    if atom.kind == "tcgen05":
        return Layout((rows, n), (1, rows))
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((2 * m, 1, 16), (m, 8, 8 * m)))


def threads_of(mma: TiledMma) -> int:
    """The number of threads of a tiled MMA."""
    groups = mma.layout.cosize
    return int(str(groups)) * atom_layout(mma.atom, "C")[0].static_size


def tile_of(mma: TiledMma, which: Operand | Scales) -> tuple[int, ...]:
    """The tile of an operand that all threads compute at once."""
    extents = [mode.static_size for mode in mma.layout.modes]
    dims, shape = (OPERANDS | SCALES)[which], operand_shape(mma.atom, which)
    return tuple(size * extents[dim] for size, dim in zip(shape, dims, strict=True))


def _partition_operand(which: Operand | Scales) -> Callable[..., Any]:
    """The elements of one thread of operand `which`: modes (V, rest, rest)."""

    def apply(mma: TiledMma, view: Any, thread: Leaf) -> Any:
        values = atom_layout(mma.atom, which)
        lanes = values[0].static_size

        def change(layout: Layout) -> tuple[Layout, Leaf]:
            if layout.rank != 2:
                raise AlgebraError(f"operand {which} has two modes, found {layout}")
            parts = _operand_parts(mma, which, layout, values)
            places = places_of(mma, which)
            lane, atom = parts[0][0], parts[1]

            def offset(number: int) -> Leaf:
                return crd2idx(places[number // lanes], atom) + lane(number % lanes)

            def part(number: int) -> tuple[Layout, Leaf]:
                free = (None,) * (parts.rank - 2)
                chosen = (number % lanes, None), places[number // lanes]
                return slice_and_offset((*chosen, *free), parts)

            return for_thread(thread, threads_of(mma), part, offset)

        return on_layout(view, change)

    return apply


def _operand_parts(
    mma: TiledMma, which: Operand | Scales, layout: Layout, values: Layout
) -> Layout:
    """((thread, value), (atom in the tile per dim), rest, rest)."""
    tiles = _tiles(layout, tile_of(mma, which))
    atoms = zipped_divide(tiles[0], operand_shape(mma.atom, which))
    return Layout.of([composition(atoms[0], values), atoms[1], *tiles.modes[1:]])


def places_of(mma: TiledMma, which: Operand | Scales) -> list[tuple[int, ...]]:
    """By group of threads, the atom of the operand's tile that it has."""
    extents = [mode.static_size for mode in mma.layout.modes]
    found: dict[Leaf, tuple[int, ...]] = {}
    for number, group in enumerate(mma.layout.indices):
        row, rest = number % extents[0], number // extents[0]
        place = (row, rest % extents[1], rest // extents[1])
        found.setdefault(group, tuple(place[dim] for dim in (OPERANDS | SCALES)[which]))
    return [found[group] for group in range(len(found))]


def _fragment(which: Operand | Scales) -> Callable[[TiledMma, Tensor], Tensor]:
    """Registers for a partitioned operand."""

    def apply(mma: TiledMma, view: Tensor) -> Tensor:
        values = atom_layout(mma.atom, which)[1].static_size
        layout = plain_layout(view)
        if layout[0].static_size != values:
            raise AlgebraError(
                f"operand {which} has {values} values in a thread, found {layout[0]}"
            )
        wanted = mma.atom.element_of(which)
        if view.engine.element != wanted:
            raise AlgebraError(
                f"operand {which} has elements {wanted}, found {view.engine.element}"
            )
        # Compact: the values of an atom are in the order of the instruction's registers.
        compact = Tensor(view.engine, Layout.compact(layout.shape))
        return Tensor(make_fragment_like(compact).engine, compact.layout)

    return apply


def tile_size_mnk(mma: TiledMma) -> IntTuple:
    """(M, N, K) of what all threads compute at once."""
    extents = [mode.static_size for mode in mma.layout.modes]
    return tuple(size * extent for size, extent in zip(mma.atom.shape, extents, strict=True))


def tile_size_of_copy(copy: TiledCopy) -> IntTuple:
    """The tile that all threads copy at once."""
    return copy.tile


def _operand_row(which: Operand | Scales, dims: str) -> tuple[type[CuteOp], type[CuteOp]]:
    low = which.lower()
    return (
        operation(
            f"partition_{low}",
            "tiled_mma, view, int -> view",
            _partition_operand(which),
            f"The elements of {which} {dims} that a thread holds: `R(v, i, j) = "
            f"{which}(tile(i, j) + tv(t, v))`.",
        ),
        operation(
            f"make_fragment_{low}",
            "tiled_mma, tensor -> tensor",
            _fragment(which),
            f"New registers for a partitioned {which}: `shape(R) = shape(partition_{low})`.",
            pure=False,
        ),
    )


OPERATIONS: tuple[type[CuteOp], ...] = (
    operation(
        "make_tiled_copy",
        "copy_atom, layout, layout -> tiled_copy",
        make_tiled_copy,
        "Threads and values of a copy: `tv(t, v) = index where threads = t and values = v`.",
    ),
    operation(
        "make_tiled_copy_tv",
        "copy_atom, layout, shape|coord -> tiled_copy",
        make_tiled_copy_tv,
        "A copy with a TV layout: `R(t, v) = tv(t, v)` in the tile.",
    ),
    operation(
        "partition_s",
        "tiled_copy, view, int -> view",
        partition,
        "What a thread reads: `R(v, i, j) = T(tile(i, j) + tv(t, v))`.",
    ),
    operation(
        "partition_d",
        "tiled_copy, view, int -> view",
        partition,
        "What a thread writes: `R(v, i, j) = T(tile(i, j) + tv(t, v))`.",
    ),
    operation(
        "retile",
        "tiled_copy, tensor -> tensor",
        retile,
        "Registers as vectors of a copy: `retile(T)(v, i) = T(v + V * i)`.",
    ),
    operation(
        "copy_tile",
        "tiled_copy -> shape",
        tile_size_of_copy,
        "The tile that all threads copy: `copy_tile(c) = shape of the image of tv`.",
    ),
    operation(
        "make_tiled_mma",
        "mma_atom, layout -> tiled_mma",
        make_tiled_mma,
        "An atom repeated over (M,N,K): `group of threads = layout(m, n, k)`.",
    ),
    operation(
        "mma_tile",
        "tiled_mma -> shape",
        tile_size_mnk,
        "(M,N,K) of all threads: `mma_tile(m)_i = shape(atom)_i * shape(layout)_i`.",
    ),
    *_operand_row("A", "(M,K)"),
    *_operand_row("B", "(N,K)"),
    *_operand_row("C", "(M,N)"),
    *_operand_row("SFA", "(M,blocks of K)"),
    *_operand_row("SFB", "(N,blocks of K)"),
)
"""The operations of this chapter."""
