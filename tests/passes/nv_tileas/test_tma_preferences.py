"""What the variables for TMA do on every target with it: read in nv_tileas, and run as PTX."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tileiras.codegen.target import TARGET_NAMES, Feature, get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import ALWAYS_SWIZZLE, DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions

WITH_TMA = [name for name in TARGET_NAMES if get_target(name).has(Feature.TMA)]
IN_TMEM = [name for name in WITH_TMA if get_target(name).has(Feature.TCGEN05)]
OTHERWISE = "-mma.sync"
"""Of a target with tcgen05: what it does without."""
BY_MMA_SYNC = [f"{name}{OTHERWISE}" for name in IN_TMEM]
TARGETS = [*WITH_TMA, *BY_MMA_SYNC]
WITHOUT_WGMMA = [
    name for name in WITH_TMA if name not in IN_TMEM and not get_target(name).has(Feature.WGMMA)
] + BY_MMA_SYNC
LOAD, STORE = "async.tiled_tma_load", "tma_store"
STORE_WARP = "async.pipeline.store_stage"
BY_TMA = (LOAD, STORE, "make_tiled_tma_desc")
BY_THREADS = ("async_copy", "async.tiled_load")
ONE_TILE = ProductKernel("f16", (128, 128, 64), result="f16", whole=True)
HALF_TILE = ProductKernel("f16", (64, 128, 64), result="f16", whole=True)
SMALL = ProductKernel("f16", (64, 64, 64), whole=True)
IN_LOOP = ProductKernel("f16", (128, 256, 64), form="persistent", result="f16", whole=True)


def options_of(target: str, knobs: dict[str, str], emit: str) -> CompileOptions:
    """Options for a target, perhaps without tcgen05."""
    name = target.removesuffix(OTHERWISE)
    disabled = ("tcgen05",) if name != target else ()
    return CompileOptions(name, emit=emit, knobs=knobs, disabled_features=disabled)


def compiled(
    kernel: ProductKernel,
    target: str,
    knobs: dict[str, str] | None = None,
    allow: str = "",
    emit: str = "nv_tileas",
) -> str:
    """The text of a stage; `allow`: what the kernel's author says of TMA, `true` or `false`."""
    return _compiled(kernel, target, tuple((knobs or {}).items()), allow, emit)


@cache
def _compiled(
    kernel: ProductKernel, target: str, knobs: tuple[tuple[str, str], ...], allow: str, emit: str
) -> str:
    """Once for all tests: most ask for a few kernels and one variable."""
    text = aligned_result(kernel)
    if allow:
        hint = rf"\1 optimization_hints = <default = {{allow_tma = {allow}}}>"
        text, count = re.subn(r"((?:load|store)_view_tko .*?token = %t0)", hint, text)
        assert count == 3
    options = options_of(target, dict(knobs), emit)
    return compile_module(text.encode(), options).output.decode()


