"""All rows, in one order."""

from __future__ import annotations

from . import (
    atomics,
    control,
    elementwise,
    matrices,
    pointers,
    products_in_loops,
    reductions,
    shapes,
    views,
)

ROWS = [
    *elementwise.ROWS,
    *shapes.ROWS,
    *reductions.ROWS,
    *matrices.ROWS,
    *products_in_loops.ROWS,
    *views.ROWS,
    *pointers.ROWS,
    *atomics.ROWS,
    *control.ROWS,
]
"""Every row; workers number them by their place here."""
