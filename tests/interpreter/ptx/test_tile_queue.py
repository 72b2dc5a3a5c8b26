"""Tile blocks that are drawn from a queue, with few CTAs at a time and with many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.machine_products import difference_of
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result
from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tests.kernels.uneven_products import KINDS, uneven_arguments, uneven_product
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import Limits, run_ptx
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions

DRAWS = "%gridid"
ASKED, REFUSED = {DYNAMIC_PERSISTENT: "1"}, {DYNAMIC_PERSISTENT: "0"}
C = 2
F16 = ProductKernel("f16", (128, 128, 64), whole=True, result="f16")


def compiled(source: bytes, knobs: dict[str, str] | None = None, gpu: str = "sm_90") -> str:
    """PTX."""
    options = CompileOptions(gpu_name=gpu, emit="ptx", knobs=knobs or {})
    return compile_module(source, options).output.decode()


@pytest.mark.parametrize(
    ("kind", "tile"),
    [("loaded", (128, 256)), ("known", (128, 128)), ("guarded", (128, 128)), ("known", (256, 128))],
    ids=str,
)
def test_every_tile_is_computed_once(kind: str, tile: tuple[int, int]) -> None:
    """In place: a tile that is computed twice is wrong, and one that is dropped, too."""
    text = compiled(uneven_product(kind, *tile, in_place=True))
    assert DRAWS in text and "wgmma" in text
    for resident in (1, 2, 5, 16):
        arguments, grid, wanted = uneven_arguments(kind, tile, (3, 3), 4, in_place=True)
        run_ptx(text, arguments, grid, limits=Limits(resident=resident))
        np.testing.assert_array_equal(arguments[C].view(np.float16), wanted.ravel())
    result = ptx_to_cubin(text, get_target("sm_90"), CompileOptions(gpu_name="sm_90"))
    assert result.cubin and result.spills == 0


@pytest.mark.parametrize("kind", KINDS)
def test_results_that_a_warp_of_its_own_stores(kind: str) -> None:
    text = compiled(uneven_product(kind))
    assert DRAWS in text and "cp.async.bulk.tensor.2d.global" in text
    for resident in (1, 3):
        arguments, grid, wanted = uneven_arguments(kind, (128, 256), (4, 2), 3)
        run_ptx(text, arguments, grid, limits=Limits(resident=resident))
        np.testing.assert_array_equal(arguments[C].view(np.float16), wanted.ravel())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_threads_fetch_the_operands_of_the_first_tile(kind: str, steps: int) -> None:
    """Fewer than there are stages, too: then the next tile's go where nothing was fetched."""
    text = compiled(uneven_product(kind))
    assert DRAWS in text and "cp.async.cg" in text
    for resident in (1, 2):
        arguments, grid, wanted = uneven_arguments(kind, (128, 256), (2, 2), steps)
        run_ptx(text, arguments, grid, limits=Limits(resident=resident))
        np.testing.assert_array_equal(arguments[C].view(np.float16), wanted.ravel())


@pytest.mark.parametrize("kind", ["causal", "full"])
def test_attention_draws_tiles_if_asked_to(kind: str) -> None:
    """Causal attention in the order from the longest to the shortest."""
    source = softmax_attention(kind, 128, 64, 128)
    text, plain = compiled(source, ASKED), compiled(source, REFUSED)
    assert DRAWS in text and DRAWS not in plain
    once, grid = attention_arguments(128, 384, 128, blocks=(3,))
    once[-1] = 0.125
    run_ptx(plain, once, grid)
    for resident in (1, 2, 16):
        arguments, _ = attention_arguments(128, 384, 128, blocks=(3,))
        arguments[-1] = 0.125
        run_ptx(text, arguments, grid, limits=Limits(resident=resident))
        assert (arguments[RESULT] == once[RESULT]).all() and once[RESULT].any()


@pytest.mark.parametrize(
    "kernel",
    [F16, replace(F16, tile=(128, 256, 64)), replace(F16, tile=(64, 256, 64))],
    ids=lambda kernel: kernel.name,
)
def test_products_of_one_length_draw_tiles_if_asked_to(kernel: ProductKernel) -> None:
    """Pairs of tiles in rounds, and large tiles: one by one."""
    text = compiled(aligned_result(kernel).encode(), ASKED)
    assert DRAWS in text
    for resident in (1, 2, 16):
        assert difference_of(kernel, text, resident, (3, 4), 3) == ""


def test_who_is_told_not_to_keeps_a_tile_a_block() -> None:
    assert DRAWS not in compiled(uneven_product("loaded"), REFUSED)


def test_who_does_not_look_at_the_queue_loses_tiles() -> None:
    text = compiled(uneven_product("loaded", in_place=True))
    deaf = text.replace("atom.relaxed.gpu.global.add.u64 w, [at+8], 1;", "mov.b64 w, 99;")
    arguments, grid, wanted = uneven_arguments("loaded", (128, 256), (3, 3), 4, in_place=True)
    run_ptx(deaf, arguments, grid, limits=Limits(resident=2))
    assert deaf != text and (arguments[C].view(np.float16) != wanted.ravel()).any()


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100", "sm_120"])
def test_other_targets_have_no_queue(gpu: str) -> None:
    """They take over tile blocks, or have no warp roles."""
    assert DRAWS not in compiled(uneven_product("loaded"), ASKED, gpu)
