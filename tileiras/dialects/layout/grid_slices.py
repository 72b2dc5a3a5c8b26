"""The layout of one slice of a tile that is a grid of slices."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects.layout.linear_layout import Coordinate, LinearLayout


def grid_slice(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout | None:
    """Where the threads hold a slice of `shape`; None where not every thread has its share.

    That is so if registers alone tell the slices apart: each thread picks some of its own.
    """
    bases: dict[str, list[Coordinate]] = {}
    for unit, vectors in layout.bases:
        bases[unit] = [v for v in vectors if not _leaves(v, shape)]
        if unit != "register" and len(bases[unit]) != len(vectors):
            return None
        if any(_leaves(v, shape) and sum(map(bool, v)) > 1 for v in vectors):
            return None
    return LinearLayout(bases, shape)


def _leaves(vector: Coordinate, shape: Sequence[int]) -> bool:
    """Whether a step leads from one slice to another."""
    return any(step >= size for step, size in zip(vector, shape, strict=True))
