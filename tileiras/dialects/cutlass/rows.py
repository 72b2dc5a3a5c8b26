"""How a row of this dialect is declared: `cute.operation` under another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.operation import CuteOp, operation
from tileiras.dialects.cute.values import Tensor, plain_layout

DIALECT = "cutlass"


def row(
    name: str, signature: str, function: Callable[..., Any], doc: str, given: bool = False
) -> type[CuteOp]:
    """A pure operation of the dialect."""
    return operation(name, signature, function, doc, given=given, dialect=DIALECT)


def effect(
    name: str, signature: str, check: Callable[..., Any], doc: str, given: bool = False
) -> type[CuteOp]:
    """An operation that acts on barriers; `check` takes or rejects its operands."""
    if "->" not in signature:
        signature += " ->"
    return operation(name, signature, check, doc, pure=False, given=given, dialect=DIALECT)


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