def check_product(
    kernel: ProductKernel, target: str, knobs: dict[str, str], blocks: tuple[int, ...]
) -> None:
    """Runs the PTX in the machine: values, races, unfinished reads."""
    m, n, k = kernel.tile
    case = dense_case(kernel, (2 * m, 2 * n, 2 * k), *blocks)
    arguments = case.arguments()
    run_ptx(compiled(kernel, target, knobs, emit="ptx"), arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_leaves_by_tma_if_that_is_preferred(target: str) -> None:
    """On sm_90 tile blocks of 128x128 work for others and have a store warp without being asked."""
    kernel = HALF_TILE if target == "sm_90" else ONE_TILE
    assert STORE not in compiled(kernel, target)
    preferred = compiled(kernel, target, {PREFER_TMA: "1"})
    assert STORE in preferred and LOAD in preferred
    check_product(kernel, target, {PREFER_TMA: "1"}, (2, 2))


@pytest.mark.parametrize("target", WITHOUT_WGMMA)
def test_small_operands_come_by_tma_if_that_is_preferred(target: str) -> None:
    """Without a word all warps copy them: nobody has measured a gain."""
    assert LOAD not in compiled(SMALL, target)
    assert LOAD in compiled(SMALL, target, {PREFER_TMA: "1"})
    check_product(SMALL, target, {PREFER_TMA: "1"}, (2, 2))


@pytest.mark.parametrize("target", IN_TMEM)
def test_sums_in_tensor_memory_leave_as_is_preferred(target: str) -> None:
    """They stay there either way."""
    assert "tcgen05_dot" in compiled(ONE_TILE, target)
    assert "tcgen05_dot" in compiled(ONE_TILE, target, {PREFER_TMA: "1"})


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_goes_by_tma_if_that_is_not_wanted(target: str) -> None:
    """Threads copy instead."""
    assert LOAD in compiled(ONE_TILE, target)
    refused = compiled(ONE_TILE, target, {PREFER_TMA: "0"})
    assert not any(name in refused for name in BY_TMA)
    assert any(name in refused for name in BY_THREADS)
    check_product(ONE_TILE, target, {PREFER_TMA: "0"}, (2, 2))


@pytest.mark.parametrize("target", TARGETS)
def test_the_author_of_a_kernel_has_the_last_word(target: str) -> None:
    """Whatever is preferred."""
    text = compiled(ONE_TILE, target, {PREFER_TMA: "1"}, allow="false")
    assert not any(name in text for name in BY_TMA)
    words = " ".join(text.split()).replace(", prefer_tma = true", "")
    assert words == " ".join(compiled(ONE_TILE, target, allow="false").split())


@pytest.mark.parametrize("target", TARGETS)
def test_allowing_tma_is_not_forbidding_it(target: str) -> None:
    """It is what a kernel without a word gets."""
    allowed = compiled(ONE_TILE, target, allow="true", emit="ptx")
    assert allowed == compiled(ONE_TILE, target, emit="ptx")


@pytest.mark.parametrize("target", TARGETS)
def test_the_wait_for_a_store_is_delayed_or_follows_at_once(target: str) -> None:
    """Delayed, a warp of its own waits while the consumers go on; at once, they do themselves."""
    preferred = {PREFER_TMA: "1"}
    later = compiled(IN_LOOP, target, preferred)
    assert later == compiled(IN_LOOP, target, {**preferred, DELAY_TMA_STORE_WAIT: "1"})
    at_once = compiled(IN_LOOP, target, {**preferred, DELAY_TMA_STORE_WAIT: "0"})
    assert STORE_WARP in later and STORE_WARP not in at_once
    assert "async.tiled_tma_store" in at_once and "async.tiled_tma_store" not in later


@pytest.mark.parametrize("target", WITHOUT_WGMMA[:1] + WITHOUT_WGMMA[-1:] + IN_TMEM[:1])
@pytest.mark.parametrize("delay", ["0", "1"])
def test_stores_in_a_loop_compute_the_product(target: str, delay: str) -> None:
    """Whoever waits."""
    check_product(IN_LOOP, target, {PREFER_TMA: "1", DELAY_TMA_STORE_WAIT: delay}, (2,))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [ONE_TILE, IN_LOOP], ids=["once", "in_a_loop"])
def test_tiles_of_tma_are_swizzled_asked_or_not(target: str, kernel: ProductKernel) -> None:
    """Those that come and those that leave, whatever else is asked for; 0 is no swizzle."""
    choices: tuple[dict[str, str], ...] = ({}, {PREFER_TMA: "1"})
    for prefer in choices:
        unset = compiled(kernel, target, prefer)
        swizzles = re.findall(r"make_tiled_tma_desc .*swizzle = (\d+)", unset)
        assert swizzles and set(swizzles) <= {"32", "64", "128"}
        assert unset == compiled(kernel, target, {**prefer, ALWAYS_SWIZZLE: "1"})
