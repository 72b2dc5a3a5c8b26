"""The cutlass dialect: how warps of a CTA share work, over the barriers of cute_nvgpu."""

from __future__ import annotations

from xdsl.ir import Dialect

from tileiras.dialects.cutlass import pipelines, schedulers, sequences, types

CHAPTERS = (pipelines, schedulers, sequences)
"""The chapters of operations, in the order of the documentation."""

OPERATIONS = tuple(row for chapter in CHAPTERS for row in chapter.OPERATIONS)
"""All operations."""

Cutlass = Dialect("cutlass", list(OPERATIONS), list(types.TYPES))
"""The dialect object."""
