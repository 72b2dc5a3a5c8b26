"""Sums that their loop reads come from tensor memory in each iteration: values, races, remarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

HALF = "%half = constant <f32: 0.5> : tile<MxNxf32>"
PRODUCT = "%after = mmaf %Av, %Bv, %before : "
BODIES = {
    "rescaled": (
        "%scaled = mulf %before, %half : tile<MxNxf32>\n%after = mmaf %Av, %Bv, %scaled : ",
        "",
    ),
    "scaled": (
        "%own = mmaf %Av, %Bv, %zero : ",
        "\n%scaled = mulf %own, %half : tile<MxNxf32>"
        "\n%after = addf %scaled, %before : tile<MxNxf32>",
    ),
    "largest": (
        "%own = mmaf %Av, %Bv, %zero : ",
        "\n%after = maxf %own, %before : tile<MxNxf32>",
    ),
}
STEPS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "rescaled": lambda before, own: before / 2 + own,
    "scaled": lambda before, own: before + own / 2,
    "largest": np.maximum,
}
TILES = ((128, 128, 64), (64, 128, 64), (256, 64, 64))


class LoopReads(ProductKernel):
    """A product whose loop reads its sum, or the product of each iteration."""

    body = "rescaled"

    def text(self) -> str:
        """The module of the product, with another loop body."""
        before, behind = BODIES[self.body]
        lines = super().text().split("\n")
        (at,) = (number for number, line in enumerate(lines) if PRODUCT in line)
        lines[at] = lines[at].replace(PRODUCT, before) + behind
        (zero,) = (number for number, line in enumerate(lines) if "%zero = " in line)
        lines.insert(zero, HALF)
        m, n, _ = self.tile
        return "\n".join(lines).replace("MxNx", f"{m}x{n}x")


def reading(body: str, tile: tuple[int, int, int], element: str = "f16") -> LoopReads:
    """A kernel of that loop body."""
    return type("Reads", (LoopReads,), {"body": body})(element, tile, whole=True)


@cache
def compiled(kernel: LoopReads, target: str = "sm_100") -> tuple[str, list[str]]:
    """PTX of a kernel, and the remarks about tensor memory."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target)
    text = compile_module(kernel.text().encode(), options, remarks=remarks).output.decode()
    return text, [remark.message for remark in remarks.remarks if remark.name == "TensorMemory"]


def run_and_compare(text: str, kernel: LoopReads, steps: int) -> None:
    """Runs two tiles of rows on the machine, beside the same in float64."""
    (rows, columns, depth), two = kernel.tile, 2
    m, k = two * rows, steps * depth
    case = dense_case(kernel, (m, columns, k), two, 1, 1)
    arguments = case.arguments()
    rng = np.random.default_rng(steps)
    a = rng.integers(-2, 3, (m, k)).astype(np.float16)
    b = rng.integers(-2, 3, (k, columns)).astype(np.float16)
    arguments[0].view(np.float16)[case.a.places] = a.reshape(case.a.places.shape)
    arguments[1].view(np.float16)[case.b.places] = b.reshape(case.b.places.shape)
    run_ptx(text, arguments, case.grid)
    wanted = np.zeros((m, columns))
    for start in range(0, k, depth):
        own = a[:, start : start + depth].astype(float) @ b[start : start + depth].astype(float)
        wanted = STEPS[kernel.body](wanted, own)
    found = arguments[2].view(np.float32)[case.c.places].reshape(wanted.shape)
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_loop_reads_its_sums(body: str, tile: tuple[int, int, int]) -> None:
    kernel = reading(body, tile)
    text, remarks = compiled(kernel)
    assert "tcgen05.mma" in text and "mma.sync" not in text and remarks == []
    run_and_compare(text, kernel, 7)


@pytest.mark.parametrize("target", ["sm_103", "sm_110"])
def test_other_targets_read_them(target: str) -> None:
    kernel = reading("rescaled", TILES[0])
    text, _ = compiled(kernel, target)
    assert f".target {target}a" in text and "tcgen05.mma" in text
    run_and_compare(text, kernel, 3)


def test_loop_that_never_runs_waits_for_nothing() -> None:
    kernel = reading("rescaled", TILES[0])
    text, _ = compiled(kernel)
    case = dense_case(kernel, (128, 128, 64), 1, 1, 1)
    arguments = case.arguments()
    arguments[6] = np.int32(0)
    run_ptx(text, arguments, case.grid)
    assert not np.any(arguments[2][case.c.places])


def test_machine_finds_that_products_are_not_committed() -> None:
    kernel = reading("rescaled", TILES[0])
    text, _ = compiled(kernel)
    lines = [line for line in text.split("\n") if "tcgen05.commit" not in line]
    case = dense_case(kernel, (128, 128, 192), 1, 1, 1)
    with pytest.raises(PtxRuntimeError, match="deadlock"):
        run_ptx("\n".join(lines), case.arguments(), case.grid)


def test_remark_says_that_two_tiles_are_too_many() -> None:
    text, remarks = compiled(reading("rescaled", (128, 256, 64)))
    assert "mma.sync" in text and "tcgen05" not in text
    assert len(remarks) == 1 and "256 of them would be for a sum" in remarks[0]


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_other_targets_know_no_tensor_memory(target: str) -> None:
    text, remarks = compiled(reading("rescaled", TILES[0]), target)
    assert "tcgen05" not in text and remarks == []
