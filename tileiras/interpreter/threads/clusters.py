"""CTAs of a cluster: their barrier, and what they store into each other's shared memory."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.nvvm import cluster
from tileiras.interpreter.errors import InterpreterError, UnknownOperationError
from tileiras.interpreter.threads.access import read
from tileiras.interpreter.threads.barriers import chosen, mbarrier_at, number_at
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import Cta, Lockstep, Rule
from tileiras.interpreter.threads.values import Value

ANSWER_BYTES = 4 * cluster.ANSWER_WORDS


def _arrive(run: Lockstep, op: cluster.ClusterArriveOp) -> None:
    whole = run.cta.cluster
    live = sum(cta.live_threads for cta in whole.ctas)
    whole.meeting.arrive(run.count, live, run.clock.release())
    run.program.cluster_arrivals += 1


def _wait(run: Lockstep, op: cluster.ClusterWaitOp) -> Wait:
    point, generation = run.cta.cluster.meeting, run.program.cluster_arrivals

    def learn() -> None:
        run.clock.acquire(point.told.published)

    return Wait(lambda: point.generation >= generation, "the cluster's barrier", learn)


def _store(run: Lockstep, op: cluster.StoreAsyncOp) -> Wait:
    """Words of all threads, which arrive together."""
    words = [run.values[word].astype(np.uint32) for word in op.words]
    data = np.ascontiguousarray(np.stack(words, axis=1)).view(np.uint8)
    addresses = run.values[op.pointer]
    if np.any(addresses % np.uint64(data.shape[1])):
        raise InterpreterError("a store to another CTA is not aligned")
    ranks, barriers = run.values[op.rank], run.values[op.barrier]
    targets = np.stack([ranks, barriers], axis=1)
    for rank, barrier in np.unique(targets, axis=0).tolist():
        rows = np.flatnonzero((targets == (rank, barrier)).all(axis=1))
        cta = run.cta.cluster.ctas[rank]
        _send(run, cta, barrier, addresses[rows], data[rows])
    return Wait()


def _send(run: Lockstep, cta: Cta, barrier: int, addresses: Value, data: np.ndarray) -> None:
    places = cta.shared.offsets(addresses, data.shape[1])

    def land() -> None:
        cta.shared.place(places, data)
        found = mbarrier_at(cta, barrier)
        found.bytes -= data.size
        found.settle()

    run.schedule.land_later(land)


def _map(run: Lockstep, op: cluster.MapSharedOp) -> Value:
    raise UnknownOperationError("the interpreter knows no addresses of other CTAs' memory")


def _try_cancel(run: Lockstep, op: cluster.TryCancelOp) -> Wait:
    """All CTAs of a grid start here, so there is no cluster left to take over: 16 zero bytes."""
    addresses, barriers = run.values[op.pointer], run.values[op.barrier]
    ctas = [run.cta] if op.of_cluster is None else run.cta.cluster.ctas
    for row in chosen(run, op.predicate):
        for cta in ctas:
            answer = np.zeros((1, ANSWER_BYTES), np.uint8)
            _send(run, cta, int(barriers[row]), addresses[row : row + 1], answer)
    return Wait()


def _query_cancel(run: Lockstep, op: cluster.QueryCancelOp) -> Value:
    data = read(run, run.ids, run.values[op.pointer], ANSWER_BYTES)
    if data.any():
        raise InterpreterError("what clusterlaunchcontrol.query_cancel reads is no answer")
    return np.zeros((run.count, cluster.ANSWER_WORDS), np.uint32)


def _take_number(run: Lockstep, op: cluster.TakeNumberOp) -> None:
    """The next number for each thread that draws; a launch has a queue of its own here."""
    numbers = run.values[op.end].astype(np.uint32)
    for row in chosen(run, op.predicate):
        numbers[row] = number_at(run, op.first, row) + run.cta.launch.numbers_drawn
        run.cta.launch.numbers_drawn += 1
    run.values[op.new_state] = run.values[op.state]
    run.values[op.number] = numbers


RULES: dict[type[Operation], Rule] = {
    cluster.ClusterArriveOp: _arrive,
    cluster.ClusterWaitOp: _wait,
    cluster.StoreAsyncOp: _store,
    cluster.MapSharedOp: _map,
    cluster.TryCancelOp: _try_cancel,
    cluster.QueryCancelOp: _query_cancel,
    cluster.TakeNumberOp: _take_number,
}
"""Operations between the CTAs of a cluster."""
