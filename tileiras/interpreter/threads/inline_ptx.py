"""Inline PTX that lowerings use, by patterns of its text; unknown text is an error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import f32, f64

from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads.barriers import meet
from tileiras.interpreter.threads.inline_atomics import ATOMIC, VECTOR_RED, atomic, vector_red
from tileiras.interpreter.threads.meeting import MeetingPoint
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import Lockstep
from tileiras.interpreter.threads.values import Value, from_float, to_float

_PAIRS: dict[str, tuple[Any, int]] = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 8),
    "e5m2x2": (ml_dtypes.float8_e5m2, 8),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 4),
}
"""Small floats that come in pairs: what they are and the bits of each."""

PtxRule = Callable[[Lockstep, InlineAsmOp, re.Match[str]], Value | Wait | None]
"""What text of a form does; the match has its parts."""


def _nothing(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> None:
    """What changes nothing where tile blocks run one after another."""


def _any_thread(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Wait:
    """A barrier that tells all of its threads whether any of them has a flag."""
    (flags,) = run.operands(op.arguments)
    cta, number = run.cta, int(match["number"])
    point = cta.named.setdefault(number, MeetingPoint())
    expected = int(match["threads"]) if match["threads"] else cta.live_threads
    key = (number, point.generation + 1)
    cta.flags[key] = cta.flags.get(key, False) or bool(flags.any())
    waiting = meet(run, point, run.count, expected)

    def learn() -> Value:
        waiting.then()
        return np.full(run.count, int(cta.flags[key]), np.uint64)

    return Wait(waiting.until, waiting.what, learn)


def _widened(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Two small floats as the f16s in the halves of a word."""
    (pairs,) = run.operands(op.arguments)
    dtype, bits = _PAIRS[match["pair"]]
    word = np.zeros(pairs.shape, np.uint64)
    for half in range(2):
        small = (pairs >> np.uint64(half * bits)) & np.uint64((1 << bits) - 1)
        wide = small.astype(np.uint8).view(dtype).astype(np.float16).view(np.uint16)
        word |= wide.astype(np.uint64) << np.uint64(16 * half)
    return word


def _narrowed(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    """Two f32 as a pair of small floats, finite ones at most."""
    dtype, bits = _PAIRS[match["pair"]]
    high, low = (to_float(value, f32) for value in run.operands(op.arguments))
    most = float(ml_dtypes.finfo(dtype).max)
    halves = [
        np.clip(value, -most, most).astype(dtype).view(np.uint8).astype(np.uint64)
        for value in (low, high)
    ]
    return halves[0] | halves[1] << np.uint64(bits)


def _power_of_two(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f32) for value in run.operands(op.arguments))
    powers = np.exp2(numbers)
    return from_float(np.where(powers < np.finfo(np.float32).tiny, 0, powers), f32)


def _hyperbolic_tangent(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f32) for value in run.operands(op.arguments))
    return from_float(np.tanh(numbers.astype(np.float64)), f32)


def _truncated(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f64) for value in run.operands(op.arguments))
    return np.trunc(numbers).astype(np.int64).view(np.uint64)


def _rounded_to_zero(run: Lockstep, op: InlineAsmOp, match: re.Match[str]) -> Value:
    (numbers,) = (to_float(value, f64) for value in run.operands(op.arguments))
    nearest = numbers.astype(np.float32)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(numbers)
    return from_float(np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest), f32)


def _text(exact: str) -> str:
    """A pattern that is this text alone."""
    return f"^{re.escape(exact)}$"


_FORMS: tuple[tuple[str, PtxRule], ...] = (
    (_text("fence.proxy.alias;"), _nothing),
    (_text("nanosleep.u32 $0;"), _nothing),
    (
        _text(
            "{ .reg .pred p; .reg .b32 t; WAIT: atom.acquire.gpu.global.cas.b32 t, [$0], 0, 1; "
            "setp.ne.b32 p, t, 0; @p bra WAIT; }"
        ),
        _nothing,
    ),
    (_text("st.release.gpu.global.b32 [$0], 0;"), _nothing),
    (r"bar\.red\.or\.pred q, (?P<number>\d+)(?:, (?P<threads>\d+))?, p;", _any_thread),
    (r"cvt\.rn\.f16x2\.(?P<pair>e4m3x2|e5m2x2|e2m1x2) ", _widened),
    (r"^cvt\.rn\.satfinite\.(?P<pair>e4m3x2|e5m2x2)\.f32 \$0, \$1, \$2;$", _narrowed),
    (_text("ex2.approx.ftz.f32 $0, $1;"), _power_of_two),
    (_text("tanh.approx.f32 $0, $1;"), _hyperbolic_tangent),
    (_text("cvt.rzi.s64.f64 $0, $1;"), _truncated),
    (_text("cvt.rz.f32.f64 $0, $1;"), _rounded_to_zero),
    (VECTOR_RED, vector_red),
    (ATOMIC, atomic),
)
"""Forms of text in the order in which they are tried, with their rules."""

FORMS = tuple((re.compile(pattern), rule) for pattern, rule in _FORMS)


def run_ptx_text(run: Lockstep, op: InlineAsmOp) -> Value | Wait | None:
    """Runs one inline assembly op."""
    template = op.template.data
    for form, rule in FORMS:
        match = form.search(template)
        if match is not None:
            return rule(run, op, match)
    raise UnknownOperationError(f"the interpreter does not know the PTX '{template}'")
