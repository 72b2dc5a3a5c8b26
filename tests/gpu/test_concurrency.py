"""One kernel on eight streams at once, each with tensors and sizes of its own; every result counts.

Memory that belongs to a module is shared by all its launches: what a kernel keeps there (tensor
maps, scratch) would be mixed up here. Whole numbers make all results exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
driver = pytest.importorskip("cuda.bindings.driver")

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, i32  # noqa: E402

from tests.kernels.gemm import aligned, gemm, persistent  # noqa: E402
from tests.kernels.kernel_builder import NO_OVERFLOW, Kernel  # noqa: E402
from tileiras.bytecode.writer import write_module  # noqa: E402
from tileiras.dialects import cuda_tile as ct  # noqa: E402
from tileiras.dialects.cuda_tile.types import PointerType, TileType  # noqa: E402

from .launch import check, compile_for_this_gpu, primary_context  # noqa: E402

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STREAMS = 8
LAUNCHES = 1000
CANARY = 64
"""Bytes behind every output that must stay as they were."""


@dataclass(frozen=True)
class Work:
    """What one stream launches: inputs, scalars, the grid, and the output that must appear."""

    inputs: Sequence[Any]
    scalars: Sequence[Any]
    grid: tuple[int, int, int]
    expected: Any


def vector_add_work(stream: int) -> Work:
    """Sums of vectors whose length is no multiple of the tile."""
    rng, size = np.random.default_rng(stream), 5000 + 777 * stream
    a, b = rng.integers(-1000, 1000, (2, size)).astype(np.float32)
    return Work((a, b), (np.int32(size),), (-(-size // 1024), 1, 1), a + b)


def matmul_work(stream: int) -> Work:
    """Products of matrices of three values: sums stay whole and below 2048."""
    rng = np.random.default_rng(stream)
    m, n, k = 136 + 24 * stream, 200 - 8 * stream, 64 + 40 * stream
    a = rng.integers(-1, 2, (m, k)).astype(np.float16)
    b = rng.integers(-1, 2, (k, n)).astype(np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    sizes = (np.int32(m), np.int32(n), np.int32(k))
    return Work((a, b), sizes, (-(-m // 64), -(-n // 64), 1), expected)


def specialised_matmul_work(stream: int) -> Work:
    """As `matmul_work`, with sizes that TMA takes: tensor maps of all launches live at once."""
    rng = np.random.default_rng(stream)
    m, n, k = 136 + 24 * stream, 208 + 16 * stream, 64 + 48 * stream
    a = rng.integers(-1, 2, (m, k)).astype(np.float16)
    b = rng.integers(-1, 2, (k, n)).astype(np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    sizes = (np.int32(m), np.int32(n), np.int32(k))
    return Work((a, b), sizes, (-(-m // 64), -(-n // 128), 1), expected)


def specialised_matmul() -> bytes:
    """A product with a TMA producer and wgmma consumers."""
    return gemm(64, 128, 64).replace(b"@gemm", b"@specialised_matmul")


def persistent_matmul_work(stream: int) -> Work:
    """As `specialised_matmul_work`, by two tile blocks for each column of tiles."""
    work = specialised_matmul_work(stream)
    return Work(work.inputs, work.scalars, (2, -(-int(work.scalars[1]) // 128), 1), work.expected)


def persistent_matmul() -> bytes:
    """A product whose results leave by TMA, through tensor maps that outlive the loads'."""
    return persistent(64, 128, 64).replace(b"@gemm", b"@persistent_matmul")


def small_matmul() -> bytes:
    """A product of which two CTAs share an SM."""
    return aligned(gemm(64, 128, 64)).replace(b"@gemm", b"@small_matmul")


def column_sums_work(stream: int) -> Work:
    """Sums of columns, which many warps share."""
    source = np.random.default_rng(stream).integers(-(2**31), 2**31, (128, 64)).astype(np.int32)
    return Work((source,), (), (1, 1, 1), source.sum(axis=0, dtype=np.int32))


def transpose_work(stream: int) -> Work:
    """A tile that is larger than shared memory."""
    source = np.random.default_rng(stream).integers(-(2**31), 2**31, (512, 256)).astype(np.int32)
    return Work((source,), (), (1, 1, 1), np.ascontiguousarray(source.T))


def column_sums() -> bytes:
    """The bytecode of a reduction along the first dim."""
    kernel = Kernel(PointerType(i32), PointerType(i32))
    tile = kernel.load(kernel.args[0], (128, 64))
    scalar = TileType(i32)

    def body(a: Any, b: Any) -> None:
        total = kernel.add(ct.AddIOp, [a, b], scalar, overflow=NO_OVERFLOW)
        kernel.add(ct.YieldOp, [[total]])

    sums = kernel.add(
        ct.ReduceOp,
        [[tile]],
        [[TileType(i32, (64,))]],
        [kernel.region([scalar, scalar], body)],
        dim=IntegerAttr(0, i32),
        identities=ArrayAttr([IntegerAttr(0, i32)]),
    )
    kernel.store(kernel.args[1], sums)
    kernel.add(ct.ReturnOp, [[]])
    return write_module(kernel.module)


