"""Which optimization hints hold for a target."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr
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


def with_tma(hints: DictionaryAttr | None, prefers: bool) -> DictionaryAttr:
    """The hints of an access that had better be done by TMA, or must not be.

    What the author of the kernel forbids stays so.
    """
    given = {} if hints is None else dict(hints.data)
    key = "prefer_tma" if prefers else "allow_tma"
    return DictionaryAttr({**given, key: BoolAttr.from_bool(prefers)})
