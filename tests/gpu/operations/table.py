"""All rows, in one order."""

from __future__ import annotations

from . import (
    elementwise,
    matrices,
    reductions,
    shapes,
)

ROWS = [
    *elementwise.ROWS,
    *shapes.ROWS,
    *reductions.ROWS,
    *matrices.ROWS,
]
"""Every row; workers number them by their place here."""
