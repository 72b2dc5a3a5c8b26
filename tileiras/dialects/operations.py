"""Operations of a dialect's chapters, so that adding one is writing its class."""

from __future__ import annotations

from types import ModuleType

from xdsl.ir import Operation


def operations_of(*chapters: ModuleType) -> list[type[Operation]]:
    """The operations that modules define, in the order of their definitions."""
    return [
        value
        for chapter in chapters
        for value in vars(chapter).values()
        if isinstance(value, type)
        and issubclass(value, Operation)
        and value.__module__ == chapter.__name__
        and "name" in vars(value)
    ]
