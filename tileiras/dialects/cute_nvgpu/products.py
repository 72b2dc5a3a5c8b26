"""Products with operands in shared memory: wgmma of a warpgroup, tcgen05.mma of one thread.

Operands are whole tiles, (M,K) and (N,K), as TMA writes them: rows of one swizzle span. The
accumulator of a warpgroup is in its registers, (V,M,N); that of tcgen05 is in tensor memory, whose
address is an i32.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.tiled import atom_layout, tile_of
from tileiras.dialects.cute.values import Tensor, TiledMma, plain_layout
from tileiras.dialects.cute_nvgpu.barriers import (
    check_barrier,
    check_mask,
    check_pending,
    nothing,
)
from tileiras.dialects.cute_nvgpu.rows import effect
from tileiras.dialects.cute_nvgpu.types import panels

LEAST_COLUMNS = 32
MOST_COLUMNS = 512
"""Of an allocation of tensor memory, a power of two (PTX ISA, "tcgen05.alloc")."""


def check_operands(mma: TiledMma, kind: str, a: Tensor, b: Tensor) -> tuple[int, int, int]:
    """(M,N,K) of a product; AlgebraError for operands that are none of it.

    Of a pair of CTAs each has half of the rows of both operands.
    """
    if mma.atom.family != kind:
        raise AlgebraError(f"expected an atom of kind {kind}, found {mma.atom.kind}")
    for which, tensor, wanted in zip("AB", (a, b), mma.atom.elements[:2], strict=True):
        if tensor.engine.element != wanted:
            raise AlgebraError(f"operand {which} is {tensor.engine.element}, expected {wanted}")
    (m, k), (n, other) = ([mode.static_size for mode in panels(t).modes] for t in (a, b))
    m, n = m * mma.atom.ctas, n * mma.atom.ctas
    if k != other:
        raise AlgebraError(f"A has {k} elements along K, B has {other}")
    for name, extent, unit in (
        ("M", m, tile_of(mma, "A")[0]),
        ("N", n, tile_of(mma, "B")[0]),
        ("K", k, mma.atom.shape[2]),
    ):
        if extent % unit:
            raise AlgebraError(f"{name} is {extent}, expected a multiple of {unit}")
    if mma.layout[2].static_size != 1:
        raise AlgebraError("atoms are not repeated along K")
    return m, n, k


def _warpgroup_mma(mma: TiledMma, d: Tensor, a: Tensor, b: Tensor) -> None:
    m, n, _ = check_operands(mma, "warpgroup", a, b)
    if d.engine.space != "rmem" or d.engine.element != mma.atom.elements[2]:
        raise AlgebraError(
            f"the accumulator is {d.engine.element} in {d.engine.space}, expected "
            f"{mma.atom.elements[2]} in rmem"
        )
    values = atom_layout(mma.atom, "C")[1].static_size
    rows, columns = tile_of(mma, "C")
    found = [mode.size for mode in plain_layout(d).modes]
    wanted = [values, m // rows, n // columns]
    if found != wanted:
        raise AlgebraError(f"the accumulator has modes {found}, expected {wanted}")


def _tcgen05_mma(mma: TiledMma, tmem: Leaf, a: Tensor, b: Tensor) -> None:
    if mma.atom.scale:
        raise AlgebraError("products with scales are 'cute_nvgpu.tcgen05_mma_block_scaled'")
    m, n, _ = check_operands(mma, "tcgen05", a, b)
    if (m, n) != mma.atom.shape[:2]:
        raise AlgebraError(f"a product of {m} x {n}, the atom is {mma.atom}")


def _tcgen05_load(tmem: Leaf, target: Tensor) -> None:
    _check_moved(target, "loaded to", "load gives")


def _tcgen05_store(source: Tensor, tmem: Leaf) -> None:
    _check_moved(source, "stored from", "store takes")


def _check_moved(tensor: Tensor, how: str, moves: str) -> None:
    if tensor.engine.space != "rmem" or tensor.engine.element != "f32":
        raise AlgebraError(f"tensor memory is {how} f32 in rmem, found {tensor}")
    size = plain_layout(tensor).static_size
    if size & (size - 1) or not 1 <= size <= 128:
        raise AlgebraError(f"a {moves} 1 to 128 columns, a power of two, found {size}")


def check_columns(columns: int) -> None:
    """AlgebraError for a number of columns that cannot be allocated."""
    if columns & (columns - 1) or not LEAST_COLUMNS <= columns <= MOST_COLUMNS:
        raise AlgebraError(f"{columns} columns, expected a power of two, 32 to 512")


def check_group(ctas: int) -> None:
    """AlgebraError for a number of CTAs that no instruction of tensor memory has."""
    if ctas not in (1, 2):
        raise AlgebraError(f"a group has 1 or 2 CTAs, found {ctas}")


def _alloc(tensor: Tensor, columns: int, ctas: int = 1) -> None:
    check_columns(columns)
    check_group(ctas)
    if (tensor.engine.element, tensor.engine.space) != ("i32", "smem"):
        raise AlgebraError(f"the address arrives in an i32 in smem, found {tensor}")


def _address(tensor: Tensor) -> Dynamic:
    if (tensor.engine.element, tensor.engine.space) != ("i32", "smem"):
        raise AlgebraError(f"the address is in an i32 in smem, found {tensor}")
    return Dynamic.symbol(UNKNOWN)


def _dealloc(tmem: Leaf, columns: int, ctas: int = 1) -> None:
    check_columns(columns)
    check_group(ctas)


def _commit(pointer: Any, ctas: int = 1) -> None:
    check_barrier(pointer)
    check_group(ctas)


def _commit_multicast(pointer: Any, mask: Leaf, ctas: int = 1) -> None:
    _commit(pointer, ctas)
    check_mask(mask)


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "warpgroup_arrive",
        "",
        nothing,
        "Orders registers with wgmma: `register writes before < wgmma after`.",
    ),
    effect(
        "warpgroup_mma",
        "tiled_mma, tensor, tensor, tensor",
        _warpgroup_mma,
        "Starts a product of a warpgroup: `D(m, n) := sum over k A(m, k) B(n, k) + D(m, n)`.",
    ),
    effect("warpgroup_commit_batch", "", nothing, "Closes a group: `group := wgmma so far`."),
    effect(
        "warpgroup_wait",
        "",
        check_pending,
        "Waits for groups of products: `wait<n>: unfinished groups <= n`.",
        statics=1,
    ),
    effect(
        "tmem_alloc",
        "tensor",
        _alloc,
        "One warp takes n columns of tensor memory, with 2 that of both CTAs of a pair: "
        "`T(0) := alloc<n>()`.",
        statics=range(1, 3),
    ),
    effect("tmem_address", "tensor -> int", _address, "Where they are: `tmem_address(T) = T(0)`."),
    effect(
        "tmem_dealloc",
        "int",
        _dealloc,
        "Gives n columns back, with 2 those of a pair of CTAs: `alloc<n>() = t`.",
        statics=range(1, 3),
    ),
    effect(
        "tcgen05_mma",
        "tiled_mma, int, tensor, tensor",
        _tcgen05_mma,
        "Starts a product in tensor memory: `D(m, n) := sum over k A(m, k) B(n, k) + D(m, n)`. "
        "Of a pair the first CTA starts it, for both.",
    ),
    effect(
        "tcgen05_commit",
        "ptr",
        _commit,
        "An arrival when products are done, with 2 those of a pair: `products before < arrival`.",
        statics=range(2),
    ),
    effect(
        "tcgen05_commit_multicast",
        "ptr, int",
        _commit_multicast,
        "An arrival in each CTA of a mask: `products before < arrival at p of r, for r in mask`.",
        statics=range(2),
    ),
    effect(
        "tcgen05_load",
        "int, tensor",
        _tcgen05_load,
        "Columns of a thread's lane to its registers: `R(i) := tmem(lane, column + i)`.",
    ),
    effect(
        "tcgen05_store",
        "tensor, int",
        _tcgen05_store,
        "A thread's registers to columns of its lane: `tmem(lane, column + i) := R(i)`.",
    ),
    effect(
        "tcgen05_fence_before",
        "",
        nothing,
        "Orders tensor memory with a barrier that follows: `accesses before < barrier`.",
    ),
    effect(
        "tcgen05_fence_after",
        "",
        nothing,
        "Orders tensor memory with a barrier before: `barrier < accesses after`.",
    ),
)
"""The operations of this chapter."""
