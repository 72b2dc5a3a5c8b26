"""The cute dialect: layouts, tensors, tiled copies and tiled MMAs as IR."""

from __future__ import annotations

from xdsl.ir import Dialect

from tileiras.dialects.cute import (
    construction,
    mapping,
    queries,
    structure,
    tensors,
    tiled,
    tiling,
    types,
)

CHAPTERS = (construction, queries, mapping, tiling, tiled, tensors, structure)
"""The chapters of operations, in the order of the documentation."""

OPERATIONS = tuple(row for chapter in CHAPTERS for row in chapter.OPERATIONS)
"""All operations."""

Cute = Dialect("cute", list(OPERATIONS), list(types.TYPES))
"""The dialect object."""
