"""Operations and attributes of a dialect's chapters, so that adding one is writing its class."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar

from xdsl.ir import Attribute, Operation
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation


class SegmentedOp(IRDLOperation):
    """An operation that says in a property how its operands fall into groups."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)


Defined = TypeVar("Defined", Operation, Attribute)


def operations_of(*chapters: ModuleType) -> list[type[Operation]]:
    """The operations that modules define, in the order of their definitions."""
    return [op for chapter in chapters for op in operations_in(vars(chapter))]


def operations_in(chapter: Mapping[str, Any]) -> tuple[type[Operation], ...]:
    """The operations that a module has defined so far, whose names these are."""
    return tuple(_defined(Operation, chapter))


def attributes_of(*chapters: ModuleType) -> list[type[Attribute]]:
    """The attributes and types that modules define, in the order of their definitions."""
    return [kind for chapter in chapters for kind in _defined(Attribute, vars(chapter))]


def _defined(base: type[Defined], chapter: Mapping[str, Any]) -> list[type[Defined]]:
    return [
        value
        for value in chapter.values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == chapter["__name__"]
        and "name" in vars(value)
    ]
