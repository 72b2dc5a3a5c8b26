"""Inline PTX that lowerings use, by what it does; unknown text is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from simulated_ops import Machine, Value, element_bits, from_float, read, signed, to_float, write
from xdsl.dialects.builtin import bf16, f16, f32, f64

_ATOMIC = re.compile(
    r"(?:@\$(?P<guard>\d+) )?(?P<base>atom|red)(?:\.(?P<order>\w+))?\.(?P<scope>cta|gpu|sys)"
    r"\.global\.(?P<kind>[a-z]+)(?:\.noftz)?\.(?P<type>[a-z]+\d+) (?P<args>[^;]*);"
)
_VECTOR_RED = re.compile(
    r"(?:@\$(?P<guard>\d+) )?red\.relaxed\.gpu\.global\.add(?:\.noftz)?(?:\.v[24])?"
    r"\.(?P<type>f32|f16|bf16)(?P<pairs>x2)? \[\$(?P<pointer>\d+)\], \{?(?P<words>[$\d, ]+)\}?;"
)
_FLOATS = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
_WIDENING = re.compile(r"cvt\.rn\.f16x2\.(?P<pair>\w+) ")
_NARROWING = re.compile(r"cvt\.rn\.satfinite\.(?P<pair>e4m3x2|e5m2x2)\.f32 \$0, \$1, \$2;")
_PAIRS = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2x2": (ml_dtypes.float8_e5m2, 8),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 4),
}
"""Small floats that come in pairs: what they are and the bits of each."""
_HARMLESS = (
    "fence.proxy.alias;",
    "{ .reg .pred p; .reg .b32 t; WAIT: atom.acquire.gpu.global.cas.b32 t, [$0], 0, 1; "
    "setp.ne.b32 p, t, 0; @p bra WAIT; }",
    "st.release.gpu.global.b32 [$0], 0;",
    "nanosleep.u32 $0;",
)
"""Text that changes nothing where tile blocks run one after another."""


def run_asm(machine: Machine, op: Any) -> Value | None:
    """Runs one inline assembly op."""
    template = op.template.data
    if template in _HARMLESS:
        return None
    if "bar.red.or" in template:
        machine.shared.barrier()
        (flags,) = (machine.values[value] for value in op.arguments)
        return np.full(machine.threads, int(flags.any()), np.uint64)
    if (widening := _WIDENING.search(template)) is not None:
        (pairs,) = (machine.values[value] for value in op.arguments)
        return _widened(pairs, *_PAIRS[widening["pair"]])
    if template == "ex2.approx.ftz.f32 $0, $1;":
        (numbers,) = (to_float(machine.values[value], f32) for value in op.arguments)
        powers = np.exp2(numbers.astype(np.float32))
        return from_float(np.where(powers < np.finfo(np.float32).tiny, 0, powers), f32)
    if template == "cvt.rzi.s64.f64 $0, $1;":
        (numbers,) = (to_float(machine.values[value], f64) for value in op.arguments)
        return np.trunc(numbers).astype(np.int64).view(np.uint64)
    if template == "cvt.rz.f32.f64 $0, $1;":
        (numbers,) = (to_float(machine.values[value], f64) for value in op.arguments)
        nearest = numbers.astype(np.float32)
        too_far = np.abs(nearest.astype(np.float64)) > np.abs(numbers)
        return from_float(np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest), f32)
    if (narrowing := _NARROWING.fullmatch(template)) is not None:
        high, low = (to_float(machine.values[value], f32) for value in op.arguments)
        return _narrowed(high, low, *_PAIRS[narrowing["pair"]])
    vector = _VECTOR_RED.fullmatch(template)
    if vector is not None and (vector["pairs"] or "," in vector["words"]):
        _vector_red(machine, op, vector)
        return None
    match = _ATOMIC.search(template)
    if match is None:
        raise NotImplementedError(f"the simulator does not know the PTX '{template}'")
    return _atomic(machine, op, match)


def _narrowed(high: np.ndarray, low: np.ndarray, dtype: Any, bits: int) -> Value:
    """Two f32 as a pair of small floats, finite ones at most."""
    most = float(ml_dtypes.finfo(dtype).max)
    halves = [
        np.clip(value, -most, most).astype(dtype).view(np.uint8).astype(np.uint64)
        for value in (low, high)
    ]
    return halves[0] | halves[1] << np.uint64(bits)


def _widened(pairs: Value, dtype: Any, bits: int) -> Value:
    """Two small floats as the f16s in the halves of a word."""
    word = np.zeros(pairs.shape, np.uint64)
    for half in range(2):
        small = (pairs >> np.uint64(half * bits)) & np.uint64((1 << bits) - 1)
        wide = small.astype(np.uint8).view(dtype).astype(np.float16).view(np.uint16)
        word |= wide.astype(np.uint64) << np.uint64(16 * half)
    return word


def _atomic(machine: Machine, op: Any, match: re.Match[str]) -> Value | None:
    """Threads one after another, and the elements of a vector one after another."""
    names = [name.strip(" []") for name in match["args"].split(",")]
    inputs = names[1:] if match["base"] == "atom" else names
    first_input = 1 if op.result is not None else 0
    operands = [machine.values[value] for value in op.arguments]

    def rows(name: str) -> Value:
        value = operands[int(name[1:]) - first_input]
        return value.reshape(machine.threads, -1)

    pointers, *values = (rows(name) for name in inputs)
    guard = rows(f"${match['guard']}") != 0 if match["guard"] else np.ones(pointers.shape, bool)
    size = int(re.sub(r"\D", "", match["type"])) // 8
    old = np.zeros(pointers.shape, np.uint64)
    tied = _tied_input(op, first_input)
    if tied is not None:
        old[...] = operands[tied].reshape(pointers.shape)
    for lane in range(pointers.shape[1]):
        for thread in np.flatnonzero(guard[:, lane]):
            place = pointers[thread : thread + 1, lane]
            raw = np.zeros((1, 8), np.uint8)
            raw[:, :size] = read(machine, machine.thread_ids[:1], place, size)
            before = raw.view(np.uint64)[:, 0]
            args = [value[thread : thread + 1, lane] for value in values]
            after = _combine(match["kind"], match["type"], before, args)
            data = np.ascontiguousarray(after.astype(np.uint64))[:, None].view(np.uint8)
            write(machine, machine.thread_ids[:1], place, data[:, :size])
            old[thread, lane] = before[0]
    if op.result is None:
        return None
    return old if machine.values[op.arguments[0]].ndim == 2 else old[:, 0]


def _vector_red(machine: Machine, op: Any, match: re.Match[str]) -> None:
    """Neighbouring elements, aligned to their size together."""
    operands = [machine.values[value].reshape(machine.threads) for value in op.arguments]
    words = [operands[int(name.strip(" $"))] for name in match["words"].split(",")]
    pointers = operands[int(match["pointer"])]
    guard = operands[int(match["guard"])] != 0 if match["guard"] else np.ones(len(pointers), bool)
    size = int(re.sub(r"\D", "", match["type"])) // 8
    assert not np.any(pointers[guard] % np.uint64(4 * len(words)))
    mask = np.uint64((1 << 8 * size) - 1)
    elements = [(w >> np.uint64(shift)) & mask for w in words for shift in range(0, 32, 8 * size)]
    for thread in np.flatnonzero(guard):
        for number, element in enumerate(elements):
            place = pointers[thread : thread + 1] + np.uint64(number * size)
            raw = np.zeros((1, 8), np.uint8)
            raw[:, :size] = read(machine, machine.thread_ids[:1], place, size)
            before = raw.view(np.uint64)[:, 0]
            after = _combine("add", match["type"], before, [element[thread : thread + 1]])
            data = np.ascontiguousarray(after.astype(np.uint64))[:, None].view(np.uint8)
            write(machine, machine.thread_ids[:1], place, data[:, :size])


def _tied_input(op: Any, first_input: int) -> int | None:
    """The operand that the output starts as."""
    inputs = op.constraints.data.split(",")[first_input:]
    return inputs.index("0") if "0" in inputs else None


def _combine(kind: str, type_: str, old: Value, args: list[Value]) -> Value:
    width = int(re.sub(r"\D", "", type_))
    if type_ in _FLOATS:
        fmt = _FLOATS[type_]
        return from_float(to_float(old, fmt) + to_float(args[0], fmt), fmt)
    numbers: Callable[[Value], Any] = (
        (lambda v: signed(v, width)) if type_[0] == "s" else (lambda v: v)
    )
    match kind:
        case "cas":
            return np.where(old == args[0], args[1], old)
        case "exch":
            return args[0]
        case "add":
            return old + args[0]
        case "and":
            return old & args[0]
        case "or":
            return old | args[0]
        case "xor":
            return old ^ args[0]
        case "min" | "max":
            pick = np.minimum if kind == "min" else np.maximum
            return np.asarray(pick(numbers(old), numbers(args[0]))).view(np.uint64)
        case _:
            raise NotImplementedError(f"the simulator has no atomic '{kind}'")


__all__ = ["element_bits", "run_asm"]
