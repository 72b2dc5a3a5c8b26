"""CuTe's layout algebra without IR: pure Python integers, no xDSL.

Chapters: `leaves` and `int_tuples` (what shapes are made of), `layout`, `coordinates`,
`transforms`, `composition`, `inverses`, `products`, `divides`, `partitions`, `swizzles`; `linear`
and `banks` join it to the linear layouts of tiles; `expressions` reads texts. Names are those of
CUTLASS's documentation ("CuTe Layouts", "CuTe Layout Algebra").
"""

from __future__ import annotations

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle

__all__ = ["AlgebraError", "ComposedLayout", "Layout", "Swizzle"]
