"""Fragments of `mma.sync`, and how they tile larger operands.

Each row states, for one warp, which element of the operand each register of each lane holds, in the
register order of the instruction. Source: PTX ISA 9.x, section "Warp-level matrix instructions",
"Matrix fragments for mma.<shape>"; the formulas there use groupID = lane / 4 and
threadID_in_group = lane % 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout, checked_shape

Operand = Literal["A", "B", "C"]


@dataclass(frozen=True)
class MmaFragments:
    """The operand layouts of one `mma.sync` shape: A is MxK, B is KxN, C and D are MxN.

    Construction checks that the shapes fit and that each operand is covered exactly once.
    """

    name: str
    a: LinearLayout
    b: LinearLayout
    c: LinearLayout

    def __post_init__(self) -> None:
        if self.a.shape[0] != self.c.shape[0] or self.b.shape[1] != self.c.shape[1]:
            raise LayoutError(f"{self.name}: A or B does not fit C")
        if self.a.shape[1] != self.b.shape[0]:
            raise LayoutError(f"{self.name}: A and B disagree on K")
        for layout in (self.a, self.b, self.c):
            if layout.in_bits("lane") != LANE_BITS:
                raise LayoutError(f"{self.name}: a fragment has 32 lanes, found {layout}")
            if not (layout.is_injective and layout.is_surjective):
                raise LayoutError(f"{self.name}: {layout} does not cover its matrix exactly once")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K) of the instruction."""
        return (*self.c.shape, self.a.shape[1])  # pyright: ignore[reportReturnType]

    def operand(self, which: Operand) -> LinearLayout:
        """The fragment of operand "A", "B" or "C" (D has the layout of C)."""
        return {"A": self.a, "B": self.b, "C": self.c}[which]


def _fragment(
    shape: tuple[int, int], register: Sequence[Sequence[int]], lane: Sequence[Sequence[int]]
) -> LinearLayout:
    """A one-warp fragment from its register and lane bases."""
    return LinearLayout({"register": register, "lane": lane}, shape)


_FAMILIES = {8: "s8", 16: "f16", 32: "tf32", 64: "f64"}


