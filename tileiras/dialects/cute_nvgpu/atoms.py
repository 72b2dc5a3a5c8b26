"""Atoms, what they hold, and the tiled copies that feed products.

Which instruction an atom is, and which targets have it, say the rows of `codegen/atoms` when a
program is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.algebra.linear import of_indices
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.tiled import (
    OPERANDS,
    atom_layout,
    make_tiled_copy_tv,
    places_of,
    threads_of,
    tile_of,
)
from tileiras.dialects.cute.values import (
    MATRIX_BITS,
    CopyAtom,
    MmaAtom,
    TiledCopy,
    TiledMma,
    element_bits,
)
from tileiras.dialects.cute_nvgpu.rows import row
from tileiras.dialects.layout.mma import Operand

MATRIX_COUNTS = (1, 2, 4)
"""8x8 matrices that ldmatrix and stmatrix move (PTX ISA, "ldmatrix")."""
FIELDS = ("accumulate",)
"""What `atom_set_value` sets, by number."""


def _copy_atom(kind: str, widths: tuple[int, ...]) -> Callable[[int], CopyAtom]:
    """A maker of atoms that move so many bits for each thread."""

    def apply(bits: int) -> CopyAtom:
        if bits not in widths:
            names = ", ".join(map(str, widths))
            raise AlgebraError(f"{kind} moves {names} bits for a thread, found {bits}")
        return CopyAtom(kind, bits)

    return apply


def _matrix_atom(kind: str) -> Callable[[int], CopyAtom]:
    """A maker of atoms that move so many 8x8 matrices of 16-bit elements."""

    def apply(count: int) -> CopyAtom:
        if count not in MATRIX_COUNTS:
            raise AlgebraError(f"{kind} moves 1, 2 or 4 matrices, found {count}")
        return CopyAtom(kind, 32 * count)

    return apply


def _mma_atom(kind: str) -> Callable[[MmaAtom], MmaAtom]:
    """A checker of atoms of one kind."""

    def apply(atom: MmaAtom) -> MmaAtom:
        if atom.family != kind:
            raise AlgebraError(f"expected an atom of kind {kind}, found {atom.kind}")
        for element in atom.elements:
            element_bits(element)
        if atom.scale and kind == "warpgroup":
            raise AlgebraError("products of warpgroups have no scales")
        atom_layout(atom, "C")
        return atom

    return apply


def _field(number: int) -> str:
    if not 0 <= number < len(FIELDS):
        raise AlgebraError(f"an MMA atom has fields 0 to {len(FIELDS) - 1}, found {number}")
    return FIELDS[number]


def atom_get_value(mma: TiledMma, field: int) -> Leaf:
    """The value of a field."""
    found = getattr(mma.atom, _field(field))
    return int(found) if isinstance(found, bool) else found


def atom_set_value(mma: TiledMma, value: Leaf, field: int) -> TiledMma:
    """The same products with another value of a field."""
    if isinstance(value, int) and value not in (0, 1):
        raise AlgebraError(f"{_field(field)} is 0 or 1, found {value}")
    return replace(mma, atom=replace(mma.atom, **{_field(field): value}))


def _tiled_copy(which: Operand) -> Callable[[CopyAtom, TiledMma], TiledCopy]:
    """The copy that brings operand `which` where the product wants it.

    A matrix copy has two sides: registers, which are the product's, and rows of shared memory,
    8 elements of which a thread addresses. The tiled copy is that of the rows; the registers are
    `retile`d. A product's tile with fewer matrices than the atom is repeated along M or N.
    """

    @cache
    def apply(atom: CopyAtom, mma: TiledMma) -> TiledCopy:
        tile = tile_of(mma, which)
        held = _held(mma, which)
        if not atom.is_matrix:
            return make_tiled_copy_tv(atom, of_indices(held), tile)
        element = mma.atom.elements["ABC".index(which)]
        if element_bits(element) != MATRIX_BITS:
            raise AlgebraError(f"{atom.kind} moves elements of 16 bits, found {element}")
        values = atom.held
        if values % len(held[0]):
            raise AlgebraError(
                f"a thread holds {len(held[0])} values of {which}, {atom.kind} moves {values}"
            )
        repeats = values // len(held[0])
        wide = (tile[0] * repeats, tile[1])
        held = [
            [_widened(index, tile, wide, time) for time in range(repeats) for index in line]
            for line in held
        ]
        return make_tiled_copy_tv(atom, of_indices(_rows(atom, held)), wide)

    return apply


def _widened(index: int, tile: tuple[int, ...], wide: tuple[int, ...], time: int) -> int:
    """The column-major index in the wide tile of an element of its repeat number `time`."""
    return index % tile[0] + time * tile[0] + index // tile[0] * wide[0]


def _held(mma: TiledMma, which: Operand) -> list[list[int]]:
    """By thread, the column-major indices in the tile of the values that it holds."""
    values = atom_layout(mma.atom, which)
    lanes, count = (mode.static_size for mode in values.modes)
    indices = [int(str(index)) for index in values.indices]
    tile, dims = tile_of(mma, which), OPERANDS[which]
    rows = mma.atom.shape[dims[0]]
    places = places_of(mma, which)
    found: list[list[int]] = []
    for thread in range(threads_of(mma)):
        group, lane = divmod(thread, lanes)
        place = places[group]
        found.append([])
        for value in range(count):
            index = indices[lane + value * lanes]
            first = index % rows + place[0] * rows
            second = index // rows + place[1] * mma.atom.shape[dims[1]]
            found[-1].append(first + second * tile[0])
    return found


def _rows(atom: CopyAtom, held: list[list[int]]) -> list[list[int]]:
    """By thread, the elements of the row that it addresses.

    PTX ISA, "ldmatrix": lane l addresses row l % 8 of matrix l / 8; word i of lane l holds elements
    2 (l % 4) and the next of row l / 4 of matrix i, or of column l / 4 if transposed. Lanes whose
    matrix there is not address rows of those that there are.
    """
    matrices = atom.bits // 32
    transposed = atom.kind.endswith("_trans")
    found: list[list[int]] = []
    for thread in range(len(held)):
        warp, lane = thread // 32 * 32, thread % 32
        line, matrix = lane % 8, lane // 8 % matrices
        elements: list[int] = []
        for place in range(8):
            row, column = (place, line) if transposed else (line, place)
            elements.append(held[warp + 4 * row + column // 2][2 * matrix + column % 2])
        found.append(elements)
    return found


def _maker(name: str, signature: str, function: Any, doc: str) -> type[CuteOp]:
    return row(f"make_{name}_atom", signature, function, doc, statics=1)


OPERATIONS: tuple[type[CuteOp], ...] = (
    _maker(
        "universal_copy",
        "-> copy_atom",
        _copy_atom("universal", (8, 16, 32, 64, 128)),
        "Loads and stores: `a<b> moves b bits of a thread`.",
    ),
    _maker(
        "cp_async",
        "-> copy_atom",
        _copy_atom("cp_async", (32, 64, 128)),
        "Copies global to shared that nobody waits for: `a<b> moves b bits of a thread`.",
    ),
    _maker(
        "ldmatrix",
        "-> copy_atom",
        _matrix_atom("ldmatrix"),
        "8x8 matrices from shared memory: `lane(4 r + c / 2)[2 i + c % 2] = M_i(r, c)`.",
    ),
    _maker(
        "ldmatrix_trans",
        "-> copy_atom",
        _matrix_atom("ldmatrix_trans"),
        "Their transposes: `lane(4 r + c / 2)[2 i + c % 2] = M_i(c, r)`.",
    ),
    _maker(
        "stmatrix",
        "-> copy_atom",
        _matrix_atom("stmatrix"),
        "8x8 matrices into shared memory: `M_i(r, c) = lane(4 r + c / 2)[2 i + c % 2]`.",
    ),
    _maker(
        "stmatrix_trans",
        "-> copy_atom",
        _matrix_atom("stmatrix_trans"),
        "Their transposes: `M_i(c, r) = lane(4 r + c / 2)[2 i + c % 2]`.",
    ),
    row(
        "make_warp_mma_atom",
        "-> mma_atom",
        _mma_atom("warp"),
        "mma.sync of a warp: `D(m, n) = sum over k A(m, k) B(n, k) + C(m, n)`.",
        given=True,
    ),
    row(
        "make_warpgroup_mma_atom",
        "-> mma_atom",
        _mma_atom("warpgroup"),
        "wgmma of four warps, operands in shared memory: `D := A B^T + D`.",
        given=True,
    ),
    row(
        "make_tcgen05_mma_atom",
        "-> mma_atom",
        _mma_atom("tcgen05"),
        "tcgen05.mma of one thread, accumulators in tensor memory: `D := A B^T + D`; `tcgen05_2sm` "
        "is that of two CTAs.",
        given=True,
    ),
    row(
        "atom_get_value",
        "tiled_mma -> int",
        atom_get_value,
        "A field of an atom, 0 is accumulate: `get<f>(set<f>(a, x)) = x`.",
        statics=1,
    ),
    row(
        "atom_set_value",
        "tiled_mma, int -> tiled_mma",
        atom_set_value,
        "Sets a field, 0 is accumulate: `D := A B^T + accumulate D`.",
        statics=1,
    ),
    *(
        row(
            f"make_tiled_copy_{which.lower()}",
            "copy_atom, tiled_mma -> tiled_copy",
            _tiled_copy(which),
            f"The copy of {which}: `tv(t, v) = what thread t holds of {which}, or its row`.",
        )
        for which in OPERANDS
    ),
)
"""The operations of this chapter."""
