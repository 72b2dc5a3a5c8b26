"""Linear layouts: where each element of a tile lives, as linear maps over bits.

`linear_layout` has the algebra, `blocked`, `mma` and `shared` the constructors, `conversion` the
plans that move a tile from one placement to another. Pure Python integers, no xDSL, no numpy.
"""

from __future__ import annotations

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.linear_layout import LinearLayout

__all__ = ["LayoutError", "LinearLayout"]
