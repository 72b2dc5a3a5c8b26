"""Copies of boxes by TMA: loads, stores, reductions; and what makes an atom executable.

One thread issues a copy. Coordinates are in elements and begin with the dim that is contiguous.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor
from tileiras.dialects.cute_nvgpu.barriers import check_barrier, check_mask, check_pending, nothing
from tileiras.dialects.cute_nvgpu.rows import effect
from tileiras.dialects.cute_nvgpu.types import TmaAtom


def coordinates_of(coordinate: Any) -> tuple[Leaf, ...]:
    """The coordinate of a box, a number for each dim."""
    return coordinate if isinstance(coordinate, tuple) else (coordinate,)


def _box(atom: Any, tensor: Tensor, coordinate: Any) -> None:
    """A tensor that is the box, and a coordinate of its rank."""
    _of_types(atom).check_tensor(tensor)
    parts = coordinates_of(coordinate)
    rank = len(_of_types(atom).box)
    if len(parts) != rank or any(part is None or isinstance(part, tuple) for part in parts):
        raise AlgebraError(f"a box of {rank} dims has a coordinate of {rank} numbers")


def _of_types(atom: Any) -> TmaAtom:
    """The atom of a map."""
    return getattr(atom, "atom", atom)


def _load(atom: Any, tensor: Tensor, barrier: Any, coordinate: Any, ctas: int = 1) -> None:
    _box(atom, tensor, coordinate)
    check_barrier(barrier)
    if ctas not in (1, 2):
        raise AlgebraError(f"a box is for a CTA or one of a pair: 1 or 2, found {ctas}")


def _multicast(
    atom: Any, tensor: Tensor, barrier: Any, coordinate: Any, mask: Leaf, ctas: int = 1
) -> None:
    _load(atom, tensor, barrier, coordinate, ctas)
    check_mask(mask)


def _same(atom: Any) -> Any:
    """The atom."""
    return atom


def _reduction(kind: str) -> type[CuteOp]:
    return effect(
        f"tma_reduce_{kind}",
        "tma, tensor, coord",
        _box,
        f"Combines a box with memory: `G(c + i) := {kind}(G(c + i), S(i))`.",
    )


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "make_exec_tma",
        "tma -> tma",
        _same,
        "Makes a map that the host has written usable: `map write < copies through it`.",
    ),
    effect(
        "prefetch_tma_desc",
        "tma",
        _same,
        "Brings a map into its cache: `prefetch(a) = a`, sooner.",
    ),
    effect(
        "tma_load",
        "tma, tensor, ptr, coord",
        _load,
        "Starts loading a box, its bytes arrive at the barrier, with 2 at that of the pair's first "
        "CTA: `S(i) := G(c + i)`.",
        statics=range(2),
    ),
    effect(
        "tma_load_multicast",
        "tma, tensor, ptr, coord, int",
        _multicast,
        "A load into each CTA of a mask, with 2 counted by the first CTA of each pair: "
        "`S_r(i) := G(c + i) for r in mask`.",
        statics=range(2),
    ),
    effect(
        "tma_store",
        "tma, tensor, coord",
        _box,
        "Starts storing a box: `G(c + i) := S(i)` inside of the tensor.",
    ),
    *map(_reduction, ("add", "min", "max", "and", "or", "xor")),
    effect("tma_store_commit", "", nothing, "Closes a group: `group := stores so far`."),
    effect(
        "tma_store_wait",
        "",
        check_pending,
        "Waits for groups of stores: `wait<n>: unfinished groups <= n`.",
        statics=1,
    ),
    effect(
        "tma_store_wait_read",
        "",
        check_pending,
        "Waits until stores have read their boxes: `wait<n>: groups that still read <= n`.",
        statics=1,
    ),
)
"""The operations of this chapter."""
