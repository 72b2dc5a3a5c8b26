"""What threads are told about themselves, and what those of a warp tell each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.nvvm import threads
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.state import WARP, Lockstep, Rule
from tileiras.interpreter.threads.values import Value, masked, same_everywhere, signed

MULTIPROCESSORS = 5
"""SMs of the simulated GPU: few, so that tile blocks that divide work have several tiles."""


def _special_registers(run: Lockstep) -> dict[str, int]:
    """Registers that all threads of a CTA have alike."""
    cta, launch = run.cta, run.cta.launch
    shape = launch.cluster_shape
    found = {
        "cluster.ctarank": cta.rank,
        "cluster.nctarank": cta.cluster.size,
        "warpsize": WARP,
        "smid": 0,
        "nsmid": MULTIPROCESSORS,
    }
    for axis, name in enumerate("xyz"):
        found[f"ntid.{name}"] = cta.cluster.threads if axis == 0 else 1
        found[f"ctaid.{name}"] = cta.index[axis]
        found[f"nctaid.{name}"] = launch.grid[axis]
        found[f"clusterid.{name}"] = cta.index[axis] // shape[axis]
        found[f"nclusterid.{name}"] = launch.grid[axis] // shape[axis]
        found[f"cluster.ctaid.{name}"] = cta.index[axis] % shape[axis]
        found[f"cluster.nctaid.{name}"] = shape[axis]
    return found


def _special_register(run: Lockstep, op: threads.ReadSregOp) -> Value:
    """Threads are numbered along x."""
    match op.register.data:
        case "tid.x":
            return run.ids.astype(np.uint64)
        case "tid.y" | "tid.z":
            return same_everywhere(run.count, 0, op.result.type)
        case "laneid":
            return run.lanes.astype(np.uint64)
        case "warpid":
            return (run.ids // WARP).astype(np.uint64)
        case name:
            return same_everywhere(run.count, _special_registers(run)[name], op.result.type)


def by_warps(run: Lockstep, value: Value) -> Value:
    """(warps, 32, ...); the threads must be whole warps."""
    if run.count % WARP or (run.ids.reshape(-1, WARP)[:, 0] % WARP).any():
        raise InterpreterError("only some threads of a warp come here")
    return value.reshape(-1, WARP, *value.shape[1:])


def _shuffle(run: Lockstep, op: threads.ShflOp) -> Value:
    value, lane = run.values[op.value], run.lanes
    moved = run.values[op.offset].astype(np.int64)
    by_warps(run, value)
    match op.mode.data:
        case "idx":
            source = moved % WARP
        case "bfly":
            source = lane ^ moved
        case "up":
            source = np.where(lane >= moved, lane - moved, lane)
        case _:
            source = np.where(lane + moved < WARP, lane + moved, lane)
    return value[run.rows - lane + source]


_REDUCTIONS: dict[str, Callable[[Value], Value]] = {
    "add": lambda warps: warps.sum(axis=1),
    "and": lambda warps: np.bitwise_and.reduce(warps, axis=1),
    "or": lambda warps: np.bitwise_or.reduce(warps, axis=1),
    "xor": lambda warps: np.bitwise_xor.reduce(warps, axis=1),
    "umin": lambda warps: warps.min(axis=1),
    "umax": lambda warps: warps.max(axis=1),
    "min": lambda warps: signed(warps, 32).min(axis=1).view(np.uint64),
    "max": lambda warps: signed(warps, 32).max(axis=1).view(np.uint64),
}


def _reduce(run: Lockstep, op: threads.ReduxOp) -> Value:
    result = _REDUCTIONS[op.kind.data](by_warps(run, run.values[op.value]))
    return masked(np.repeat(result, WARP, axis=0), op.result.type)


_VOTES: dict[str, Callable[[np.ndarray], Any]] = {
    "all": lambda warps: warps.all(axis=1),
    "any": lambda warps: warps.any(axis=1),
    "uni": lambda warps: warps.all(axis=1) | ~warps.any(axis=1),
    "ballot": lambda warps: (warps.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1),
}


def _vote(run: Lockstep, op: threads.VoteOp) -> Value:
    result = _VOTES[op.mode.data](by_warps(run, run.values[op.predicate]) != 0)
    return np.repeat(result.astype(np.uint64), WARP)


def _elect(run: Lockstep, op: threads.ElectOp) -> Value:
    """The first lane."""
    return (run.lanes == 0).astype(np.uint64)


RULES: dict[type[Operation], Rule] = {
    threads.ReadSregOp: _special_register,
    threads.ShflOp: _shuffle,
    threads.ReduxOp: _reduce,
    threads.VoteOp: _vote,
    threads.ElectOp: _elect,
}
"""Operations that ask who a thread is, or concern its warp."""
