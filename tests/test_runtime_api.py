"""`tileiras.runtime` without a GPU: packing of arguments, calls of the driver, errors."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import tileiras  # noqa: E402
from tests.kernels.fake_driver import FakeDriver, use  # noqa: E402
from tileiras import runtime  # noqa: E402
from tileiras.runtime import cuda_driver  # noqa: E402
from tileiras.runtime.cuda_driver import GpuError  # noqa: E402
from tileiras.runtime.launching import Kernel, Module  # noqa: E402

VECTOR_ADD = Path(__file__).resolve().parent.parent / "examples" / "vector_add.mlir"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The fake in the place of cuda-python's driver, not yet initialised."""
    return use(FakeDriver(), monkeypatch)


@pytest.fixture(scope="module")
def compiled() -> tileiras.CompiledKernel:
    """The vector-add example."""
    return tileiras.compile(VECTOR_ADD, "sm_90")


def vectors(count: int = 8) -> list[Any]:
    """Two arrays and one for the result."""
    return [
        np.arange(count, dtype=np.float32),
        np.ones(count, np.float32),
        np.zeros(count, np.float32),
    ]


@pytest.mark.parametrize("size", [8, 16])
def test_clusters_that_are_not_portable_are_allowed(
    driver: FakeDriver, compiled: tileiras.CompiledKernel, size: int
) -> None:
    information = replace(compiled.kernels[0], cluster_size=size)
    Module(b"\x7fELF", [information]).kernel(information.name)
    allowed = [call for call in driver.calls if call[0] == "cuFuncSetAttribute"]
    assert allowed == ([("cuFuncSetAttribute", 77, 14, 1)] if size > 8 else [])


class OnGpu:
    """An array of another library: DLPack or the CUDA array interface around numpy's memory."""

    def __init__(self, array: Any, device: int = 2, **interface: Any):
        self.array, self.device, self.streams = array, device, []
        if interface:
            data = (array.ctypes.data, False)
            self.__cuda_array_interface__ = {"data": data, "shape": array.shape, **interface}
            return

        def export(stream: int | None = None) -> Any:
            self.streams.append(stream)
            return array.__dlpack__()

        self.__dlpack__ = export
        self.__dlpack_device__ = lambda: (device, 0)


def test_numpy_arguments_are_copied_there_and_back(
    driver: FakeDriver, compiled: tileiras.CompiledKernel
) -> None:
    a, b, out = vectors()
    compiled.launch((1, 1, 1), a, b, out, 8)
    np.testing.assert_array_equal(out, a + 1)
    assert driver.memory == {}
    assert driver.names()[-3:] == ["cuMemFree"] * 3
    compiled.unload()
    assert driver.names()[-1] == "cuModuleUnload"


def test_the_same_array_is_one_copy_and_read_only_ones_stay(driver: FakeDriver) -> None:
    a, _, out = vectors()
    a.flags.writeable = False
    Kernel("k", 1, None).launch((1, 1, 1), [a, a, out, np.int32(8)])
    np.testing.assert_array_equal(out, 2 * a)
    assert driver.names().count("cuMemAlloc") == 2 and driver.names().count("cuMemcpyDtoH") == 1


@pytest.mark.parametrize("interface", [{}, {"version": 3}])
def test_arrays_on_the_gpu_are_passed_by_address(driver: FakeDriver, interface: dict) -> None:
    """Asynchronously: nothing is copied or waited for."""
    arrays = vectors()
    args = [OnGpu(array, **interface) for array in arrays]
    Kernel("k", 1, None).launch((2, 3, 4), [*args, np.int32(8)], stream=7)
    np.testing.assert_array_equal(arrays[2], arrays[0] + 1)
    launched = next(call for call in driver.calls if call[0] == "cuLaunchKernel")
    assert launched[2:10] == (2, 3, 4, 1, 1, 1, 0, 7)
    assert not {"cuStreamSynchronize", "cuMemAlloc"} & set(driver.names())
    assert interface or args[0].streams == [7]


