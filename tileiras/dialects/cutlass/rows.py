"""How a row of this dialect is declared: `cute.operation` under another name."""

from __future__ import annotations

from functools import partial

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.operation import operation
from tileiras.dialects.cute.values import Tensor, plain_layout

row = partial(operation, dialect="cutlass")
"""A pure operation of the dialect."""

effect = partial(row, pure=False)
"""An operation that acts on barriers; its function takes or rejects operands."""


def check_storage(storage: Tensor | None, barriers: int) -> None:
    """AlgebraError unless there is room for so many mbarriers, or none where none are needed."""
    if storage is None:
        if barriers:
            raise AlgebraError(f"{barriers} mbarriers need storage")
        return
    if not barriers:
        raise AlgebraError("no mbarriers are needed, there is storage")
    if (storage.engine.element, storage.engine.space) != ("i64", "smem"):
        raise AlgebraError(f"mbarriers are i64 in smem, found {storage}")
    layout = plain_layout(storage)
    if layout.indices != list(range(barriers)):
        raise AlgebraError(f"{barriers} mbarriers lie side by side, found {layout}")
