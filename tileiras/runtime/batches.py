"""Times of short launches that one can trust: many of them as one graph, when clocks are up.

A launch from Python takes longer than many a kernel, and events around one measure that. Here they
stand around a graph of so many launches that it takes a millisecond. Caches are warm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from math import ceil
from statistics import median, quantiles
from typing import Any

from tileiras.runtime.cuda_driver import GpuError, call, enumerator
from tileiras.runtime.streams import Graph, Stream, capture

WARM_UP_MS = 20.0
"""Policy: milliseconds of work after which the GPU's clocks count as up."""

BATCH_MS = 1.0
"""Policy: milliseconds that a batch takes at least, thousands of times what an event resolves."""

MOST_LAUNCHES = 1000
"""Policy: launches of a batch, however short they are: recording them takes time, too."""

FEW = 3
"""Policy: batches after which a kernel that is too slow is given up."""

_MARGIN = 1.2
"""Policy: a batch is made longer than it must be by this, since clocks may still rise."""


def spread(times: Sequence[float]) -> float:
    """The width of the middle half of the times, as a part of their median."""
    if len(times) < 2 or not (middle := median(times)):
        return 0.0
    first, _, third = quantiles(times, n=4, method="inclusive")
    return (third - first) / middle


def time_batches(
    works: Sequence[Callable[[Stream], object]], repeats: int, enough: float | None = None
) -> list[list[float]]:
    """The milliseconds of a call of each of `works`, which enqueue a kernel into a stream.

    Each has `repeats` times, every one the mean of a batch. The batches of the works alternate, so
    that clocks and temperature are the same for all. Where the first few of a single work all take
    longer than `enough`, the others are left out. Raises GpuError for less than one repeat.
    """
    if repeats < 1:
        raise GpuError(f"{repeats} repeats are asked for, expected one or more")
    with ExitStack() as stack:
        stream = stack.enter_context(Stream())
        batches = [stack.enter_context(_Batch(work, stream)) for work in works]
        for batch in batches:
            batch.prepare()
        times: list[list[float]] = [[] for _ in batches]
        for number in range(repeats):
            if enough is not None and number == FEW and min(times[0]) > enough:
                break
            for batch, those in zip(batches, times):
                those.append(batch.run() / batch.launches)
        return times


class _Batch:
    """So many launches as a graph, and two events around it; `with` gives them back."""

    def __init__(self, work: Callable[[Stream], object], stream: Stream):
        self.launches = 1
        self._work, self._stream = work, stream
        self._graph: Graph | None = None
        self._events: list[Any] = []

    def prepare(self) -> None:
        """Finds how many launches take long enough, and runs until clocks are up."""
        flags = enumerator("CUevent_flags", "CU_EVENT_DEFAULT")
        for _ in range(2):
            self._events.append(call("cuEventCreate", flags))
        self._work(self._stream)
        call("cuStreamSynchronize", self._stream.handle)
        self._record(1)
        warm = 0.0
        while True:
            took = self.run()
            warm += took
            if took < BATCH_MS and self.launches < MOST_LAUNCHES:
                wanted = _MARGIN * BATCH_MS * self.launches / max(took, 1e-3)
                self._record(min(MOST_LAUNCHES, max(self.launches + 1, ceil(wanted))))
            elif warm >= WARM_UP_MS:
                return

    def run(self) -> float:
        """The milliseconds of all launches."""
        assert self._graph is not None
        before, after = self._events
        call("cuEventRecord", before, self._stream.handle)
        self._graph.launch(self._stream)
        call("cuEventRecord", after, self._stream.handle)
        call("cuEventSynchronize", after)
        return float(call("cuEventElapsedTime", before, after))

    def _record(self, launches: int) -> None:
        """Makes the graph of so many launches."""
        self._close_graph()
        self.launches = launches
        with capture(self._stream) as graph:
            for _ in range(launches):
                self._work(self._stream)
        self._graph = graph

    def _close_graph(self) -> None:
        if self._graph is not None:
            self._graph.close()
            self._graph = None

    def __enter__(self) -> _Batch:
        """The batch itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Gives everything back; a GPU that answers no more has told so before."""
        with suppress(GpuError):
            self._close_graph()
            for event in self._events:
                call("cuEventDestroy", event)
