"""Which optimization hints hold for a target."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr


def hints_for(hints: OptimizationHintsAttr | None, gpu_name: str) -> DictionaryAttr | None:
    """The hints that hold for one target: its own first, then `default`, key by key."""
    if hints is None:
        return None
    merged: dict[str, Attribute] = {}
    for key in ("default", gpu_name):
        chosen = hints.value.data.get(key)
        if isinstance(chosen, DictionaryAttr):
            merged.update(chosen.data)
    return DictionaryAttr(merged) if merged else None
