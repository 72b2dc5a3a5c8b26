"""Operations of `cutlass` as operations of nvvm: mbarriers, and numbers of the launch.

Rules are as in `instructions`. What a pipeline waits for and who arrives depends on its kind:

    kind         acquire                    commit              release
    async        empty                      arrive at full      arrive at empty
    cp_async     empty                      after cp.async      arrive at empty
    tma_async    empty, then expects bytes                      arrive at empty
    tma_umma     empty, then expects bytes                      tcgen05.commit to empty
    umma_async   empty                      tcgen05.commit      arrive at empty
    tma_store    stores have read           bulk.commit_group
    clc          empty, then asks                               arrive at empty

Of a pair of CTAs (`_2sm`) the bytes of both stages are expected at the first CTA's barrier, commits
arrive in both CTAs, and who has read arrives in the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import SSAValue

from tileiras.codegen.cute.kernel import Kernel
from tileiras.codegen.cute.launch_control import ask, read_answer
from tileiras.codegen.cute.memory import Address
from tileiras.codegen.cute.targets import need
from tileiras.codegen.target import Feature
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp, value_of_type
from tileiras.dialects.cute.values import Tensor
from tileiras.dialects.cute_nvgpu.launch_control import ANSWER_WORDS
from tileiras.dialects.cutlass.pipelines import phase_of, stage_of
from tileiras.dialects.cutlass.schedulers import tile_of, work_count
from tileiras.dialects.cutlass.values import (
    TMA_KINDS,
    Pipeline,
    PipelineState,
    SequenceBarrier,
    TileScheduler,
)

_Rule = Callable[[Kernel, CuteOp, Sequence[Any]], None]
i16 = IntegerType(16)
_FEATURES = {
    "async": Feature.MBARRIER_TRY_WAIT,
    "cp_async": Feature.MBARRIER_TRY_WAIT,
    "tma_async": Feature.TMA,
    "tma_umma": Feature.TCGEN05,
    "tma_umma_2sm": Feature.TCGEN05,
    "umma_async": Feature.TCGEN05,
    "umma_async_2sm": Feature.TCGEN05,
    "tma_store": Feature.TMA,
    "clc": Feature.CLUSTER_LAUNCH_CONTROL,
}
"""What a target needs for a pipeline of a kind."""


# Numbers of run time --------------------------------------------------------------------------


def _quotient(kernel: Kernel, number: Leaf, divisor: Leaf) -> tuple[Leaf, Leaf]:
    """Quotient and remainder of numbers of which none is negative."""
    if isinstance(divisor, int) and (isinstance(number, int) or divisor == 1):
        return (number, 0) if divisor == 1 else divmod(number, divisor)  # pyright: ignore
    first, second = kernel.integer(number), kernel.integer(divisor)
    quotient = kernel.symbol(kernel.thread.udiv(first, second))
    return quotient, kernel.symbol(kernel.thread.urem(first, second))


def _stage(kernel: Kernel, state: PipelineState) -> Leaf:
    known = stage_of(state)
    return known if isinstance(known, int) else _quotient(kernel, state.count, state.stages)[1]


def _phase(kernel: Kernel, state: PipelineState, flip: Leaf) -> Leaf:
    """The parity of the round that a state is in, turned by 1 where `flip` is."""
    if isinstance(state.count, int) and isinstance(flip, int):
        return phase_of(replace(state, role="consumer")) ^ flip  # pyright: ignore
    turns = _quotient(kernel, state.count, state.stages)[0]
    return _quotient(kernel, turns + flip, 2)[1]


def _parity(kernel: Kernel, phase: Leaf) -> SSAValue:
    return kernel.thread.trunc(kernel.integer(phase), i32)


# Barriers -------------------------------------------------------------------------------------


def _barrier(kernel: Kernel, barriers: Address, number: Leaf) -> SSAValue:
    return kernel.address_of(barriers.advanced(number))


def _full(kernel: Kernel, pipeline: Pipeline, state: PipelineState) -> SSAValue:
    return _barrier(kernel, pipeline.pointer, _stage(kernel, state))


def _empty(kernel: Kernel, pipeline: Pipeline, state: PipelineState) -> SSAValue:
    number = _stage(kernel, state) + pipeline.stages
    return _barrier(kernel, pipeline.pointer, number)


def _wait_empty(kernel: Kernel, pipeline: Pipeline, state: PipelineState) -> None:
    phase = _phase(kernel, state, state.flip)
    kernel.wait(_empty(kernel, pipeline, state), _parity(kernel, phase))


def _unless(kernel: Kernel, token: Any, wait: Callable[[], None]) -> None:
    """A wait that is not needed where a token says so."""
    if not isinstance(token, SSAValue):
        wait()
        return
    waiting, after = kernel.thread.new_block(), kernel.thread.new_block()
    kernel.thread.cond_br(token, after, waiting)
    kernel.enter(waiting)
    wait()
    kernel.thread.br(after)
    kernel.enter(after)


def _make_barriers(kernel: Kernel, barriers: Address, counts: Sequence[int]) -> None:
    """The first thread makes them."""
    first = kernel.thread.icmp("eq", kernel.thread.thread_id(), kernel.thread.i32(0))
    inside, after = kernel.thread.new_block(), kernel.thread.new_block()
    kernel.thread.cond_br(first, inside, after)
    kernel.enter(inside)
    for number, count in enumerate(counts):
        kernel.thread.mbarrier_init(_barrier(kernel, barriers, number), count)
    kernel.thread.fence_mbarrier_init()
    kernel.thread.br(after)
    kernel.enter(after)


def _make_pipeline(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    made: Pipeline = value_of_type(op.outputs[0].type)
    need(kernel.target, _FEATURES[made.kind], f"pipeline of kind {made.kind}")
    if made.barriers:
        barriers: Address = operands[0].engine
        producers, consumers = made.arrivals
        counts = [producers] * made.stages + [consumers] * made.stages
        _make_barriers(kernel, barriers, counts)
        made = replace(made, pointer=barriers)
    kernel.values[op.outputs[0]] = made


def _init_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    if kernel.func.cluster is None:
        kernel.thread.barrier()
        return
    kernel.thread.cluster_arrive()
    kernel.thread.cluster_wait()


def _index(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    kernel.values[op.outputs[0]] = _stage(kernel, operands[0])


def _state_phase(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    kernel.values[op.outputs[0]] = _phase(kernel, operands[0], operands[0].flip)


def _is_first(kernel: Kernel) -> SSAValue:
    """Whether this is the first CTA of its pair."""
    rank = kernel.word(kernel.special_register("cluster.ctarank"))
    return kernel.thread.icmp(
        "eq", kernel.thread.and_(rank, kernel.thread.i32(1)), kernel.thread.i32(0)
    )


def _tensor_cores_arrive(kernel: Kernel, pipeline: Pipeline, barrier: SSAValue) -> None:
    """When products are done, in both CTAs of a pair."""
    if not kernel.is_pair(pipeline.ctas):
        kernel.thread.tcgen05_commit(barrier)
        return
    rank = kernel.word(kernel.special_register("cluster.ctarank"))
    first = kernel.thread.and_(rank, kernel.thread.i32(-2))
    mask = kernel.thread.trunc(kernel.thread.shl(kernel.thread.i32(3), first), i16)
    kernel.thread.tcgen05_commit(barrier, multicast=mask, pair=True)


def _acquire(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state, *token = operands
    if pipeline.kind == "tma_store":
        kernel.thread.tma_store_wait(pipeline.stages - 1, read=True)
        return
    known = token[0] if token else None
    _unless(kernel, known, lambda: _wait_empty(kernel, pipeline, state))
    if pipeline.kind in TMA_KINDS:
        full = _full(kernel, pipeline, state)
        first = _is_first(kernel) if pipeline.ctas == 2 else None
        kernel.thread.mbarrier_expect_tx(full, pipeline.bytes, first)
    if pipeline.family == "umma_async":
        kernel.thread.tcgen05_fence("after_thread_sync")


def _commit(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state = operands
    match pipeline.family:
        case "async":
            kernel.thread.mbarrier_arrive(_full(kernel, pipeline, state))
        case "cp_async":
            kernel.thread.mbarrier_arrive_copies(_full(kernel, pipeline, state))
        case "umma_async":
            _tensor_cores_arrive(kernel, pipeline, _full(kernel, pipeline, state))
        case "tma_store":
            kernel.thread.tma_store_commit()
        case _:
            return


def _tail(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state = operands
    if pipeline.kind == "tma_store":
        kernel.thread.tma_store_wait(0)
        return

    def wait() -> None:
        for ahead in range(pipeline.stages):
            _wait_empty(kernel, pipeline, replace(state, count=state.count + ahead))

    if pipeline.kind == "clc":
        _in_first_cta(kernel, wait)
    else:
        wait()


def _in_first_cta(kernel: Kernel, action: Callable[[], None]) -> None:
    """What the first CTA of a cluster does alone."""
    if kernel.func.cluster is None:
        action()
        return
    rank = kernel.word(kernel.special_register("cluster.ctarank"))
    inside, after = kernel.thread.new_block(), kernel.thread.new_block()
    kernel.thread.cond_br(kernel.thread.icmp("eq", rank, kernel.thread.i32(0)), inside, after)
    kernel.enter(inside)
    action()
    kernel.thread.br(after)
    kernel.enter(after)


def _barrier_address(first: int) -> _Rule:
    """The address of a stage's barrier; of full stages, or `first` times all stages further."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        pipeline, state = operands
        number = _stage(kernel, state) + first * pipeline.stages
        kernel.values[op.outputs[0]] = pipeline.pointer.advanced(number)

    return rule


