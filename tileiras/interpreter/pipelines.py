"""Agents and pipelines of nv_tileas: the producer runs to its end, then the consumers.

The producer only reads memory that nobody writes meanwhile and does not depend on the consumers, so
that order is one of those that can happen. What could hang is checked by counting: the slot that a
consumer waits for must have been filled, and before that handed back as often as the ring is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import Operation

from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.interpreter import tensor_views
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array
from tileiras.interpreter.memory_access import load_tile
from tileiras.interpreter.state import BlockRun, EffectRule
from tileiras.interpreter.thread_rules import WholeTiles, dot_rule, placed
from tileiras.interpreter.twins import Twins


@dataclass(frozen=True)
class SharedTile:
    """What a copy has left in a slot: a tile whose dim `axis` is contiguous."""

    values: Array
    axis: int


@dataclass
class Ring:
    """A pipeline: the slots filled so far, by offset, and how far the consumers are."""

    stages: int
    slots: list[dict[int, SharedTile]] = field(default_factory=list)
    is_open: bool = False
    waited: int = 0
    released: int = 0


def _create(run: BlockRun, op: pl.CreatePipelineOp) -> list[Ring]:
    return [Ring(op.stages.data)]


def _agent_switch(run: BlockRun, op: pl.AgentSwitchOp) -> list[Any]:
    """Both agents, one after the other; each ends in a return of its own."""
    run.run_region(op.producer, ())
    run.run_region(op.consumer, ())
    return []


def _tensor_map(run: BlockRun, op: pl.MakeTensorMapOp) -> list[Any]:
    return [run.value(op.view)]


def _acquire(run: BlockRun, op: pl.ProducerAcquireOp) -> list[Any]:
    ring: Ring = run.value(op.pipeline)
    if ring.is_open:
        raise InterpreterError("the slot before has not been left", op)
    ring.is_open = True
    ring.slots.append({})
    return []


def _advance(run: BlockRun, op: pl.ProducerAdvanceOp) -> list[Any]:
    run.value(op.pipeline).is_open = False
    return []


def _drain(run: BlockRun, op: pl.ProducerDrainOp) -> list[Any]:
    return []


def _tma_load(run: BlockRun, op: pl.TmaLoadOp) -> list[Any]:
    """The tile of a view, padded where it is out of bounds."""
    ring: Ring = run.value(op.pipeline)
    if not ring.is_open:
        raise InterpreterError("a copy goes into a slot that has not been acquired", op)
    view = run.value(op.view)
    tile = load_tile(run.memory, view, tensor_views.tile_elements(view, run.values(op.indices)))
    ring.slots[-1][op.offset.data] = SharedTile(tile, op.axis.data)
    return []


def _wait(run: BlockRun, op: pl.ConsumerWaitOp) -> list[Array]:
    """The tiles of the next slot, turned to how the products read them."""
    ring: Ring = run.value(op.pipeline)
    number = ring.waited
    if number >= len(ring.slots):
        raise InterpreterError(f"slot {number} is never filled: the consumers hang", op)
    if number - ring.released >= ring.stages:
        raise InterpreterError(f"slot {number} is waited for before one is handed back", op)
    ring.waited += 1
    return [_read_tile(ring.slots[number], result.type, op) for result in op.results]


def _read_tile(slot: dict[int, SharedTile], type_: Any, op: Operation) -> Array:
    """A tile of a slot in the shape and orientation of a shared tile."""
    found = slot.get(type_.offset.data)
    if found is None:
        raise InterpreterError(f"nothing was copied to byte {type_.offset.data} of the slot", op)
    inner = found.values.shape[found.axis]
    rows = np.moveaxis(found.values, found.axis, -1).reshape(-1, inner)
    tile = rows if type_.major.data == 1 else rows.T
    if tile.shape != type_.shape:
        raise InterpreterError(f"a tile of {tile.shape} is read as one of {type_.shape}", op)
    return _cut_to_tf32(tile) if isinstance(type_.element_type, FloatTF32Type) else tile


def _cut_to_tf32(tile: Array) -> Array:
    """f32 values as tensor cores read them: without the low 13 bits."""
    return (tile.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)


def _release(run: BlockRun, op: pl.ConsumerReleaseOp) -> list[Any]:
    ring: Ring = run.value(op.pipeline)
    ring.released = max(ring.released, ring.waited - op.keep.data)
    return []


def _wgmma(twins: Twins) -> EffectRule:
    """The product of two shared tiles."""
    products = dot_rule(twins)

    def act(run: BlockRun, op: pl.WgmmaDotOp) -> list[Array]:
        operands: Sequence[Array] = WholeTiles(run, op).values(op.operands)
        return placed(op, [products(op, *operands)])

    return act


def _dot_wait(run: BlockRun, op: pl.DotWaitOp) -> list[Any]:
    return [run.value(op.acc)]


def effect_rules(twins: Twins) -> dict[type[Operation], EffectRule]:
    """Operations of agents and pipelines by class."""
    return {
        pl.AgentSwitchOp: _agent_switch,
        pl.ConsumerReleaseOp: _release,
        pl.ConsumerWaitOp: _wait,
        pl.CreatePipelineOp: _create,
        pl.DotWaitOp: _dot_wait,
        pl.MakeTensorMapOp: _tensor_map,
        pl.ProducerAcquireOp: _acquire,
        pl.ProducerAdvanceOp: _advance,
        pl.ProducerDrainOp: _drain,
        pl.TmaLoadOp: _tma_load,
        pl.WgmmaDotOp: _wgmma(twins),
    }
