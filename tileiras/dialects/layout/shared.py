"""Layouts of tiles in shared memory: "offset" (in elements) -> coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout, checked_shape


def row_major(shape: Sequence[int], order: Sequence[int] | None = None) -> LinearLayout:
    """The dense layout of a tile; `order` lists the dims fastest first (default: last first)."""
    size = checked_shape(shape)
    dims = tuple(reversed(range(len(size)))) if order is None else tuple(order)
    if sorted(dims) != list(range(len(size))):
        raise LayoutError(f"order {dims} is not a permutation of {len(size)} dims")
    bases = [
        [1 << b if d == axis else 0 for d in range(len(size))]
        for axis in dims
        for b in range(size[axis].bit_length() - 1)
    ]
    return LinearLayout({"offset": bases}, size)


def swizzle(bits: int, base: int, shift: int, size: int) -> LinearLayout:
    """CuTe's `Swizzle<B, M, S>` on `size` offsets: its own inverse, in-dim "offset", rank 1.

    `bits` offset bits from bit `base + shift` on are added to those from bit `base` on:
    `x ^ ((x >> shift) & (((1 << bits) - 1) << base))`. A tile with a swizzled offset is
    `row_major(shape).compose(swizzle(...))`. Requires `shift >= bits`.
    """
    (checked,) = checked_shape((size,))
    if min(bits, base) < 0 or shift < bits:
        raise LayoutError(f"swizzle<{bits}, {base}, {shift}> needs shift >= bits >= 0")
    first = base + shift
    images = [
        (1 << b) ^ (1 << (b - shift) if first <= b < first + bits else 0)
        for b in range(checked.bit_length() - 1)
    ]
    return LinearLayout.from_index_bases({"offset": images}, (checked,))


ATOM_BYTES = 16
"""What stays together under a swizzle, as a rule; 32 under one with larger atoms."""


def tma_swizzled(
    shape: Sequence[int],
    order: Sequence[int],
    element_bits: int,
    swizzle_bytes: int,
    atom: int = ATOM_BYTES,
) -> LinearLayout:
    """The tile as TMA and tensor cores see it under a 32-, 64- or 128-byte swizzle.

    Atoms of 16 bytes of a row of `swizzle_bytes` are permuted by the row's index in its group of 8
    rows of 128 bytes, those of 32 bytes by that in its group of 4 (PTX ISA, "Swizzling modes"). The
    fastest dim of the tile must be one such row long.
    """
    row = swizzle_bytes * 8 // element_bits
    size = checked_shape(shape)
    if swizzle_bytes not in (32, 64, 128) or not order or size[order[0]] != row:
        raise LayoutError(
            f"a {swizzle_bytes}-byte swizzle of {element_bits}-bit elements needs rows of {row} "
            f"elements, found a tile of shape {size}"
        )
    chunk = (8 * atom // element_bits).bit_length() - 1
    bits = (swizzle_bytes // atom).bit_length() - 1
    shift = (128 // atom).bit_length() - 1
    return row_major(size, order).compose(swizzle(bits, chunk, shift, prod(size)))


def swizzled_panels(
    shape: Sequence[int],
    fast: int,
    element_bits: int,
    swizzle_bytes: int,
    atom: int = ATOM_BYTES,
) -> LinearLayout:
    """A 2-d tile as panels, one behind the other, whose dim `fast` is one swizzle span long."""
    span = swizzle_bytes * 8 // element_bits
    panel_shape = list(shape)
    panel_shape[fast] = span
    panel = tma_swizzled(panel_shape, (fast, 1 - fast), element_bits, swizzle_bytes, atom)
    bases = list(panel.basis("offset"))
    step = span
    while step < shape[fast]:
        bases.append((step, 0) if fast == 0 else (0, step))
        step *= 2
    return LinearLayout({"offset": bases}, shape)
