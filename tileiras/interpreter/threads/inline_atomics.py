"""Atomics in inline PTX: threads one after another, and the elements of a vector, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, f64

from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.access import read, write
from tileiras.interpreter.threads.state import Lockstep
from tileiras.interpreter.threads.values import Value, from_float, signed, to_float

ATOMIC = (
    r"(?:@\$(?P<guard>\d+) )?(?P<base>atom|red)(?:\.(?P<order>\w+))?\.(?P<scope>cta|gpu|sys)"
    r"\.global\.(?P<kind>[a-z]+)(?:\.noftz)?\.(?P<type>[a-z]+\d+) (?P<args>[^;]*);"
)
"""One element for each thread or lane."""
_RED = r"^(?:@\$(?P<guard>\d+) )?red\.relaxed\.gpu\.global\.add(?:\.noftz)?(?:\.v[24])?"
_RED += r"\.(?P<type>f32|f16|bf16)"
VECTOR_RED = (
    rf"{_RED}(?:x2 \[\$(?P<pointer>\d+)\], \{{?(?P<words>[$\d, ]+)\}}?;$"
    r"| \[\$(?P<wide_pointer>\d+)\], \{(?P<wide_words>[$\d ]+,[$\d, ]+)\};$)"
)
"""Neighbouring elements: pairs in words, or several words."""
_FLOATS: dict[str, Any] = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}


def _bits(type_: str) -> int:
    return int(re.sub(r"\D", "", type_))


_COMBINATIONS: dict[str, Callable[..., Any]] = {
    "cas": lambda old, wanted, new: np.where(old == wanted, new, old),
    "exch": lambda old, new: new,
    "add": lambda old, new: old + new,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "min": np.minimum,
    "max": np.maximum,
}


def _combined(kind: str, type_: str, old: Value, args: Sequence[Value]) -> Value:
    """What is in memory afterwards."""
    combine = _COMBINATIONS[kind]
    if type_ in _FLOATS:
        fmt = _FLOATS[type_]
        return from_float(combine(to_float(old, fmt), to_float(args[0], fmt)), fmt)
    if type_[0] == "s" and kind in ("min", "max"):
        width = _bits(type_)
        numbers = combine(signed(old, width), signed(args[0], width))
        return np.asarray(numbers).view(np.uint64)
    return combine(old, *args)


def _change(run: Lockstep, place: Value, type_: str, change: Callable[[Value], Value]) -> np.uint64:
    """Replaces an element in global memory; returns what was there."""
    size, anyone = _bits(type_) // 8, run.ids[:1]
    raw = np.zeros((1, 8), np.uint8)
    raw[:, :size] = read(run, anyone, place, size)
    before = raw.view(np.uint64)[:, 0]
    after = np.ascontiguousarray(change(before).astype(np.uint64))
    write(run, anyone, place, after[:, None].view(np.uint8)[:, :size])
    return before[0]


def atomic(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value | None:
    """One operation for each thread and lane whose guard holds."""
    names = [name.strip(" []") for name in match["args"].split(",")]
    inputs = names[1:] if match["base"] == "atom" else names
    first_input = 1 if op.result is not None else 0
    operands = run.operands(op.arguments)

    def rows(name: str) -> Value:
        return operands[int(name.removeprefix("$")) - first_input].reshape(run.count, -1)

    pointers, *values = (rows(name) for name in inputs)
    guard = np.ones(pointers.shape, np.bool_)
    if match["guard"]:
        guard = rows(match["guard"]) != 0
    old = np.zeros(pointers.shape, np.uint64)
    tied = _tied_input(op, first_input)
    if tied is not None:
        old[...] = operands[tied].reshape(pointers.shape)
    kind, type_ = match["kind"], match["type"]
    for lane in range(pointers.shape[1]):
        for row in np.flatnonzero(guard[:, lane]):
            args = [value[row : row + 1, lane] for value in values]
            place = pointers[row : row + 1, lane]
            old[row, lane] = _change(
                run, place, type_, lambda before, args=args: _combined(kind, type_, before, args)
            )
    if op.result is None:
        return None
    return old if run.values[op.arguments[0]].ndim == 2 else old[:, 0]


def _tied_input(op: InlineAsmOp, first_input: int) -> int | None:
    """The operand that the output starts as."""
    inputs = op.constraints.data.split(",")[first_input:]
    return inputs.index("0") if "0" in inputs else None


def vector_red(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> None:
    """Neighbouring elements, aligned to their size together."""
    operands = [value.reshape(run.count) for value in run.operands(op.arguments)]
    named = match["words"] or match["wide_words"]
    words = [operands[int(name.strip(" $"))] for name in named.split(",")]
    pointers = operands[int(match["pointer"] or match["wide_pointer"])]
    guard = operands[int(match["guard"])] != 0 if match["guard"] else pointers == pointers
    if np.any(pointers[guard] % np.uint64(4 * len(words))):
        raise InterpreterError(f"misaligned reduction of {4 * len(words)} bytes")
    type_ = match["type"]
    width = _bits(type_)
    mask = np.uint64((1 << width) - 1)
    elements = [(w >> np.uint64(shift)) & mask for w in words for shift in range(0, 32, width)]
    for row in np.flatnonzero(guard):
        for number, element in enumerate(elements):
            place = pointers[row : row + 1] + np.uint64(number * width // 8)
            new = element[row : row + 1]
            _change(run, place, type_, lambda old, new=new: _combined("add", type_, old, [new]))
