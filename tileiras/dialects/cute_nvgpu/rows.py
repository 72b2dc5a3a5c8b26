"""How a row of this dialect is declared: `cute.operation` under another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.operation import CuteOp, operation

DIALECT = "cute_nvgpu"


def row(
    name: str,
    signature: str,
    function: Callable[..., Any],
    doc: str,
    statics: int | range = 0,
    given: bool = False,
) -> type[CuteOp]:
    """A pure operation of the dialect."""
    return operation(name, signature, function, doc, statics, given=given, dialect=DIALECT)


def effect(
    name: str, signature: str, check: Callable[..., Any], doc: str, statics: int | range = 0
) -> type[CuteOp]:
    """An operation that acts on memory or other threads; `check` takes or rejects its operands."""
    if "->" not in signature:
        signature += " ->"
    return operation(name, signature, check, doc, statics, pure=False, dialect=DIALECT)
