"""The cute_nvgpu dialect: what instructions of each generation of GPUs do, on CuTe's tensors."""

from __future__ import annotations

from xdsl.ir import Dialect

from tileiras.dialects.cute_nvgpu import (
    atoms,
    barriers,
    bulk_copies,
    clusters,
    launch_control,
    products,
    scaled,
    types,
)

CHAPTERS = (atoms, barriers, clusters, launch_control, bulk_copies, products, scaled)
"""The chapters of operations, in the order of the documentation."""

OPERATIONS = tuple(row for chapter in CHAPTERS for row in chapter.OPERATIONS)
"""All operations."""

CuteNvgpu = Dialect("cute_nvgpu", list(OPERATIONS), list(types.TYPES))
"""The dialect object."""
