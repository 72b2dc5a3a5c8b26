"""Names of module-level symbols that the compiler adds."""

from __future__ import annotations

from collections.abc import Iterable


class SymbolNames:
    """Hands out names that no kernel, global or earlier name of the module has."""

    def __init__(self, taken: Iterable[str]):
        self._taken = dict.fromkeys(taken)

    def unique(self, preferred: str) -> str:
        """`preferred`, with a number behind if it is taken."""
        name, number = preferred, 1
        while name in self._taken:
            name, number = f"{preferred}_{number}", number + 1
        self._taken[name] = None
        return name
