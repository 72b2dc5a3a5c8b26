"""Branches and exits (PTX ISA, "Control Flow Instructions"), and what only costs time."""

from __future__ import annotations

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.program import Targets
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.schedule import exit_threads
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.types import U32


@rule("bra")
def branch(d: Decoder) -> Execute:
    """`bra target`."""
    d.flag("uni")
    d.count(1)
    target = d.target(0)
    d.is_control = True

    def run(cta: Cta, on: Active) -> None:
        cta.pc[on.mask] = target.index

    return run


@rule("brx")
def indexed_branch(d: Decoder) -> Execute:
    """`brx.idx index, list`."""
    if not d.flag("idx"):
        d.error("expected .idx")
    d.flag("uni")
    d.count(2)
    index, table = d.src(0, U32), d.operands[1]
    if not isinstance(table, Targets):
        d.error("expected a list of branch targets")
    targets = table.targets
    line = d.line
    d.is_control = True

    def run(cta: Cta, on: Active) -> None:
        chosen = spread(index(cta), cta)[on.index].astype(np.int64)
        if (chosen >= len(targets)).any():
            cta.fault(line, f"index {int(chosen.max())} of {len(targets)} branch targets", on.first)
        cta.pc[on.index] = np.array([target.index for target in targets])[chosen]

    return run


@rule("ret", "exit")
def leave(d: Decoder) -> Execute:
    """Ends the threads; a `ret` in a called function was made a branch."""
    d.flag("uni")
    d.count(0)
    d.is_control = True
    return exit_threads


@rule("trap")
def trap(d: Decoder) -> Execute:
    """Ends the run with an error."""
    line = d.line

    def run(cta: Cta, on: Active) -> None:
        cta.fault(line, "trap", on.first)

    return run


@rule("call")
def system_call(d: Decoder) -> Execute:
    """Functions without a body: `vprintf` says nothing, `__assertfail` ends the run."""
    if d.flag("vprintf"):
        return _nothing
    if d.flag("__assertfail"):
        return trap(d)
    return d.error(f"no function '{'.'.join(d.modifiers)}' is known")


def _nothing(cta: Cta, on: Active) -> None:
    """An instruction without an effect that could be seen."""


@rule("nanosleep")
def nanosleep(d: Decoder) -> Execute:
    """Lets the other threads go first."""
    d.type()
    d.count(1)
    d.is_control = True

    def run(cta: Cta, on: Active) -> None:
        cta.pc[on.mask] += 1
        cta.yielded[on.mask] = True

    return run


@rule(
    "griddepcontrol",
    "setmaxnreg",
    "pmevent",
    "brkpt",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "createpolicy",
)
def hint(d: Decoder) -> Execute:
    """Instructions without an effect on results: hints to caches, registers of a warp.

    A grid here begins when what it depends on has ended; `createpolicy` makes 0.
    """
    if d.opcode == "createpolicy":
        from tileiras.interpreter.ptx.types import B64

        write = d.dst(0, B64)
        d.modifiers.clear()
        return lambda cta, on: write(cta, on, np.zeros(1, np.uint64))
    if d.opcode == "setmaxnreg":
        _check_register_count(d)
    d.modifiers.clear()
    return _nothing


def _check_register_count(d: Decoder) -> None:
    count = getattr(d.operands[0], "value", None)
    if not isinstance(count, int) or not 24 <= count <= 256 or count % 8:
        d.error("expected a multiple of 8 between 24 and 256")
