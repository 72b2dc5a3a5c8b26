"""Loads that are started in one iteration and finished in a later one.

A tile may be read once its group is known to be finished: of the groups that have been closed, all
but the `pending` newest ones at the time of the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.async_copy import AsyncCopyBase, ReadStageBase
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.memory_access import load_tile
from tileiras.interpreter.state import BlockRun, scalar
from tileiras.interpreter.tensor_views import view_access


@dataclass(frozen=True)
class StartedTile:
    """A tile under way, None if nothing is: its group, and for which indices it was loaded."""

    tile: Any
    group: int
    indices: tuple[int, ...]


def make_buffer(run: BlockRun, op: aa.CircularBufferOp | tas.AllocTensorOp) -> list[Any]:
    """Empty stages."""
    return [[None] * op.stages.data]


def put(run: BlockRun, op: AsyncCopyBase, tile: Any) -> list[Any]:
    """Leaves a tile, or None where nothing was loaded, in the stage: zeros are written then."""
    buffer, stage = run.value(op.buffer), scalar(run.value(op.stage))
    indices = tuple(scalar(index) for index in run.values(op.indices))
    before = buffer[stage]
    if before is not None and before.group >= run.loads.finished:
        raise InterpreterError("a stage is filled while an earlier copy may be under way", op)
    buffer[stage] = StartedTile(tile, run.loads.committed, indices)
    return []


def commit(run: BlockRun, op: aa.AsyncCommitGroupOp) -> list[Any]:
    """Closes the group."""
    run.loads.committed += 1
    return []


def wait(run: BlockRun, op: aa.AsyncWaitGroupOp) -> list[Any]:
    """All groups are over, or all but so many."""
    pending = op.pending.data if op.pending is not None else 0
    run.loads.finished = max(run.loads.finished, run.loads.committed - pending)
    return []


def finish(run: BlockRun, op: ReadStageBase) -> list[Any]:
    """The tile in the stage, if it has arrived and is the one that is asked for."""
    loads = run.loads
    if op.pending is not None:
        loads.finished = max(loads.finished, loads.committed - op.pending.data)
    started = run.value(op.buffer)[scalar(run.value(op.stage))]
    if started is None or started.tile is None or started.group >= loads.finished:
        raise InterpreterError("a tile is read before its load is finished", op)
    if started.indices != tuple(scalar(index) for index in run.values(op.indices)):
        raise InterpreterError("a stage holds another tile than the one that is read", op)
    return [started.tile, None]


def start(run: BlockRun, op: aa.AsyncCopyOp) -> list[Any]:
    """Loads the whole tile at once: it can be seen only when the load is finished."""
    if not run.value(op.predicate):
        return put(run, op, None)
    view, access = view_access(run, op)
    return put(run, op, load_tile(run.memory, view, access))