def _try_acquire(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state = operands
    parity = _parity(kernel, _phase(kernel, state, state.flip))
    kernel.values[op.outputs[0]] = kernel.try_wait(_empty(kernel, pipeline, state), parity)


def _try_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state = operands
    parity = _parity(kernel, _phase(kernel, state, 0))
    kernel.values[op.outputs[0]] = kernel.try_wait(_full(kernel, pipeline, state), parity)


def _consumer_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state, *token = operands

    def wait() -> None:
        phase = _phase(kernel, state, 0)
        kernel.wait(_full(kernel, pipeline, state), _parity(kernel, phase))

    _unless(kernel, token[0] if token else None, wait)
    if pipeline.family in ("tma_umma", "umma_async"):
        kernel.thread.tcgen05_fence("after_thread_sync")


def _release(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pipeline, state, *rank = operands
    empty = _empty(kernel, pipeline, state)
    if pipeline.family == "tma_umma":
        _tensor_cores_arrive(kernel, pipeline, empty)
        return
    if pipeline.family == "umma_async":
        kernel.thread.tcgen05_fence("before_thread_sync")
    if pipeline.kind == "clc":
        first = kernel.thread.i32(0) if kernel.func.cluster is not None else None
        kernel.thread.mbarrier_arrive(empty, cluster_cta=first)
        return
    if pipeline.ctas == 2:
        own = kernel.word(kernel.special_register("cluster.ctarank"))
        kernel.thread.mbarrier_arrive(
            empty, cluster_cta=kernel.thread.and_(own, kernel.thread.i32(-2))
        )
        return
    kernel.thread.mbarrier_arrive(empty, cluster_cta=kernel.rank(rank[0]) if rank else None)


# Sequences ------------------------------------------------------------------------------------


def _make_sequence(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    made: SequenceBarrier = value_of_type(op.outputs[0].type)
    need(kernel.target, Feature.MBARRIER_TRY_WAIT, "sequence barrier")
    barriers: Address = operands[0].engine
    _make_barriers(kernel, barriers, [made.arrivals] * made.barriers)
    kernel.values[op.outputs[0]] = replace(made, pointer=barriers)


def _turn(kernel: Kernel, made: SequenceBarrier, group: Leaf, state: PipelineState) -> SSAValue:
    return _barrier(kernel, made.pointer, _stage(kernel, state) * made.length + group)


def _sequence_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """Group 0 waits for the phase before: (length - group) / length is 1 for it alone."""
    made, group, state = operands
    first = _quotient(kernel, made.length + group * -1, made.length)[0]
    phase = _phase(kernel, state, first)
    kernel.wait(_turn(kernel, made, group, state), _parity(kernel, phase))


def _sequence_arrive(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    made, group, state = operands
    following = _quotient(kernel, group + 1, made.length)[1]
    kernel.thread.mbarrier_arrive(_turn(kernel, made, following, state))


# Schedulers -----------------------------------------------------------------------------------


def _register(name: str) -> _Rule:
    """A number of the launch."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        kernel.values[op.outputs[0]] = kernel.special_register(name)

    return rule


def _sizes(kernel: Kernel, scheduler: TileScheduler) -> tuple[Leaf, Leaf, Leaf]:
    """The tiles across groups as whole groups, those along them, and batches."""
    m, n, batches = scheduler.tiles
    across, along = (n, m) if scheduler.raster == "m" else (m, n)
    groups = _quotient(kernel, across + (scheduler.swizzle - 1), scheduler.swizzle)[0]
    return groups, along, batches


def _work_count(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    kernel.values[op.outputs[0]] = _count(kernel, operands[0])


def _count(kernel: Kernel, scheduler: TileScheduler) -> Leaf:
    known = work_count(scheduler)
    if isinstance(known, int):
        return known
    groups, along, batches = _sizes(kernel, scheduler)
    return groups * along * batches * scheduler.swizzle


def _fetch(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """The counter says how many have been fetched; the first `gridDim.x` need no fetching."""
    place = kernel.address_of(operands[1])
    template = "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;"
    old = kernel.thread.inline_asm(template, "=r,l,~{memory}", i32, [place], side_effects=True)
    assert old is not None
    fetched = kernel.symbol(kernel.thread.zext(old, i64))
    kernel.values[op.outputs[0]] = kernel.special_register("nctaid.x") + fetched


def _answer(kernel: Kernel, answers: Tensor, state: PipelineState) -> SSAValue:
    return kernel.pointer(answers, _stage(kernel, state) * ANSWER_WORDS)


def _request(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """Each CTA expects an answer; the first one asks for all, when all have read the one before."""
    pipeline, state, answers = operands
    full = _full(kernel, pipeline, state)
    # The answer before it has come: this arrival is one of the next phase.
    kernel.wait(full, _parity(kernel, _phase(kernel, state, state.flip)))
    kernel.thread.mbarrier_expect_tx(full, pipeline.bytes)

    def asks() -> None:
        _wait_empty(kernel, pipeline, state)
        everyone = kernel.func.cluster is not None
        ask(kernel, _answer(kernel, answers, state), full, everyone)

    _in_first_cta(kernel, asks)


def _next_work(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    scheduler, _, state, answers = operands
    x, *_, found = read_answer(kernel, _answer(kernel, answers, state))
    # It has been read before the next one is written in its place.
    kernel.thread.fence_proxy_async()
    work = _quotient(kernel, x, kernel.func.cluster_shape[0])[0]
    is_there = kernel.thread.icmp("ne", kernel.integer(found), kernel.thread.i64(0))
    count = kernel.integer(_count(kernel, scheduler))
    chosen = kernel.thread.select(is_there, kernel.integer(work), count)
    kernel.values[op.outputs[0]] = kernel.symbol(chosen)


def _is_valid(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    scheduler, work = operands
    count = _count(kernel, scheduler)
    if isinstance(count, int) and isinstance(work, int):
        kernel.values[op.outputs[0]] = work < count
        return
    found = kernel.thread.icmp("slt", kernel.integer(work), kernel.integer(count))
    kernel.values[op.outputs[0]] = found


def _current_work(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    scheduler, work = operands
    known = tile_of(scheduler, work)
    if not all(isinstance(part, int) for part in known):
        groups, along, batches = _sizes(kernel, scheduler)
        rest, inside = _quotient(kernel, work, scheduler.swizzle)
        rest, place = _quotient(kernel, rest, along)
        batch, group = (0, rest) if batches == 1 else _quotient(kernel, rest, groups)
        beside = group * scheduler.swizzle + inside
        known = (place, beside, batch) if scheduler.raster == "m" else (beside, place, batch)
    kernel.values[op.outputs[0]] = known


CUTLASS: dict[str, _Rule] = {
    "cutlass.make_pipeline": _make_pipeline,
    "cutlass.pipeline_init_wait": _init_wait,
    "cutlass.state_index": _index,
    "cutlass.state_phase": _state_phase,
    "cutlass.producer_acquire": _acquire,
    "cutlass.producer_commit": _commit,
    "cutlass.producer_tail": _tail,
    "cutlass.producer_get_barrier": _barrier_address(0),
    "cutlass.producer_try_acquire": _try_acquire,
    "cutlass.consumer_try_wait": _try_wait,
    "cutlass.consumer_wait": _consumer_wait,
    "cutlass.consumer_release": _release,
    "cutlass.consumer_get_barrier": _barrier_address(1),
    "cutlass.make_sequence_barrier": _make_sequence,
    "cutlass.sequence_wait": _sequence_wait,
    "cutlass.sequence_arrive": _sequence_arrive,
    "cutlass.initial_work": _register("ctaid.x"),
    "cutlass.work_step": _register("nctaid.x"),
    "cutlass.fetch_next_work": _fetch,
    "cutlass.request_next_work": _request,
    "cutlass.get_next_work": _next_work,
    "cutlass.is_valid_work": _is_valid,
    "cutlass.work_count": _work_count,
    "cutlass.get_current_work": _current_work,
}
"""The rule of each operation; of the others the algebra gives the value."""
