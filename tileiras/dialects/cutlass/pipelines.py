"""Pipelines: producers fill stages of shared memory, consumers read them, both in turn.

Whoever runs an operation does what it says: of several threads that act for one, the program
elects.
"""

from __future__ import annotations

from dataclasses import replace

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import PointerInfo, Tensor
from tileiras.dialects.cute_nvgpu.barriers import check_rank
from tileiras.dialects.cutlass.rows import check_storage, effect, row
from tileiras.dialects.cutlass.values import UNKNOWN_LEAF, Pipeline, PipelineState

BARRIER = PointerInfo("i64", "smem", 8)


def _make(written: Pipeline, storage: Tensor | None = None) -> Pipeline:
    check_storage(storage, written.barriers)
    return written


def _start(written: PipelineState) -> PipelineState:
    return replace(written, count=0)


def _advance(state: PipelineState) -> PipelineState:
    return replace(state, count=state.count + 1)


def stage_of(state: PipelineState) -> Leaf:
    """The stage of a state, `?` where that is of run time."""
    return state.count % state.stages if isinstance(state.count, int) else UNKNOWN_LEAF


def phase_of(state: PipelineState) -> Leaf:
    """The parity of the phase that a state waits for."""
    if not isinstance(state.count, int):
        return UNKNOWN_LEAF
    return (state.count // state.stages + state.flip) % 2


def _count(state: PipelineState) -> Leaf:
    return state.count


def check_state(pipeline: Pipeline, state: PipelineState, role: str) -> None:
    """AlgebraError for a state of other stages or of the other role."""
    if pipeline.stages != state.stages:
        raise AlgebraError(
            f"the pipeline has {pipeline.stages} stages, the state is one of {state.stages}"
        )
    if state.role != role:
        raise AlgebraError(f"expected the state of a {role}, found that of a {state.role}")


def _produces(pipeline: Pipeline, state: PipelineState, token: object = None) -> None:
    check_state(pipeline, state, "producer")


def _acquires(pipeline: Pipeline, state: PipelineState, token: object = None) -> None:
    _produces(pipeline, state)
    if pipeline.kind == "clc":
        raise AlgebraError("stages for work are acquired by 'cutlass.request_next_work'")


def _try_acquire(pipeline: Pipeline, state: PipelineState) -> Leaf:
    _full(pipeline, state)
    return UNKNOWN_LEAF


def _try_wait(pipeline: Pipeline, state: PipelineState) -> Leaf:
    _empty(pipeline, state)
    return UNKNOWN_LEAF


def _releases(pipeline: Pipeline, state: PipelineState, rank: Leaf | None = None) -> None:
    _consumes(pipeline, state)
    if rank is None:
        return
    check_rank(rank)
    if pipeline.family == "tma_umma":
        raise AlgebraError("tensor cores release the stage of their own CTA")
    if pipeline.kind == "clc":
        raise AlgebraError("stages for work are released in the first CTA of the cluster")
    if pipeline.ctas == 2:
        raise AlgebraError("stages of a pair are released in its first CTA")


def _consumes(pipeline: Pipeline, state: PipelineState, token: object = None) -> None:
    check_state(pipeline, state, "consumer")
    if pipeline.kind == "tma_store":
        raise AlgebraError("TMA itself consumes what is stored, nobody waits or releases")


def _full(pipeline: Pipeline, state: PipelineState) -> PointerInfo:
    """The barrier that a producer's copies arrive at."""
    check_state(pipeline, state, "producer")
    return _barrier_of(pipeline)


def _empty(pipeline: Pipeline, state: PipelineState) -> PointerInfo:
    """The barrier that consumers arrive at."""
    check_state(pipeline, state, "consumer")
    return _barrier_of(pipeline)


def _barrier_of(pipeline: Pipeline) -> PointerInfo:
    if not pipeline.barriers:
        raise AlgebraError(f"a pipeline of kind {pipeline.kind} has no barriers")
    return BARRIER


def _nothing() -> None:
    """There is nothing to check."""


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "make_pipeline",
        "tensor? -> pipeline",
        _make,
        "A pipeline; one thread makes its barriers: `full_s := P, empty_s := C arrivals`.",
        given=True,
    ),
    effect(
        "pipeline_init_wait",
        "",
        _nothing,
        "All threads of the cluster meet and know new barriers: `inits before < uses after`.",
    ),
    row(
        "make_pipeline_state",
        "-> state",
        _start,
        "Where a producer or a consumer begins: `count := 0`.",
        given=True,
    ),
    row("advance", "state -> state", _advance, "On to the next stage: `count' = count + 1`."),
    row("state_index", "state -> int", stage_of, "The stage: `index(s) = count mod stages`."),
    row(
        "state_phase",
        "state -> int",
        phase_of,
        "The parity to wait for: `phase(s) = count / stages mod 2`, a producer's the other one.",
    ),
    row("state_count", "state -> int", _count, "How often it was advanced: `count(s)`, from 0 on."),
    effect(
        "producer_acquire",
        "pipeline, state, bool?",
        _acquires,
        "Waits until the stage is empty, unless it is known to be, and announces its bytes: "
        "`empty_s, then full_s.tx += n`.",
    ),
    effect(
        "producer_try_acquire",
        "pipeline, state -> bool",
        _try_acquire,
        "Whether the stage is empty, asked while there is other work: `empty_s`.",
    ),
    effect(
        "producer_commit",
        "pipeline, state",
        _produces,
        "The stage is written, copies of TMA say so themselves: `full_s := full_s + 1`.",
    ),
    effect(
        "producer_tail",
        "pipeline, state",
        _produces,
        "Waits until consumers have read all: `empty_t for stages t = s, .., s + stages - 1`.",
    ),
    row(
        "producer_get_barrier",
        "pipeline, state -> ptr",
        _full,
        "Where copies into the stage arrive: `producer_get_barrier(p, s) = full_s`.",
    ),
    effect(
        "consumer_wait",
        "pipeline, state, bool?",
        _consumes,
        "Waits for a full stage, unless it is known to be: `full_s`.",
    ),
    effect(
        "consumer_try_wait",
        "pipeline, state -> bool",
        _try_wait,
        "Whether the stage is full, asked while there is other work: `full_s`.",
    ),
    effect(
        "consumer_release",
        "pipeline, state, int?",
        _releases,
        "The stage is read, by tensor cores when they are done; of the CTA of the cluster that has "
        "filled it, if one is given: `empty_s := empty_s + 1`.",
    ),
    row(
        "consumer_get_barrier",
        "pipeline, state -> ptr",
        _empty,
        "Where the stage is released: `consumer_get_barrier(p, s) = empty_s`.",
    ),
)
"""The operations of this chapter."""
