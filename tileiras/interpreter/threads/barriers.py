"""Barriers of the CTA and mbarriers, and what orders the two ways into shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nvvm import cluster, copies, mbarrier, threads
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.meeting import Mbarrier, MeetingPoint
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import Cta, Lockstep, Rule
from tileiras.interpreter.threads.values import Value


def chosen(run: Lockstep, predicate: SSAValue | None) -> np.ndarray:
    """The rows for which a guard holds."""
    return run.rows if predicate is None else np.flatnonzero(run.values[predicate])


def number_at(run: Lockstep, value: SSAValue, row: int) -> int:
    """An i32 of one thread, as a signed number."""
    return int(run.values[value].astype(np.uint32).view(np.int32)[row])


def mbarrier_at(cta: Cta, address: int) -> Mbarrier:
    """The mbarrier of a CTA at an address of its shared memory."""
    found = cta.mbarriers.get(address)
    if found is None:
        raise InterpreterError(f"there is no mbarrier at {address:#x}")
    return found


def meet(run: Lockstep, point: MeetingPoint, threads_: int, expected: int) -> Wait:
    """Threads arrive at a barrier and wait for the others; all learn what all knew."""
    generation = point.arrive(threads_, expected, run.clock.release())

    def learn() -> None:
        run.clock.acquire(point.told.published)

    what = f"a barrier, where {point.arrived} of {expected} threads have arrived"
    return Wait(lambda: point.generation >= generation, what, learn)


def _counts(run: Lockstep, op: Any, group: SSAValue | None) -> Iterator[tuple[MeetingPoint, int]]:
    """The barriers that the threads come to, with how many come to each."""
    numbers = np.full(run.count, op.id.data)
    if group is not None:
        numbers = numbers + run.values[group].astype(np.int64)
    for number in np.unique(numbers):
        point = run.cta.named.setdefault(int(number), MeetingPoint())
        yield point, int((numbers == number).sum())


def _barrier(run: Lockstep, op: threads.BarrierOp) -> Wait:
    expected = run.cta.live_threads if op.threads is None else op.threads.data
    waits = [meet(run, point, count, expected) for point, count in _counts(run, op, op.group)]

    def learn() -> None:
        for wait in waits:
            wait.then()

    what = f"barrier {op.id.data} of {expected} threads"
    return Wait(lambda: all(wait.until() for wait in waits), what, learn)


def _barrier_arrive(run: Lockstep, op: threads.BarrierArriveOp) -> None:
    for point, count in _counts(run, op, None):
        point.arrive(count, op.threads.data, run.clock.release())


def _warp_barrier(run: Lockstep, op: threads.WarpBarrierOp) -> None:
    """Nothing is noted: it counts as known only to those who meet at a barrier of more."""


def _init(run: Lockstep, op: mbarrier.MbarrierInitOp) -> None:
    for address in np.unique(run.values[op.barrier]):
        run.cta.mbarriers[int(address)] = Mbarrier(op.count.data, op.count.data)


def _arrive(run: Lockstep, op: mbarrier.MbarrierArriveOp) -> Wait:
    told = run.clock.release()
    for row in chosen(run, op.predicate):
        cta = run.cta
        if op.cta is not None:
            cta = cta.cluster.ctas[number_at(run, op.cta, row)]
        found = mbarrier_at(cta, int(run.values[op.barrier][row]))
        if op.drops is not None:
            found.count -= op.count.data
        found.arrive(op.count.data, told)
    return Wait()


def _expect(run: Lockstep, op: mbarrier.MbarrierExpectTxOp) -> None:
    told = run.clock.release()
    for row in chosen(run, op.predicate):
        found = mbarrier_at(run.cta, int(run.values[op.barrier][row]))
        found.bytes += op.bytes.data if op.size is None else number_at(run, op.size, row)
        found.arrive(1, told)


def _wait(run: Lockstep, op: mbarrier.MbarrierWaitOp) -> Wait:
    pairs = zip(run.values[op.barrier].tolist(), run.values[op.parity].tolist(), strict=True)
    wanted = [(mbarrier_at(run.cta, address), parity) for address, parity in dict.fromkeys(pairs)]

    def learn() -> None:
        for found, _ in wanted:
            run.clock.acquire(found.told.published)

    what = ", ".join(f"an mbarrier in {found}" for found, _ in wanted)
    return Wait(lambda: all(found.has_passed(parity) for found, parity in wanted), what, learn)


def _try_wait(run: Lockstep, op: mbarrier.MbarrierTryWaitOp) -> Wait:
    """Others go on first; then each thread has the answer for its mbarrier."""
    pairs = list(zip(run.values[op.barrier].tolist(), run.values[op.parity].tolist(), strict=True))
    asked = [(mbarrier_at(run.cta, address), parity) for address, parity in pairs]

    def answer() -> Value:
        answers = [found.has_passed(parity) for found, parity in asked]
        for (found, _), has_passed in zip(asked, answers, strict=True):
            if has_passed:
                run.clock.acquire(found.told.published)
        return np.array(answers, np.uint64)

    return Wait(then=answer)


def _fence(run: Lockstep, op: mbarrier.FenceProxyAsyncOp) -> None:
    run.shared.show_to_async_proxy(run.program.stored)
    run.program.stored.clear()


def _nothing(run: Lockstep, op: Operation) -> None:
    """Nothing that shows here."""


RULES: dict[type[Operation], Rule] = {
    threads.BarrierOp: _barrier,
    threads.BarrierArriveOp: _barrier_arrive,
    threads.WarpBarrierOp: _warp_barrier,
    mbarrier.MbarrierInitOp: _init,
    mbarrier.MbarrierArriveOp: _arrive,
    mbarrier.MbarrierExpectTxOp: _expect,
    mbarrier.MbarrierWaitOp: _wait,
    mbarrier.MbarrierTryWaitOp: _try_wait,
    mbarrier.FenceMbarrierInitOp: _nothing,
    mbarrier.FenceProxyAsyncOp: _fence,
    cluster.SetMaxRegistersOp: _nothing,
    copies.GridDependencyOp: _nothing,
}
"""Operations by which threads wait for each other."""
