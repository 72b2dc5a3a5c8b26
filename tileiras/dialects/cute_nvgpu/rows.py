"""How a row of this dialect is declared: `cute.operation` under another name."""

from __future__ import annotations

from functools import partial

from tileiras.dialects.cute.operation import operation

row = partial(operation, dialect="cute_nvgpu")
"""A pure operation of the dialect."""

effect = partial(row, pure=False)
"""An operation that acts on memory or other threads; its function takes or rejects operands."""