def test_work_of_another_stream_is_waited_for(driver: FakeDriver) -> None:
    arrays = [OnGpu(array, version=3, stream=5) for array in vectors()]
    Kernel("k", 1, None).launch((1, 1, 1), [*arrays, np.int32(8)], stream=7)
    assert ("cuStreamSynchronize", 5) in driver.calls


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (-1, "i32", b"\xff" * 4),
        (2**32 - 1, "i32", b"\xff" * 4),
        (True, "i1", b"\x01"),
        (-128, "i8", b"\x80"),
        (2**63, "i64", bytes(7) + b"\x80"),
        (0x1000, "ptr<f32>", b"\x00\x10" + bytes(6)),
        (1.5, "f16", b"\x00\x3e"),
        (1.5, "bf16", b"\xc0\x3f"),
        (1.00390625, "bf16", b"\x80\x3f"),
        (1.01171875, "bf16", b"\x82\x3f"),
        (float("nan"), "bf16", b"\xc0\x7f"),
        (float("-inf"), "bf16", b"\x80\xff"),
        (3, "f32", struct.pack("<f", 3)),
        (0.1, "f64", struct.pack("<d", 0.1)),
        (np.uint8(0x38), "f8E4M3FN", b"\x38"),
        (np.float16(1), "", b"\x00\x3c"),
        (np.int32(-2), "i32", b"\xfe\xff\xff\xff"),
    ],
)
def test_numbers_are_packed(value: Any, kind: str, expected: bytes) -> None:
    assert runtime.pack_scalar(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (2**32, "i32", "is 4294967296, which does not fit into i32"),
        (-129, "i8", "does not fit into i8"),
        (2, "i1", "does not fit into i1"),
        (-1, "ptr<f32>", "does not fit into ptr<f32>"),
        (1.5, "i32", "is a float, expected a number for 'i32'"),
        (1e6, "f16", "does not fit into f16"),
        (1e39, "bf16", "does not fit into bf16"),
        (1.0, "f8E4M3FN", "pass its bits as a numpy number of one byte"),
        (np.int64(1), "i32", "is a numpy int64, expected a number for 'i32'"),
        (np.float32(1), "i32", "is a numpy float32, expected a number for 'i32'"),
        (np.int32(1), "f32", "is a numpy int32, expected a number for 'f32'"),
        (3, "", "has no known type: pass a numpy number"),
        ("x", "i32", "is a str, expected a number for 'i32'"),
        ([1], "ptr<f32>", "is a list, expected an array or an address"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(value: Any, kind: str, message: str) -> None:
    with pytest.raises(GpuError) as caught:
        runtime.pack_scalar(value, kind)
    assert message in str(caught.value)


def test_wrong_arguments_are_named(driver: FakeDriver, compiled: tileiras.CompiledKernel) -> None:
    """And nothing is launched, nothing stays on the GPU."""
    a, b, out = vectors()
    cases: list[tuple[tuple[int, ...], list[Any], str]] = [
        ((1, 1, 1), [a, b, out], "kernel 'vector_add' takes 4 arguments, got 3"),
        ((1, 1, 1), [a, b, out, out], "argument 3 of 'vector_add' is an array, expected a number"),
        ((1, 1, 1), [a, b, 1.0, 8], "argument 2 of 'vector_add' is a float, expected an array"),
        ((1, 1, 1), [a, b, a[::2], 8], "argument 2 of 'vector_add' is a numpy array with gaps"),
        ((1, 1, 1), [a, OnGpu(b, 1), out, 8], "argument 1 of 'vector_add' lies in memory that"),
        ((0, 1, 1), [a, b, out, 8], "the grid is (0, 1, 1), expected three positive numbers"),
        ((1, 1), [a, b, out, 8], "the grid is (1, 1), expected three positive numbers"),
    ]
    for grid, args, message in cases:
        with pytest.raises(GpuError) as caught:
            compiled.launch(grid, *args)  # pyright: ignore[reportArgumentType]
        assert message in str(caught.value)
    with pytest.raises(GpuError, match="a str is no stream"):
        compiled.launch((1, 1, 1), a, b, out, 8, stream="x")
    with pytest.raises(GpuError, match="no kernel 'other', found: vector_add"):
        compiled.launch((1, 1, 1), entry="other")
    compiled.unload()
    assert driver.memory == {} and "cuLaunchKernel" not in driver.names()


def test_failing_launch_frees_what_was_copied(driver: FakeDriver) -> None:
    driver.failing["cuLaunchKernel"] = 700
    with pytest.raises(GpuError, match="^cuLaunchKernel failed: CUDA_ERROR_700$"):
        Kernel("k", 1, None).launch((1, 1, 1), [*vectors(), np.int32(8)])
    assert driver.memory == {}


def test_what_is_no_cubin_is_not_loaded(driver: FakeDriver) -> None:
    with pytest.raises(GpuError, match="what shall be loaded is no cubin"):
        runtime.Module(b"text")
    module = runtime.Module(b"\x7fELF")
    module.unload()
    module.unload()
    assert driver.names().count("cuModuleUnload") == 1
    with pytest.raises(GpuError, match="the module was unloaded"):
        module.kernel("k")


def test_machine_without_a_gpu_is_told(
    driver: FakeDriver, compiled: tileiras.CompiledKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By everything that needs one."""
    driver.failing["cuInit"] = 100
    wants: list[Any] = [
        runtime.current_target,
        runtime.Stream,
        compiled.load,
        lambda: tileiras.compile(VECTOR_ADD),
        lambda: compiled.launch((1, 1, 1), *vectors(), 8),
        lambda: runtime.time_calls(lambda: None),
    ]
    for want in wants:
        with pytest.raises(GpuError, match="^no GPU: cuInit failed: CUDA_ERROR_100$"):
            want()
    assert not runtime.has_gpu()
    monkeypatch.undo()
    monkeypatch.setattr(cuda_driver._Loaded, "driver", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(GpuError, match="install the package cuda-python"):
        runtime.current_target()


def test_driver_library_that_is_missing_is_told(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: int) -> None:
        raise RuntimeError("libcuda.so.1: not found")

    monkeypatch.setattr(driver, "cuInit", missing, raising=False)
    with pytest.raises(GpuError, match="no GPU: the CUDA driver cannot be loaded .*not found"):
        runtime.current_target()


def test_target_of_the_gpu(driver: FakeDriver) -> None:
    assert runtime.has_gpu() and runtime.current_target() == "sm_90"


def test_times_are_those_of_events(driver: FakeDriver) -> None:
    done: list[int] = []
    assert runtime.time_calls(lambda: done.append(1), repeats=4, warm_up=2) == [0.25] * 4
    assert len(done) == 6 and driver.names().count("cuEventDestroy") == 2
    with pytest.raises(GpuError, match="0 repeats"):
        runtime.time_calls(lambda: None, repeats=0)


def test_launches_are_captured(driver: FakeDriver) -> None:
    with runtime.Stream() as stream:
        with runtime.capture(stream) as graph:
            with pytest.raises(GpuError, match="the graph is empty"):
                graph.launch(stream)
            args = [OnGpu(array, version=3) for array in vectors()]
            Kernel("k", 1, None).launch((1, 1, 1), [*args, np.int32(8)], stream)
        graph.launch(stream)
        stream.synchronize()
        graph.close()
        graph.close()
    wanted = [
        "cuStreamBeginCapture",
        "cuLaunchKernel",
        "cuStreamEndCapture",
        "cuGraphInstantiate",
        "cuGraphLaunch",
        "cuStreamSynchronize",
        "cuGraphExecDestroy",
        "cuGraphDestroy",
        "cuStreamDestroy",
    ]
    assert [name for name in driver.names() if name in wanted] == wanted


def test_host_arrays_are_not_captured(driver: FakeDriver) -> None:
    """Copies are no part of a graph; the capture is ended, the stream usable."""
    refused = pytest.raises(GpuError, match="cannot be captured")
    with runtime.Stream() as stream, refused, runtime.capture(stream):
        Kernel("k", 1, None).launch((1, 1, 1), [*vectors(), np.int32(8)], stream)
    assert driver.names()[-3:] == ["cuStreamEndCapture", "cuGraphDestroy", "cuStreamDestroy"]


def test_kernels_are_compared(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    args = [*vectors(), np.int32(8)]
    first, second = Kernel("a", 1, None), Kernel("b", 2, None)
    found = runtime.compare(first, second, (1, 1, 1), args, repeats=3)
    assert found.agrees and found.largest_errors == {0: 0.0, 1: 0.0, 2: 0.0}
    assert found.first_times == (0.25,) * 3 and found.speedup == 1.0
    assert not args[2].any() and driver.memory == {}
    plain = driver._cuLaunchKernel

    def wrong(function: int, *rest: Any) -> tuple[()]:
        driver.noise = 0.5 if function == 2 else 0.0
        return plain(function, *rest)

    monkeypatch.setattr(driver, "_cuLaunchKernel", wrong)
    found = runtime.compare(first, second, (1, 1, 1), args)
    assert not found.agrees and found.largest_errors[2] == 0.5
    assert runtime.compare(first, second, (1, 1, 1), args, absolute=0.5).agrees
    args[0][3] = np.nan
    assert runtime.compare(first, second, (1, 1, 1), args, absolute=0.5).agrees
    with pytest.raises(GpuError, match="no argument is a numpy array"):
        runtime.compare(first, second, (1, 1, 1), [np.int32(1)])
