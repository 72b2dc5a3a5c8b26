"""What the operations of `cutlass` mean: which barriers a thread waits for, and where it arrives.

Numbers are static here, so that states, stages and tiles are the functions of the dialect itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tileiras.dialects.cute.operation import CuteOp, value_of_type
from tileiras.dialects.cute_nvgpu.launch_control import ANSWER_WORDS
from tileiras.dialects.cutlass.pipelines import phase_of, stage_of
from tileiras.dialects.cutlass.schedulers import work_count
from tileiras.dialects.cutlass.values import (
    TMA_KINDS,
    Pipeline,
    PipelineState,
    SequenceBarrier,
)
from tileiras.interpreter.cute_instructions import Rule, answer_all, answer_at, is_over
from tileiras.interpreter.cute_state import Cta, Pointer

WAITING = (
    "cutlass.producer_acquire",
    "cutlass.producer_tail",
    "cutlass.consumer_wait",
    "cutlass.sequence_wait",
    "cutlass.request_next_work",
)
"""Operations that wait for phases of barriers."""


def _full(pipeline: Pipeline, state: PipelineState) -> Pointer:
    return pipeline.pointer.advanced(stage_of(state))


def _empty(pipeline: Pipeline, state: PipelineState) -> Pointer:
    return pipeline.pointer.advanced(pipeline.stages + int(str(stage_of(state))))


def waits_of(cta: Cta, op: CuteOp, operands: list[Any]) -> list[list[Any]]:
    """The waits that an operation begins with, one after the other: (barrier, parity)."""
    if op.name not in WAITING:
        return []
    if op.name == "cutlass.sequence_wait":
        made, group, state = operands
        phase = (int(str(phase_of(state))) + (group == 0)) % 2
        return [[_turn(made, group, state), phase]]
    pipeline, state, *token = operands
    if op.name == "cutlass.request_next_work":
        # Each CTA has got the answer before, the first one asks when all have read it.
        full = [_full(pipeline, state), phase_of(state)]
        return [full, [_empty(pipeline, state), phase_of(state)]][: 2 - (cta.rank != 0)]
    if pipeline.kind == "clc" and op.name == "cutlass.producer_tail":
        token = [cta.rank != 0]
    if not pipeline.barriers or any(token):
        return []
    if op.name == "cutlass.consumer_wait":
        return [[_full(pipeline, state), phase_of(state)]]
    ahead = pipeline.stages if op.name == "cutlass.producer_tail" else 1
    states = [replace(state, count=state.count + number) for number in range(ahead)]
    return [[_empty(pipeline, each), phase_of(each)] for each in states]


def _turn(made: SequenceBarrier, group: int, state: PipelineState) -> Pointer:
    stage = int(str(stage_of(state)))
    return made.pointer.advanced(stage * made.length + group % made.length)


def _make_pipeline(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> Pipeline:
    made: Pipeline = value_of_type(op.outputs[0].type)
    if not made.barriers:
        return made
    barriers: Pointer = operands[0].engine
    if thread == 0:
        for stage in range(made.stages):
            cta.make_barrier(barriers.advanced(stage), made.arrivals[0])
            cta.make_barrier(barriers.advanced(made.stages + stage), made.arrivals[1])
    return replace(made, pointer=barriers)


def _make_sequence(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> SequenceBarrier:
    made: SequenceBarrier = value_of_type(op.outputs[0].type)
    barriers: Pointer = operands[0].engine
    if thread == 0:
        for number in range(made.barriers):
            cta.make_barrier(barriers.advanced(number), made.arrivals)
    return replace(made, pointer=barriers)


def _acquired(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """The stage is empty now: the producer arrives and announces what TMA will bring."""
    pipeline, state = operands[:2]
    if pipeline.kind in TMA_KINDS and cta is cta.group(pipeline.ctas)[0]:
        cta.barrier(_full(pipeline, state)).arrive(1, pipeline.bytes)


def _commit(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    pipeline, state = operands
    if pipeline.barriers and pipeline.kind not in TMA_KINDS:
        for each in cta.group(pipeline.ctas):
            each.barrier(_in(each, cta, _full(pipeline, state))).arrive()


def _in(other: Cta, cta: Cta, barrier: Pointer) -> Pointer:
    """The barrier of the same place in another CTA."""
    return barrier if other is cta else cta.in_peer(barrier, other.rank)


def _release(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    pipeline, state, *rank = operands
    empty = _empty(pipeline, state)
    if rank:
        cta, empty = cta.peer(rank[0]), cta.in_peer(empty, rank[0])
    if pipeline.kind == "clc":
        first = cta.peer(0)
        first.barrier(_in(first, cta, empty)).arrive()
        return
    ctas = cta.group(pipeline.ctas)
    if pipeline.family == "umma_async":
        ctas = ctas[:1]
    for each in ctas:
        each.barrier(_in(each, cta, empty)).arrive()


def _is_over(place: Callable[[Pipeline, PipelineState], Pointer]) -> Rule:
    """Whether the phase of a stage's barrier is over."""

    def rule(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> bool:
        pipeline, state = operands
        return is_over(cta, [place(pipeline, state), phase_of(state)])

    return rule


def _pass_on(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    made, group, state = operands
    cta.barrier(_turn(made, group + 1, state)).arrive()


def _fetch(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> int:
    counter: Pointer = operands[1]
    old = int(counter.memory[counter.at(0)])
    counter.memory[counter.at(0)] = old + 1
    return cta.grid[0] + old


def _request(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    pipeline, state, answers = operands
    full = _full(pipeline, state)
    cta.barrier(full).arrive(1, pipeline.bytes)
    if cta.rank == 0:
        place = answers.engine.advanced(int(str(stage_of(state))) * ANSWER_WORDS)
        answer_all(cta, place, full)


def _next_work(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> Any:
    scheduler, _, state, answers = operands
    place = answers.engine.advanced(int(str(stage_of(state))) * ANSWER_WORDS)
    x, *_, found = answer_at(place)
    return x // cta.cluster.shape[0] if found else work_count(scheduler)


def _waited(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """Nothing is left to do after the wait."""


CUTLASS_RULES: dict[str, Rule] = {
    "cutlass.make_pipeline": _make_pipeline,
    "cutlass.make_sequence_barrier": _make_sequence,
    "cutlass.producer_acquire": _acquired,
    "cutlass.producer_commit": _commit,
    "cutlass.producer_tail": _waited,
    "cutlass.consumer_wait": _waited,
    "cutlass.consumer_release": _release,
    "cutlass.producer_try_acquire": _is_over(_empty),
    "cutlass.consumer_try_wait": _is_over(_full),
    "cutlass.producer_get_barrier": lambda cta, thread, op, operands: _full(*operands),
    "cutlass.consumer_get_barrier": lambda cta, thread, op, operands: _empty(*operands),
    "cutlass.sequence_wait": _waited,
    "cutlass.sequence_arrive": _pass_on,
    "cutlass.initial_work": lambda cta, thread, op, operands: cta.block[0],
    "cutlass.fetch_next_work": _fetch,
    "cutlass.request_next_work": _request,
    "cutlass.get_next_work": _next_work,
    "cutlass.work_step": lambda cta, thread, op, operands: cta.grid[0],
}
"""Operations that act, or ask the launch; the others are functions of the algebra."""