@lru_cache(maxsize=64)
def mma_fragments(m: int, n: int, k: int, element_bits: int) -> MmaFragments:
    """The fragments of `mma.sync` with elements of so many bits (PTX ISA, "Matrix fragments").

    All shapes follow one rule. A register holds what of a row fits 32 bits; four lanes lie beside
    each other along the row, eight along the other dim; then come the rows eight below, then the
    rest of K. B is as A, transposed; C has pairs along a row.

    LayoutError for a shape that is none of an instruction.
    """
    if element_bits not in _FAMILIES:
        raise LayoutError(f"no mma.sync has elements of {element_bits} bits")
    width = max(1, 32 // element_bits)
    inside = [1 << bit for bit in range(width.bit_length() - 1)]
    below = [(8, 0)] if m == 16 else []
    depth = [4 * width << bit for bit in range((k // (4 * width)).bit_length() - 1)]
    return MmaFragments(
        f"m{m}n{n}k{k}.{_FAMILIES[element_bits]}",
        a=_fragment(
            (m, k),
            [*((0, step) for step in inside), *below, *((0, step) for step in depth)],
            _row_lanes(width),
        ),
        b=_fragment((k, n), [(step, 0) for step in (*inside, *depth)], _column_lanes(width)),
        c=_fragment((m, n), [(0, 1), *below], _row_lanes(2)),
    )


def _row_lanes(width: int) -> list[tuple[int, int]]:
    """Four lanes along a row, `width` elements apart; the others pick the row."""
    return [(0, width), (0, 2 * width), (1, 0), (2, 0), (4, 0)]


def _column_lanes(width: int) -> list[tuple[int, int]]:
    """The same along a column."""
    return [(width, 0), (2 * width, 0), (0, 1), (0, 2), (0, 4)]


M16N8K16_F16 = mma_fragments(16, 8, 16, 16)
M16N8K8_TF32 = mma_fragments(16, 8, 8, 32)
M8N8K4_F64 = mma_fragments(8, 8, 4, 64)
M16N8K32_S8 = mma_fragments(16, 8, 32, 8)
_C_16X8 = M16N8K16_F16.c

FRAGMENTS = (M16N8K16_F16, M16N8K8_TF32, M8N8K4_F64, M16N8K32_S8)
"""Every row; shape and elements per thread identify one."""


def mma_operand_layout(
    atom: LinearLayout,
    tile_shape: Sequence[int],
    warps_per_dim: tuple[int, int],
    which: Operand,
) -> LinearLayout:
    """Tiles an operand fragment over a whole tile.

    `warps_per_dim` = (warps along M, warps along N); the warp index is `m + warps_m * n`, so the
    M bits are the low ones. The same pair is given for A, B and C: A is copied over the N warps
    (zero bases), B over the M warps. Warps that the tile is too small for hold copies.

    Register order, which the lowering relies on: the low bits are the registers of one atom;
    above them the repeats along K (A and B) or N (C), then the repeats along M (A, C) or N (B),
    then leading batch dims, last one first. So registers [i * n, (i + 1) * n) with n =
    `atom.in_size("register")` are the fragment of atom i = ((batch * outer repeats) + outer) *
    inner repeats + inner.

    LayoutError if the tile is smaller than the atom.
    """
    shape = checked_shape(tile_shape)
    return _operand_layout(atom, shape, checked_shape(warps_per_dim), which)


def columns_of(plain: LinearLayout, layout: LinearLayout) -> dict[int, int] | None:
    """Which column of a tile each column of its instructions' is, by powers of two.

    `plain` is a sum's layout where they are the same, `layout` another one of it: None if that
    differs by more than the order of columns.
    """
    order: dict[int, int] = {}
    for (_, before), (_, after) in zip(plain.bases, layout.bases, strict=True):
        if len(before) != len(after):
            return None
        for old, new in zip(before, after, strict=True):
            if old[:-1] != new[:-1] or bool(old[-1]) != bool(new[-1]):
                return None
            if order.setdefault(old[-1], new[-1]) != new[-1]:
                return None
    return order


def in_columns(layout: LinearLayout, order: dict[int, int]) -> LinearLayout:
    """A sum's or a right operand's layout in another order of columns (`columns_of`)."""
    bases = {
        unit: [(*vector[:-1], order.get(vector[-1], vector[-1])) for vector in vectors]
        for unit, vectors in layout.bases
    }
    return LinearLayout(bases, layout.shape)


def divides_columns(rows: int, warpgroups: int) -> bool:
    """Whether warpgroups divide the columns of an accumulator, not its rows."""
    return rows == 64 and warpgroups == 2


def wgmma_accumulator(tile_shape: Sequence[int], warpgroups: int) -> LinearLayout:
    """The accumulator of `wgmma.mma_async.m64nNk*` tiled over MxN, warpgroups along M.

    Each warp of a warpgroup holds 16 rows as m16n8 accumulators side by side (PTX ISA, "Register
    fragments for wgmma.mma_async"). One instruction's N is the tile's N, so registers
    [i * N / 2, (i + 1) * N / 2) are the fragment of the i-th 64 rows of the warpgroup.

    Of 16 or 32 rows the warps of one warpgroup have copies. Of 64 rows two warpgroups have half of
    the columns each: their instructions have so many columns less.

    LayoutError if the tile has fewer than 64 rows per warpgroup otherwise.
    """
    (count,) = checked_shape((warpgroups,))
    if len(tile_shape) == 2 and divides_columns(tile_shape[0], count):
        half = tile_shape[1] // 2
        bases = dict(mma_operand_layout(_C_16X8, (64, half), (4, 1), "C").bases)
        return LinearLayout(bases | {"warp": (*bases["warp"], (0, half))}, tuple(tile_shape))
    least = 64 * count if count > 1 else 16
    if len(tile_shape) != 2 or tile_shape[0] < least:
        raise LayoutError(f"{count} warpgroups need {64 * count} rows, found tile {tile_shape}")
    return mma_operand_layout(_C_16X8, tile_shape, (4 * count, 1), "C")


@lru_cache(maxsize=1024)
def _operand_layout(
    atom: LinearLayout, shape: tuple[int, ...], warps: tuple[int, ...], which: Operand
) -> LinearLayout:
    """`mma_operand_layout` on hashable arguments."""
    if len(shape) < 2 or shape[-2] < atom.shape[0] or shape[-1] < atom.shape[1]:
        raise LayoutError(f"a tile of shape {shape} is smaller than the fragment {atom.shape}")
    # The axis that each of the two warp dims (M, N) runs along; None where the operand is copied.
    warp_axes = {"A": (0, None), "B": (None, 1), "C": (0, 1)}[which]
    extent = list(atom.shape)
    warp_bases: list[tuple[int, int]] = []
    for axis, count in zip(warp_axes, warps, strict=True):
        for _ in range(count.bit_length() - 1):
            if axis is None or extent[axis] == shape[axis - 2]:
                warp_bases.append((0, 0))
                continue
            warp_bases.append((extent[axis], 0) if axis == 0 else (0, extent[axis]))
            extent[axis] *= 2
    bases = dict(atom.bases)
    one_pass = LinearLayout(
        {"register": bases["register"], "lane": bases["lane"], "warp": warp_bases}, extent
    )
    # Repeats: last dim first, so K of A and N of C come out innermost; for B, K is the first dim.
    matrix = shape[-2:]
    if which == "B":
        tiled = one_pass.with_registers_for((matrix[0], extent[1])).with_registers_for(matrix)
    else:
        tiled = one_pass.with_registers_for(matrix)
    for _ in shape[:-2]:
        tiled = tiled.expand_dims(0)
    return tiled.with_registers_for(shape)
