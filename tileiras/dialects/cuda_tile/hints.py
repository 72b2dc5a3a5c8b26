"""What is wrong with optimization hints, for who wants it told (`--Werr-hints`).

A hint that is unknown or out of range does nothing; by itself it is no mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.dialects.cuda_tile.structure import EntryOp
from tileiras.errors import BytecodeError, joined
from tileiras.excerpts import shown_input
from tileiras.suggestions import did_you_mean

DEFAULT = "default"
"""The key of hints for all targets."""


@dataclass(frozen=True)
class _Hint:
    """A known hint: where it may stand and what it may be."""

    where: Callable[[str], bool]
    legal: Callable[[int], bool]
    wanted: str
    is_flag: bool = False


def _is_entry(name: str) -> bool:
    return name == EntryOp.name


def _is_access(name: str) -> bool:
    return not _is_entry(name)


def _is_view_access(name: str) -> bool:
    return "_view_" in name


def _power_of_two(limit: int) -> Callable[[int], bool]:
    return lambda value: 1 <= value <= limit and not value & (value - 1)


def _within(limit: int) -> Callable[[int], bool]:
    return lambda value: 1 <= value <= limit


# Tile IR specification, "Optimization hints"
_HINTS: dict[str, _Hint] = {
    "num_cta_in_cga": _Hint(_is_entry, _power_of_two(16), "expected power-of-two ≤ 16 for"),
    "num_worker_warps_per_cta": _Hint(
        _is_entry, _power_of_two(32), "expected power-of-two ≤ 32 for"
    ),
    "occupancy": _Hint(
        _is_entry, _within(32), "integer value in the range [1, 32] is expected for"
    ),
    "latency": _Hint(_is_access, _within(10), "integer value in the range [1, 10] is expected for"),
    # This compiler's own: docs/command-line.md, "Hints for ptxas"
    "max_registers": _Hint(
        _is_entry,
        lambda value: 24 <= value <= 255,
        "integer value in the range [24, 255] is expected for",
    ),
    "unroll": _Hint(lambda name: True, lambda _: True, "boolean value expected for", is_flag=True),
    "allow_tma": _Hint(_is_view_access, lambda _: True, "boolean value expected for", is_flag=True),
}


def check_hints(module: ModuleOp, known_targets: Container[str]) -> None:
    """Raises BytecodeError, with its place, for hints that would do nothing.

    `known_targets` are the names of GPUs that hints may be for.
    """
    found = [
        BytecodeError(f"Optimization hints verification failed: {text}", place)
        for op in module.walk()
        for text in _mistakes(op, known_targets)
        for place in [source_location(op.location)]
    ]
    if found:
        raise joined(found)


def _mistakes(op: Operation, known_targets: Container[str]) -> Iterator[str]:
    hints = op.properties.get("optimization_hints")
    if not isinstance(hints, OptimizationHintsAttr):
        return
    for target, values in hints.value.data.items():
        if target != DEFAULT and target not in known_targets:
            yield f"unknown hint key {shown_input(target)}"
        elif isinstance(values, DictionaryAttr):
            for key, value in values.data.items():
                yield from _mistake_of(op.name, target, key, value)


def _mistake_of(op: str, target: str, key: str, value: Attribute) -> Iterator[str]:
    hint = _HINTS.get(key)
    if hint is None or not hint.where(op):
        label = did_you_mean(key, _HINTS)
        yield f"{shown_input(key)} is not known hint for current Operation" + (
            f", {label}" if label else ""
        )
        return
    where = f"{target}.{key}"
    is_flag = isinstance(value, IntegerAttr) and getattr(value.type, "bitwidth", 0) == 1
    if not isinstance(value, IntegerAttr) or hint.is_flag != is_flag:
        yield f"{'boolean' if hint.is_flag else 'integer'} value expected for {where}"
    elif not hint.legal(value.value.data):
        yield f"{hint.wanted} {where}"
