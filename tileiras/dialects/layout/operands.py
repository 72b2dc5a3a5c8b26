"""Operands of matrix products in shared memory: the swizzled tile, and how fragments are read.

The operand is stored once. For every step along K each warp then reads the fragments of that step,
with `ldmatrix` where the fragment has its form: rows of 16 bytes along one matrix dim, eight of
them along the other. Rows are what one vector access moves; the swizzle puts eight rows that are
read together, and what neighbouring lanes store together, into different banks.

`ldmatrix` (PTX ISA, "Warp-level matrix load instruction"): of each 8x8 matrix of 16-bit elements,
lane l receives elements 2 * (l % 4) and the next of row l / 4; transposed, of column l / 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.layout.gf2 import independent, intersection
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import (
    BANK_BITS,
    BANK_BYTES,
    MAX_VECTOR_BYTES,
    phase_lane_bits,
    storage_bytes,
    vector_elements,
)

_REGISTER_BITS = 32
_ROW_BITS = 3
"""Eight rows make a matrix of ldmatrix."""


@dataclass(frozen=True)
class OperandTile:
    """An operand in shared memory, `shared` as "offset" (elements) -> coordinates.

    The highest offset bits are the highest bits of K, so that equal parts of K are equal parts of
    the buffer. `is_matrix` says that ldmatrix reads the fragments, `transposed` in its transposed
    form. `stores_matrices`: stmatrix writes them, since they lie as an instruction has left them.
    """

    shared: LinearLayout
    store_vector: int
    is_matrix: bool
    transposed: bool
    stores_matrices: bool = False


def dim_vectors(shape: Sequence[int], axis: int) -> list[int]:
    """The row-major index of each bit of the coordinate along `axis`, lowest first."""
    unit = prod(shape[axis % len(shape) + 1 :])
    return [unit << b for b in range(shape[axis].bit_length() - 1)]


@lru_cache(maxsize=1024)
def plan_operand(
    source: LinearLayout,
    fragment: LinearLayout,
    k_dim: int,
    bits: int,
    use_ldmatrix: bool,
    parts: int = 1,
    use_stmatrix: bool = False,
) -> OperandTile:
    """How to stage an operand of `bits`-bit elements that lies in `source`.

    `fragment` is the operand's layout for the instruction (`mma_operand_layout`), `k_dim` the
    matrix dim of K (-1 for A, -2 for B), `parts` into how many parts of K the buffer falls.
    `use_stmatrix`: where `source` has its form, whole matrices are stored.
    """
    other = -3 - k_dim
    wide = MAX_VECTOR_BYTES // storage_bytes(bits)
    rows_along = sorted((k_dim, other), key=lambda dim: _slowness(source, dim, wide))
    for row_dim in rows_along if use_ldmatrix else ():
        transposed = row_dim != k_dim
        if reads_as_matrices(fragment, row_dim, bits, transposed):
            rows = _matrix_rows(source, row_dim, bits) if use_stmatrix and parts == 1 else None
            shared = _swizzled(source, row_dim, k_dim, bits, parts, rows)
            vector = vector_elements(source, shared, bits)
            return OperandTile(shared, vector, True, transposed, rows is not None)
    shared = _swizzled(source, rows_along[0], k_dim, bits, parts)
    vector = vector_elements(source, shared, bits)
    return OperandTile(shared, vector, False, False)


def placed_operand(shared: LinearLayout, k_dim: int) -> OperandTile:
    """How ldmatrix reads an operand that lies in shared memory as `plan_operand` has said."""
    is_along_k = shared.vectors("offset")[0] == dim_vectors(shared.shape, k_dim)[0]
    return OperandTile(shared, 1, True, not is_along_k)


def _slowness(source: LinearLayout, dim: int, wide: int) -> tuple[int, int]:
    """Orders dims: longest vectors first, then the one that neighbouring lanes run along."""
    vector = contiguous_vector(source, source.rank + dim, wide)
    first = dim_vectors(source.shape, dim)[:1]
    lanes = source.vectors("lane")
    return (-vector, lanes.index(first[0]) if first and first[0] in lanes else len(lanes))


def reads_as_matrices(fragment: LinearLayout, row_dim: int, bits: int, transposed: bool) -> bool:
    """Whether the lowest registers and all lanes of a fragment lie as ldmatrix delivers them."""
    if bits > _REGISTER_BITS or bits % 8 or (transposed and bits != 16):
        return False
    row = dim_vectors(fragment.shape, row_dim)
    column = dim_vectors(fragment.shape, -3 - row_dim)
    if len(row) < _row_bits(bits) or len(column) < _ROW_BITS:
        return False
    inner = inner_bits(bits)
    registers, lanes = fragment.vectors("register")[:inner], fragment.vectors("lane")
    if transposed:
        return (*registers, *lanes) == (*column[:_ROW_BITS], *row[:3])
    return (*registers, *lanes) == (*row[: inner + 2], *column[:_ROW_BITS])


def inner_bits(bits: int) -> int:
    """Register bits that count the elements within one 32-bit register."""
    return (_REGISTER_BITS // bits).bit_length() - 1


def _row_bits(bits: int) -> int:
    """Bits that count the elements of a row of 16 bytes."""
    return (MAX_VECTOR_BYTES // storage_bytes(bits)).bit_length() - 1


def _matrix_rows(source: LinearLayout, row_dim: int, bits: int) -> list[int] | None:
    """What tells the eight rows apart that stmatrix stores of `source`; None if it cannot.

    Two elements of a thread and four lanes are a row of 16 bytes, or eight lanes are. All other
    inputs lead to other rows, and nothing is there twice.
    """
    registers, lanes = source.vectors("register"), source.vectors("lane")
    if bits != 16 or not registers or len(lanes) != 5:
        return None
    row = dim_vectors(source.shape, row_dim)[:_ROW_BITS]
    inside = [*registers[:1], *lanes[:2]]
    rows = list(lanes[2:])
    if inside != row:
        inside, rows = rows, inside
    held = [*registers, *lanes, *source.vectors("warp")]
    others = [vector for vector in held if vector not in inside]
    apart = sum(row)
    is_plain = inside == row and all(not vector & apart for vector in others)
    return rows if is_plain and len(independent(held)) == len(held) else None


def _swizzled(
    source: LinearLayout,
    row_dim: int,
    k_dim: int,
    bits: int,
    parts: int,
    matrix_rows: Sequence[int] | None = None,
) -> LinearLayout:
    """Rows of 16 bytes lowest, then the banks and the segments, then the bits of the parts of K.

    Everything is counted modulo the bits of a row, and the upper bits of K are kept apart: so a
    row stays in one piece, and a part of K in one part of the buffer. `matrix_rows`: what threads
    store at once, if not what neighbouring lanes have.
    """
    size = storage_bytes(bits)
    shape = source.shape
    row = dim_vectors(shape, row_dim)[: _row_bits(bits)]
    column = dim_vectors(shape, -3 - row_dim)[:_ROW_BITS]
    along_k = dim_vectors(shape, k_dim)
    k_high = along_k[len(along_k) - (parts.bit_length() - 1) :]
    apart = sum(row) + sum(k_high)
    rest = [v & ~apart for v in (1 << b for b in range(source.size.bit_length() - 1))]
    rest = [v for v in rest if v]
    held = sum(1 for v in row if v in source.vectors("register"))
    lanes = source.vectors("lane")[: phase_lane_bits(size << held)]
    store = independent(v & ~apart for v in (lanes if matrix_rows is None else matrix_rows))
    both = intersection(store, column)
    only_store, only_load = independent(store, both), independent(column, both)
    neither = independent(rest, store + column)
    sums = [e ^ f for e, f in zip(only_store, only_load, strict=False)]
    wavefront_bits = BANK_BITS + (BANK_BYTES.bit_length() - 1) - (size.bit_length() - 1)
    bank_bits = max(0, wavefront_bits - len(row))
    segment = (neither + sums)[: max(0, len(rest) - bank_bits)]
    banks = independent(column + store + rest, segment)
    return LinearLayout.from_index_bases({"offset": [*row, *banks, *segment, *k_high]}, shape)
