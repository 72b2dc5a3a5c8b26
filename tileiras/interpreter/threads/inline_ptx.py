"""Inline PTX that lowerings use, by patterns of its text; unknown text is an error."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads.barriers import meet
from tileiras.interpreter.threads.inline_atomics import ATOMIC, VECTOR_RED, atomic, vector_red
from tileiras.interpreter.threads.inline_conversions import CONVERSIONS
from tileiras.interpreter.threads.meeting import MeetingPoint
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import Lockstep
from tileiras.interpreter.threads.values import Value

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


def _text(exact: str) -> str:
    """A pattern that is this text alone."""
    return f"^{re.escape(exact)}$"


_FORMS: tuple[tuple[str, PtxRule], ...] = (
    (_text("fence.proxy.alias;"), _nothing),
    (_text("nanosleep.u32 $0;"), _nothing),
    (_text("@$1 prefetch.global.L2 [$0];"), _nothing),
    (
        _text(
            "{ .reg .pred p; .reg .b32 t; WAIT: atom.acquire.gpu.global.cas.b32 t, [$0], 0, 1; "
            "setp.ne.b32 p, t, 0; @p bra WAIT; }"
        ),
        _nothing,
    ),
    (_text("st.release.gpu.global.b32 [$0], 0;"), _nothing),
    (r"bar\.red\.or\.pred q, (?P<number>\d+)(?:, (?P<threads>\d+))?, p;", _any_thread),
    *CONVERSIONS,
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