def transpose() -> bytes:
    """The bytecode of a transposition of one large tile."""
    kernel = Kernel(PointerType(i32), PointerType(i32))
    tile = kernel.load(kernel.args[0], (512, 256))
    order = DenseArrayBase.from_list(i32, [1, 0])
    swapped = kernel.add(ct.PermuteOp, [tile], TileType(i32, (256, 512)), permutation=order)
    kernel.store(kernel.args[1], swapped)
    kernel.add(ct.ReturnOp, [[]])
    return write_module(kernel.module)


KERNELS: dict[str, tuple[Callable[[], bytes], Callable[[int], Work]]] = {
    "vector_add": ((EXAMPLES / "vector_add.mlir").read_bytes, vector_add_work),
    "matmul": ((EXAMPLES / "matmul.mlir").read_bytes, matmul_work),
    "specialised_matmul": (specialised_matmul, specialised_matmul_work),
    "persistent_matmul": (persistent_matmul, persistent_matmul_work),
    "small_matmul": (small_matmul, specialised_matmul_work),
    "column_sums": (column_sums, column_sums_work),
    "transpose": (transpose, transpose_work),
}


class Device:
    """Allocations and streams that are given back together."""

    def __init__(self) -> None:
        check(driver.cuCtxSetCurrent(primary_context()), "cuCtxSetCurrent")
        self.allocations: list[int] = []
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.streams = [
            check(driver.cuStreamCreate(flags.value), "cuStreamCreate") for _ in range(STREAMS)
        ]

    def upload(self, data: Any) -> int:
        """A copy on the device; its address."""
        address = int(check(driver.cuMemAlloc(data.nbytes), "cuMemAlloc"))
        self.allocations.append(address)
        check(driver.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes), "cuMemcpyHtoD")
        return address

    def download(self, address: int, size: int) -> Any:
        """Bytes from the device."""
        data = np.empty(size, np.uint8)
        check(driver.cuMemcpyDtoH(data.ctypes.data, address, size), "cuMemcpyDtoH")
        return data

    def close(self) -> None:
        """Gives everything back."""
        for address in self.allocations:
            driver.cuMemFree(address)
        for stream in self.streams:
            driver.cuStreamDestroy(stream)


@pytest.fixture
def device() -> Iterator[Device]:
    """Streams and memory for one test."""
    device = Device()
    yield device
    device.close()


def stage_size(work: Work) -> int:
    """Bytes from one output to the next, so that each is aligned and followed by a canary."""
    return -(-(work.expected.nbytes + CANARY) // 256) * 256


def launch_everywhere(device: Device, function: Any, works: Sequence[Work]) -> list[int]:
    """Launches in turn on all streams without waiting; the address of each stream's outputs."""
    rounds = LAUNCHES // STREAMS
    inputs = [[device.upload(array) for array in work.inputs] for work in works]
    outputs = [device.upload(np.full(rounds * stage_size(work), 0xA5, np.uint8)) for work in works]
    for turn in range(rounds):
        for stream, work, addresses, base in zip(device.streams, works, inputs, outputs):
            output = base + turn * stage_size(work)
            values = [np.array([a], np.uint64) for a in (*addresses, output)]
            values += [np.array([scalar]) for scalar in work.scalars]
            pointers = np.array([value.ctypes.data for value in values], np.uint64)
            launched = driver.cuLaunchKernel(
                function, *work.grid, 1, 1, 1, 0, stream, pointers.ctypes.data, 0
            )
            check(launched, "cuLaunchKernel")
    check(driver.cuCtxSynchronize(), "cuCtxSynchronize")
    return outputs


@pytest.mark.parametrize("name", KERNELS)
def test_launches_on_eight_streams_do_not_disturb_each_other(name: str, device: Device):
    source, make_work = KERNELS[name]
    works = [make_work(stream) for stream in range(STREAMS)]
    module = check(driver.cuModuleLoadData(compile_for_this_gpu(source())), "cuModuleLoadData")
    entry = b"kernel" if name in ("column_sums", "transpose") else name.encode()
    try:
        function = check(driver.cuModuleGetFunction(module, entry), "cuModuleGetFunction")
        outputs = launch_everywhere(device, function, works)
    finally:
        driver.cuModuleUnload(module)
    wrong = []
    for stream, (work, base) in enumerate(zip(works, outputs)):
        size, rounds = stage_size(work), LAUNCHES // STREAMS
        stages = device.download(base, rounds * size).reshape(rounds, size)
        expected = np.full(size, 0xA5, np.uint8)
        expected[: work.expected.nbytes] = work.expected.reshape(-1).view(np.uint8)
        bad = np.flatnonzero((stages != expected).any(axis=1))
        wrong += [f"stream {stream}, launch {turn}" for turn in bad]
    assert wrong == [], f"{len(wrong)} of {LAUNCHES} launches"
