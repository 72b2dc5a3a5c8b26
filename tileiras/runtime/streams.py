"""Streams, graphs of captured launches, and time measured by events of the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tileiras.runtime.cuda_driver import GpuError, call, enumerator

_CAPTURING: list[int] = []
"""The streams whose launches are being recorded."""


def stream_number(stream: object) -> int:
    """The driver's number of a stream: ours, torch's, cupy's, a number, or None for the default.

    Raises GpuError for anything else.
    """
    if stream is None:
        return 0
    for name in ("handle", "cuda_stream", "ptr"):
        number = getattr(stream, name, None)
        if isinstance(number, int):
            return number
    if isinstance(stream, int):
        return stream
    raise GpuError(f"a {type(stream).__name__} is no stream")


class Stream:
    """A stream of the GPU that does not wait for the default stream; `with` gives it back."""

    def __init__(self) -> None:
        flags = enumerator("CUstream_flags", "CU_STREAM_NON_BLOCKING")
        self.handle = int(call("cuStreamCreate", flags))

    def synchronize(self) -> None:
        """Waits for all work; raises GpuError where a kernel failed."""
        call("cuStreamSynchronize", self.handle)

    def close(self) -> None:
        """Gives the stream back; a second time does nothing."""
        if self.handle:
            number, self.handle = self.handle, 0
            call("cuStreamDestroy", number)

    def __enter__(self) -> Stream:
        """The stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the stream back."""
        self.close()


class Graph:
    """Launches that were captured once and are launched again as a whole."""

    def __init__(self) -> None:
        self._graph: Any = None
        self._executable: Any = None

    def fill(self, graph: Any) -> None:
        """Takes a captured graph and makes it ready to launch."""
        self._graph = graph
        self._executable = call("cuGraphInstantiate", graph, 0)

    def launch(self, stream: object = None) -> None:
        """Launches everything that was captured, with the arguments of then."""
        if self._executable is None:
            raise GpuError("the graph is empty: its capture has not ended, or it was closed")
        call("cuGraphLaunch", self._executable, stream_number(stream))

    def close(self) -> None:
        """Gives the graph back; a second time does nothing."""
        if self._executable is not None:
            call("cuGraphExecDestroy", self._executable)
            self._executable = None
        if self._graph is not None:
            call("cuGraphDestroy", self._graph)
            self._graph = None


@contextmanager
def capture(stream: Stream) -> Iterator[Graph]:
    """Within the block, launches into `stream` are recorded and not run.

    Only arguments that are on the GPU can be captured. The graph can be launched after the block.
    """
    graph = Graph()
    mode = enumerator("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
    call("cuStreamBeginCapture", stream.handle, mode)
    _CAPTURING.append(stream.handle)
    try:
        yield graph
    except BaseException:
        unfinished = call("cuStreamEndCapture", stream.handle)
        call("cuGraphDestroy", unfinished)
        raise
    finally:
        _CAPTURING.remove(stream.handle)
    graph.fill(call("cuStreamEndCapture", stream.handle))


def is_capturing(stream: int) -> bool:
    """Whether launches into a stream are recorded."""
    return stream in _CAPTURING


def time_calls(
    work: Callable[[], object], stream: object = None, repeats: int = 20, warm_up: int = 3
) -> list[float]:
    """The milliseconds on the GPU of each of `repeats` calls that enqueue work into `stream`.

    `warm_up` calls before them are not counted. Raises GpuError for less than one repeat.
    """
    if repeats < 1:
        raise GpuError(f"{repeats} repeats are asked for, expected one or more")
    number = stream_number(stream)
    for _ in range(warm_up):
        work()
    flags = enumerator("CUevent_flags", "CU_EVENT_DEFAULT")
    events: list[Any] = []
    try:
        for _ in range(2):
            events.append(call("cuEventCreate", flags))
        before, after = events
        times: list[float] = []
        for _ in range(repeats):
            call("cuEventRecord", before, number)
            work()
            call("cuEventRecord", after, number)
            call("cuEventSynchronize", after)
            times.append(float(call("cuEventElapsedTime", before, after)))
        return times
    finally:
        for event in events:
            call("cuEventDestroy", event)
