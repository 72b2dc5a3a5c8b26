"""Times of launches in batches, on a GPU in Python whose kernels take as long as the test says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import fake_driver
from tileiras.runtime import batches
from tileiras.runtime.batches import spread, time_batches
from tileiras.runtime.cuda_driver import GpuError


class Gpu(fake_driver.FakeDriver):
    """Adds up what launches take; `order` has the launches of graphs that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.slowness = 0.0, 1.0
        self.recorded: list[tuple[str, float]] | None = None
        self.graphs: list[list[tuple[str, float]]] = []
        self.order: list[list[str]] = []
        self.marks: list[float] = []

    def kernel(self, name: str, milliseconds: float) -> Callable[[object], None]:
        """A launch of a kernel."""

        def launch(_: object) -> None:
            if self.recorded is None:
                self.now += milliseconds
            else:
                self.recorded.append((name, milliseconds))

        return launch

    def _cuStreamBeginCapture(self, *_: object) -> tuple[()]:
        self.recorded = []
        return ()

    def _cuStreamEndCapture(self, *_: object) -> tuple[int]:
        assert self.recorded is not None
        self.graphs.append(self.recorded)
        self.recorded = None
        return (len(self.graphs) - 1,)

    def _cuGraphInstantiate(self, graph: int, _: object) -> tuple[int]:
        return (graph,)

    def _cuGraphLaunch(self, graph: int, _: object) -> tuple[()]:
        self.order.append([name for name, _ in self.graphs[graph]])
        self.now += sum(time for _, time in self.graphs[graph]) * self.slowness
        return ()

    def _cuEventRecord(self, *_: object) -> tuple[()]:
        self.marks.append(self.now)
        return ()

    def _cuEventElapsedTime(self, *_: object) -> tuple[float]:
        return (self.marks[-1] - self.marks[-2],)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    driver = Gpu()
    fake_driver.use(driver, monkeypatch)
    return driver


@pytest.mark.parametrize("milliseconds", [0.002, 0.04, 0.7, 3.0, 50.0])
def test_time_is_that_of_one_launch(gpu: Gpu, milliseconds: float) -> None:
    (times,) = time_batches([gpu.kernel("k", milliseconds)], 15)
    assert times == pytest.approx([milliseconds] * 15)


@pytest.mark.parametrize("milliseconds", [0.002, 0.04, 0.7])
def test_batch_is_long_enough_to_be_measured(gpu: Gpu, milliseconds: float) -> None:
    time_batches([gpu.kernel("k", milliseconds)], 15)
    for batch in gpu.order[-15:]:
        assert 1.0 <= len(batch) * milliseconds < 1.5


def test_clocks_are_up_before_the_first_batch(gpu: Gpu) -> None:
    """The GPU worked for 20 ms at least."""
    time_batches([gpu.kernel("k", 0.1)], 15)
    assert sum(map(len, gpu.order[:-15])) * 0.1 >= 20.0


def test_batch_grows_when_clocks_rise(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took a millisecond at first takes less later."""
    launch = gpu._cuGraphLaunch

    def faster(*arguments: object) -> tuple[()]:
        gpu.slowness = 3.0 if gpu.now < 10.0 else 1.0
        return launch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu, "_cuGraphLaunch", faster)
    (times,) = time_batches([gpu.kernel("k", 0.1)], 15)
    assert times == pytest.approx([0.1] * 15) and len(gpu.order[-1]) >= 10


def test_very_short_launches_are_not_recorded_without_end(gpu: Gpu) -> None:
    time_batches([gpu.kernel("k", 0.0001)], 5)
    assert len(gpu.order[-1]) == batches.MOST_LAUNCHES


def test_batches_of_two_kernels_alternate(gpu: Gpu) -> None:
    first, second = time_batches([gpu.kernel("a", 0.5), gpu.kernel("b", 2.0)], 4)
    assert first == pytest.approx([0.5] * 4) and second == pytest.approx([2.0] * 4)
    assert [batch[0] for batch in gpu.order[-8:]] == ["a", "b"] * 4
    assert all(len(set(batch)) == 1 for batch in gpu.order)


def test_slow_kernel_is_left_after_a_few_batches(gpu: Gpu) -> None:
    assert len(time_batches([gpu.kernel("k", 2.0)], 15, enough=1.5)[0]) == batches.FEW
    assert len(time_batches([gpu.kernel("k", 2.0)], 15, enough=2.5)[0]) == 15


def test_everything_is_given_back(gpu: Gpu) -> None:
    time_batches([gpu.kernel("a", 0.5), gpu.kernel("b", 2.0)], 2)
    names = gpu.names()
    for made, gone in (
        ("cuEventCreate", "cuEventDestroy"),
        ("cuStreamCreate", "cuStreamDestroy"),
        ("cuGraphInstantiate", "cuGraphExecDestroy"),
    ):
        assert names.count(made) == names.count(gone) > 0


def test_kernel_that_fails_is_told(gpu: Gpu) -> None:
    """By the call that found it, though nothing can be given back then."""
    gpu.failing |= {"cuEventSynchronize": 716, "cuGraphExecDestroy": 717}
    with pytest.raises(GpuError, match="cuEventSynchronize failed: CUDA_ERROR_716"):
        time_batches([gpu.kernel("k", 1.0)], 2)


def test_no_batch_is_a_mistake(gpu: Gpu) -> None:
    with pytest.raises(GpuError, match="0 repeats"):
        time_batches([gpu.kernel("k", 1.0)], 0)


def test_spread_is_that_of_the_middle_half() -> None:
    """One batch that was disturbed does not count."""
    assert spread([1.0, 3.0]) == 0.5 and spread([2.0, 2.0]) == 0.0 and spread([1.0]) == 0.0
    assert spread([1.0] * 10 + [9.0]) == 0.0
