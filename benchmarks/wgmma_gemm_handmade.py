"""The hand-made Hopper GEMM of the tests: is it right, and how fast? Beside cuBLAS (torch).

    python benchmarks/wgmma_gemm_handmade.py --sizes 4096 8192

Needs an H100 or H200, cuda-python and torch. Also launches the kernel on two streams at once with
different arguments, since launches share the module's tensor maps.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from cuda.bindings import driver  # noqa: E402

from tests.kernels.wgmma_gemm import TILE_M, TILE_N, wgmma_gemm_module  # noqa: E402
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx  # noqa: E402
from tileiras.codegen.llvmir.printer import print_module  # noqa: E402
from tileiras.codegen.ptxas_backend import ptx_to_cubin  # noqa: E402
from tileiras.codegen.target import get_target  # noqa: E402
from tileiras.driver import with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

SMALL = ((128, 256, 64), (384, 512, 192), (2176, 768, 320))
ARGUMENT_TYPES = (ctypes.c_void_p,) * 3 + (ctypes.c_int,) * 3


def compile_gemm(stages: int) -> bytes:
    """The cubin; prints what ptxas says of it."""
    target, options = get_target("sm_90"), with_environment(CompileOptions(opt_level=3))
    text = print_module(wgmma_gemm_module(stages), target, options)
    result = ptx_to_cubin(llvm_ir_to_ptx(text, target, options), target, options)
    print(f"{stages} stages: {result.registers} registers, {result.spills} bytes spilled")
    return result.cubin


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a driver call; ends the program on an error."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"driver: {result[0]}")
    return result[1] if len(result) > 1 else None


class Gemm:
    """A loaded kernel."""

    def __init__(self, cubin: bytes):
        self._module = checked(driver.cuModuleLoadData(cubin))
        self._function = checked(driver.cuModuleGetFunction(self._module, b"gemm"))

    def __call__(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        """c = a @ b on torch's current stream."""
        (m, k), n = a.shape, b.shape[1]
        values = (a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k)
        grid = (m // TILE_M) * (n // TILE_N)
        stream = torch.cuda.current_stream().cuda_stream
        arguments = (values, ARGUMENT_TYPES)
        checked(driver.cuLaunchKernel(self._function, grid, 1, 1, 1, 1, 1, 0, stream, arguments, 0))


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random A and B, and a C full of NaN."""
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)


def relative_error(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> float:
    """Against the product in f32 (f64 where it is small)."""
    exact = torch.float64 if c.numel() <= 1 << 22 else torch.float32
    wanted = a.to(exact) @ b.to(exact)
    return ((c.to(exact) - wanted).norm() / wanted.norm()).item()


def check(gemm: Gemm, sizes: tuple[tuple[int, int, int], ...]) -> bool:
    """Every size once, then two streams at a time."""
    fine = True
    for size in sizes:
        a, b, c = operands(*size)
        gemm(a, b, c)
        torch.cuda.synchronize()
        error = relative_error(a, b, c)
        fine &= error < 1e-3
        print(f"{size}: relative error {error:.1e}")
    pairs = [operands(512, 512, 4096) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in pairs]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, (a, b, c) in zip(streams, pairs, strict=True):
            with torch.cuda.stream(stream):
                gemm(a, b, c)
    torch.cuda.synchronize()
    errors = [relative_error(*pair) for pair in pairs]
    print("two streams at once: relative errors", ", ".join(f"{e:.1e}" for e in errors))
    return fine and max(errors) < 1e-3


def milliseconds(run: Callable[[], object], repeats: int = 30) -> float:
    """Median time by events, after a warm-up."""
    times: list[float] = []
    for index in range(repeats + 5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if index >= 5:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def time_size(gemms: dict[int, Gemm], size: int) -> None:
    """TFLOP/s of a square product; contenders take turns."""
    a, b, c = operands(size, size, size)
    spare = torch.empty_like(c)
    runs: dict[str, Callable[[], object]] = {"cuBLAS": lambda: torch.matmul(a, b, out=spare)}
    for stages, gemm in gemms.items():
        runs[f"{stages} stages"] = partial(gemm, a, b, c)
    for _ in range(2):
        for name, run in runs.items():
            time = milliseconds(run)
            rate = 2 * size**3 / time / 1e9
            print(f"{size}^3 {name:10} {time * 1e3:8.1f} us {rate:6.1f} TFLOP/s", flush=True)


def main() -> None:
    """Checks, then times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[8192])
    parser.add_argument("--stages", type=int, nargs="*", default=[3, 4])
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    gemms = {stages: Gemm(compile_gemm(stages)) for stages in arguments.stages}
    if not all(check(gemm, SMALL) for gemm in gemms.values()):
        raise SystemExit("wrong result")
    for size in arguments.sizes:
        time_size(gemms, size)


if __name__ == "__main__":
    main()
