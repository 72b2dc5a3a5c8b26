"""`tileiras.compile` and `tileiras.runtime` on a GPU: arguments of every library, graphs, times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import tileiras  # noqa: E402
from tileiras import runtime  # noqa: E402

pytestmark = pytest.mark.gpu

VECTOR_ADD = Path(__file__).resolve().parents[2] / "examples" / "vector_add.mlir"
COUNT = 5000
GRID = (5, 1, 1)


@pytest.fixture(scope="module")
def compiled() -> Any:
    """Vector addition for this machine's GPU."""
    made = tileiras.compile(VECTOR_ADD)
    yield made
    made.unload()


def vectors() -> list[Any]:
    """Two arrays of random numbers and one for the result."""
    a, b = np.random.default_rng(0).normal(size=(2, COUNT)).astype(np.float32)
    return [a, b, np.zeros(COUNT, np.float32)]


def test_numpy_arguments(compiled):
    a, b, out = vectors()
    compiled.launch(GRID, a, b, out, COUNT)
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_torch_arguments_on_its_stream(compiled, needs_gradient):
    torch = pytest.importorskip("torch")
    a, b, out = (torch.from_numpy(array).cuda() for array in vectors())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    if needs_gradient:
        a.requires_grad_()
        with pytest.raises(runtime.GpuError, match="cannot be exported through DLPack"):
            compiled.launch(GRID, a, b, out, COUNT, stream=stream)
        a = a.detach()
    compiled.launch(GRID, a, b, out, COUNT, stream=stream)
    stream.synchronize()
    assert torch.equal(out, a + b)


def test_torch_on_the_cpu_is_refused(compiled):
    torch = pytest.importorskip("torch")
    arrays = [torch.from_numpy(array) for array in vectors()]
    with pytest.raises(runtime.GpuError, match="lies in memory that is not the GPU's"):
        compiled.launch(GRID, *arrays, COUNT)


def test_cupy_arguments(compiled):
    cupy = pytest.importorskip("cupy")
    a, b, out = (cupy.asarray(array) for array in vectors())
    compiled.launch(GRID, a, b, out, COUNT)
    np.testing.assert_array_equal(out.get(), (a + b).get())


def test_captured_launches_run_again(compiled):
    torch = pytest.importorskip("torch")
    a, b, out = (torch.from_numpy(array).cuda() for array in vectors())
    torch.cuda.synchronize()
    addresses = [tensor.data_ptr() for tensor in (a, b, out)]
    compiled.load()
    with runtime.Stream() as stream:
        with runtime.capture(stream) as graph:
            compiled.launch(GRID, *addresses, COUNT, stream=stream)
            compiled.launch(GRID, addresses[2], addresses[1], addresses[2], COUNT, stream=stream)
        stream.synchronize()
        assert not out.any()
        graph.launch(stream)
        stream.synchronize()
        assert torch.equal(out, a + b + b)
        graph.close()


def test_two_compilations_are_compared_and_timed(compiled):
    slow = tileiras.compile(VECTOR_ADD, opt_level=0)
    kernels = [made.load().kernel("vector_add") for made in (compiled, slow)]
    found = runtime.compare(*kernels, GRID, [*vectors(), COUNT], repeats=5)
    assert found.agrees and found.largest_errors == {0: 0.0, 1: 0.0, 2: 0.0}
    assert len(found.first_times) == 5 and min(found.first_times + found.second_times) > 0
    slow.unload()


def test_difference_is_found(compiled):
    other = tileiras.compile(VECTOR_ADD.read_text().replace("addf", "subf"))
    kernels = [made.load().kernel("vector_add") for made in (compiled, other)]
    a, b, out = vectors()
    found = runtime.compare(*kernels, GRID, [a, b, out, np.int32(COUNT)], relative=1e-3)
    assert not found.agrees
    assert found.largest_errors[2] == pytest.approx(2 * np.abs(b).max(), rel=1e-5)
    other.unload()


def test_foreign_cubin_takes_numpy_numbers(compiled):
    a, b, out = vectors()
    with runtime.Module(compiled.cubin) as module:
        kernel = module.kernel("vector_add")
        kernel.launch(GRID, [a, b, out, np.int32(COUNT)])
        np.testing.assert_array_equal(out, a + b)
        with pytest.raises(runtime.GpuError, match="has no known type"):
            kernel.launch(GRID, [a, b, out, COUNT])
        with pytest.raises(runtime.GpuError, match="cuModuleGetFunction failed"):
            module.kernel("no_such_entry")
