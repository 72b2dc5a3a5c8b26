"""Whether a pass has left a kernel as it was, so that nobody has to run it once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp


def state_of(module: ModuleOp) -> list[tuple[Any, ...]]:
    """All that the meaning of a module depends on: equal states compute the same.

    Operations and values are the objects themselves: a pass that makes an operation anew, even an
    equal one, has changed the module.
    """
    return [
        (
            op,
            op.parent,
            *op.operands,
            *op.properties.items(),
            *op.attributes.items(),
            *((result, result.type) for result in op.results),
            *op.successors,
            *((block, *((arg, arg.type) for arg in block.args)) for block in _blocks(op)),
        )
        for op in module.walk()
    ]


class Changes:
    """Asks of a module, again and again, whether it is still what it was."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._state = state_of(module)

    def any(self) -> bool:
        """Whether something has changed since the last question."""
        before, self._state = self._state, state_of(self._module)
        return self._state != before


def changing(module: ModuleOp, steps: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The steps (pass and stage) that change the module."""
    changes = Changes(module)
    return (step for step in steps if changes.any())


def _blocks(op: Any) -> list[Any]:
    return [block for region in op.regions for block in region.blocks]
