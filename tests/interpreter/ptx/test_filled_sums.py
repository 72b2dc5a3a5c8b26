"""Sums in tensor memory that do not start from zero: consumers store what they start from.

In the machine against float64, with no race and no read of unfinished work; ptxas takes all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import ProductCase, dense_case, make_case
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxError
from tileiras.options import CompileOptions

F16 = ProductKernel("f16", (128, 128, 64), whole=True)
KERNELS = (
    F16,
    replace(F16, element="bf16", tile=(128, 256, 64)),
    replace(F16, tile=(256, 128, 64)),
    replace(F16, tile=(64, 128, 64)),
    replace(F16, element="f32", tile=(128, 128, 32), b="transposed"),
    replace(F16, element="f8E4M3FN", tile=(128, 128, 128)),
    replace(F16, element="i8", tile=(128, 128, 128), result="i32"),
    replace(F16, form="persistent"),
    replace(F16, form="persistent", tile=(128, 256, 32)),
    replace(F16, cluster=2),
    replace(F16, tile=(256, 256, 64), cluster=2),
    replace(F16, tile=(512, 256, 64), cluster=4, b="transposed"),
)
"""Some whose tiles two and four CTAs divide, and multiply for in pairs."""


def source(kernel: ProductKernel, start: str = "LOADED") -> bytes:
    """C += A @ B: the loop starts from the tile of C that it leaves."""
    text = kernel.text().replace("sm_90", "sm_100")
    stored = re.search(r"store_view_tko weak %sum, (%pC\[[^]]*\]) token = %t0 : (.*?), (.*)", text)
    assert stored is not None
    place, tile, view = stored[1], stored[2], stored[3].removesuffix(" -> token")
    load = f"%LOADED, %tC0 = load_view_tko weak {place} token = %t0 : {view} -> {tile}, token\n"
    text = text.replace("    %sum = for", f"    {load}    %sum = for")
    text = text.replace("token = %t0 : " + tile, "token = %tC0 : " + tile)
    return text.replace("%before = %zero", f"%before = %{start}").encode()


@cache
def compiled(kernel: ProductKernel, gpu: str = "sm_100", emit: str = "ptx") -> str:
    """A stage of a kernel."""
    options = CompileOptions(opt_level=3, emit=emit, gpu_name=gpu)
    return compile_module(source(kernel), options).output.decode()


def check(text: str, case: ProductCase) -> None:
    """The kernel added the product, exactly: these are small whole numbers."""
    arguments, places = case.arguments(), case.c.places
    result = arguments[2].view(np.int32 if case.kernel.result == "i32" else np.float32)
    untouched = result.copy()
    result[places] = start = np.random.default_rng(7).integers(-9, 10, case.c.shape)
    left, right = (operand.astype(np.int64) for operand in case.operands())
    run_ptx(text, arguments, case.grid)
    assert np.array_equal(result[places], start + np.matmul(left, right))
    result[places] = untouched[places]
    assert np.array_equal(result.view(np.int32), untouched.view(np.int32))


def several_tiles(kernel: ProductKernel) -> ProductCase:
    """Three rows of tiles, of two blocks where each makes several."""
    m, n, k = kernel.tile
    blocks = (2, 1, 1) if kernel.form == "persistent" else (3, 2, 1)
    return dense_case(kernel, (3 * m, 2 * n, 3 * k), *blocks)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_products_are_added_to_what_is_there(kernel: ProductKernel) -> None:
    text = compiled(kernel)
    assert "tcgen05.mma" in text and "tcgen05.st" in text and "mma.sync" not in text
    assert ("cta_group::2" in text) == (kernel.tile[0] * kernel.tile[1] > 128 * 256)
    check(text, several_tiles(kernel))
    result = ptx_to_cubin(text, get_target("sm_100"), CompileOptions(gpu_name="sm_100"))
    assert result.cubin and result.spills == 0


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_other_targets_add_too(gpu: str) -> None:
    text = compiled(F16, gpu)
    assert "tcgen05.mma" in text
    check(text, several_tiles(F16))


@pytest.mark.parametrize("seed", range(2))
def test_ragged_tiles_are_right(seed: int) -> None:
    check(compiled(F16), make_case(F16, seed, tiles=3))


def test_without_products_the_sum_is_what_it_starts_from() -> None:
    case = dense_case(F16, (128, 128, 64), 1, 1, 1)
    arguments = case.arguments()
    arguments[6] = np.int32(0)
    result = arguments[2].view(np.float32)
    result[...] = start = np.random.default_rng(7).integers(-9, 10, result.shape)
    run_ptx(compiled(F16), arguments, case.grid)
    assert np.array_equal(result, start)


@pytest.mark.parametrize("kernel", [F16, KERNELS[7], KERNELS[10]], ids=lambda kernel: kernel.name)
def test_the_tile_program_adds_the_same(kernel: ProductKernel) -> None:
    """At nv_tileas, where its text is read again."""
    module, case = read_source(compiled(kernel, emit="nv_tileas").encode()), several_tiles(kernel)
    arguments = case.arguments()
    result = arguments[2].view(np.float32)
    result[case.c.places] = start = np.random.default_rng(7).integers(-9, 10, case.c.shape)
    left, right = (operand.astype(np.int64) for operand in case.operands())
    run_entry(module, None, arguments, case.grid)
    assert np.array_equal(result[case.c.places], start + np.matmul(left, right))
    for op in [op for op in module.walk() if isinstance(op, tc.AccumulatorFillOp)]:
        op.detach()
    with pytest.raises(InterpreterError, match="a sum is loaded that nobody has filled"):
        run_entry(module, None, case.arguments(), case.grid)


def test_products_wait_for_what_they_add_to() -> None:
    """Nobody waits for consumers who do not tell: those of the second tile come too early."""
    kernel = replace(F16, form="persistent")
    module = read_source(compiled(kernel, emit="nv_tileas").encode())
    fills = [op for op in module.walk() if isinstance(op, tc.AccumulatorFillOp)]
    made = [op for op in module.walk() if isinstance(op, tc.CreateAccumulatorOp)]
    assert len(fills) == 1 and all(op.filled is not None for op in made)
    text = compiled(kernel)
    store = re.search(r"tcgen05\.st\.sync", text)
    assert store is not None
    arrival = re.compile(r"@%p\d+ mbarrier\.arrive\.release\.cta\.shared::cta\.b64 _, \[\S+\], 1;")
    told = arrival.search(text, store.start())
    assert told is not None
    silent = text[: told.start()] + text[told.end() :]
    with pytest.raises(PtxError, match="deadlock"):
        check(silent, several_tiles(kernel))


def test_cute_notation_shows_what_sums_start_from() -> None:
    assert "cute_nvgpu.tcgen05_store<" in compiled(F16, emit="cute")
