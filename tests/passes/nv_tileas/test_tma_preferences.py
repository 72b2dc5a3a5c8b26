"""What the variables for TMA do, on every target that has TMA."""

from __future__ import annotations

import re

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
LOAD = "cp.async.bulk.tensor.2d.shared"
STORE = "cp.async.bulk.tensor.2d.global"
WAIT = "cp.async.bulk.wait_group.read 0"
ONE_TILE = ProductKernel("f16", (128, 128, 64), result="f16", whole=True)
HALF_TILE = ProductKernel("f16", (64, 128, 64), result="f16", whole=True)
SMALL = ProductKernel("f16", (64, 64, 64), whole=True)
IN_LOOP = ProductKernel("f16", (128, 256, 64), form="persistent", result="f16", whole=True)


def options_of(target: str, knobs: dict[str, str]) -> CompileOptions:
    """Options for a target, perhaps without tcgen05."""
    name = target.removesuffix(OTHERWISE)
    disabled = ("tcgen05",) if name != target else ()
    return CompileOptions(name, emit="ptx", knobs=knobs, disabled_features=disabled)


def ptx_of(
    kernel: ProductKernel, target: str, knobs: dict[str, str] | None = None, forbids: bool = False
) -> str:
    """The PTX; `forbids`: the kernel's author does not allow TMA."""
    text = aligned_result(kernel)
    if forbids:
        hint = r"\1 optimization_hints = <default = {allow_tma = false}>"
        text, count = re.subn(r"((?:load|store)_view_tko .*?token = %t0)", hint, text)
        assert count == 3
    options = options_of(target, knobs or {})
    return compile_module(text.encode(), options).output.decode()


def check_product(kernel: ProductKernel, ptx: str, blocks: tuple[int, ...]) -> None:
    """Runs the PTX in the machine: values, races, unfinished reads."""
    m, n, k = kernel.tile
    case = dense_case(kernel, (2 * m, 2 * n, 2 * k), *blocks)
    arguments = case.arguments()
    run_ptx(ptx, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_leaves_by_tma_if_that_is_preferred(target: str) -> None:
    """On sm_90 tile blocks of 128x128 work for others and have a store warp without being asked."""
    kernel = HALF_TILE if target == "sm_90" else ONE_TILE
    assert STORE not in ptx_of(kernel, target)
    preferred = ptx_of(kernel, target, {PREFER_TMA: "1"})
    assert STORE in preferred and LOAD in preferred
    check_product(kernel, preferred, (2, 2))


@pytest.mark.parametrize("target", WITHOUT_WGMMA)
def test_small_operands_come_by_tma_if_that_is_preferred(target: str) -> None:
    """Without a word all warps copy them: nobody has measured a gain."""
    assert LOAD not in ptx_of(SMALL, target)
    preferred = ptx_of(SMALL, target, {PREFER_TMA: "1"})
    assert LOAD in preferred
    check_product(SMALL, preferred, (2, 2))


@pytest.mark.parametrize("target", IN_TMEM)
def test_sums_in_tensor_memory_leave_as_is_preferred(target: str) -> None:
    assert "tcgen05.mma" in ptx_of(ONE_TILE, target)
    assert "tcgen05.mma" in ptx_of(ONE_TILE, target, {PREFER_TMA: "1"})


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_goes_by_tma_if_that_is_not_wanted(target: str) -> None:
    assert LOAD in ptx_of(ONE_TILE, target)
    refused = ptx_of(ONE_TILE, target, {PREFER_TMA: "0"})
    assert "cp.async.bulk" not in refused and "cp.async.c" in refused
    check_product(ONE_TILE, refused, (2, 2))


@pytest.mark.parametrize("target", TARGETS)
def test_the_author_of_a_kernel_has_the_last_word(target: str) -> None:
    text = ptx_of(ONE_TILE, target, {PREFER_TMA: "1"}, forbids=True)
    assert "cp.async.bulk" not in text
    assert text == ptx_of(ONE_TILE, target, forbids=True)


@pytest.mark.parametrize("target", TARGETS)
def test_allowing_tma_is_not_forbidding_it(target: str) -> None:
    text = aligned_result(ONE_TILE)
    hint = r"\1 optimization_hints = <default = {allow_tma = true}>"
    text = re.sub(r"((?:load|store)_view_tko .*?token = %t0)", hint, text)
    options = options_of(target, {})
    assert compile_module(text.encode(), options).output.decode() == ptx_of(ONE_TILE, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_wait_for_a_store_is_delayed_or_follows_at_once(target: str) -> None:
    """Delayed, a warp of its own waits while the consumers go on; at once, they do themselves."""
    preferred = {PREFER_TMA: "1"}
    later = ptx_of(IN_LOOP, target, preferred)
    assert later == ptx_of(IN_LOOP, target, {**preferred, DELAY_TMA_STORE_WAIT: "1"})
    at_once = ptx_of(IN_LOOP, target, {**preferred, DELAY_TMA_STORE_WAIT: "0"})

    # What comes behind the last piece in shared memory: a message to that warp, or the copy.
    first = rf"{STORE}|mbarrier\.arrive"
    staged, copied = (text[text.rindex("stmatrix") :] for text in (later, at_once))
    assert re.findall(first, staged)[0] == "mbarrier.arrive"
    assert re.findall(first, copied)[0] == STORE
    assert WAIT in copied[copied.index(STORE) :]


@pytest.mark.parametrize("target", WITHOUT_WGMMA[:1] + WITHOUT_WGMMA[-1:] + IN_TMEM[:1])
@pytest.mark.parametrize("delay", ["0", "1"])
def test_stores_in_a_loop_compute_the_product(target: str, delay: str) -> None:
    knobs = {PREFER_TMA: "1", DELAY_TMA_STORE_WAIT: delay}
    check_product(IN_LOOP, ptx_of(IN_LOOP, target, knobs), (2,))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [ONE_TILE, IN_LOOP], ids=["once", "in_a_loop"])
def test_tiles_of_tma_are_swizzled_asked_or_not(target: str, kernel: ProductKernel) -> None:
    """Those that come and those that leave, whatever else is asked for; 0 is no swizzle."""
    choices: tuple[dict[str, str], ...] = ({}, {PREFER_TMA: "1"})
    for prefer in choices:
        unset = ptx_of(kernel, target, prefer)
        modes = re.findall(r"tensormap\.replace\.tile\.swizzle_mode\S* \[[^\]]+\], (\d+);", unset)
        assert modes and set(modes) <= {"1", "2", "3"}
        assert unset == ptx_of(kernel, target, {**prefer, ALWAYS_SWIZZLE: "1"})
