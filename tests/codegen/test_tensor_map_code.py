"""Tensor maps of specialised kernels: how tiles are swizzled, and kernels with very many maps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.kernels.compilations import compiled
from tests.kernels.gemm import gemm, persistent
from tests.kernels.product_text import ProductKernel
from tests.kernels.softmax_attention import softmax_attention
from tileiras.driver import compile_module, with_environment
from tileiras.options import ALWAYS_SWIZZLE, CompileOptions

SWIZZLE_128 = "3"
"""`.swizzle_mode` of 128 bytes (PTX ISA, "tensormap.replace")."""


def ptx_of(source: bytes, **knobs: str) -> str:
    """The PTX for sm_90 with some knobs set."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx", verify_each=True))
    options = replace(options, knobs={**options.knobs, **knobs})
    return compile_module(source, options).output.decode()


def swizzles(ptx: str) -> list[str]:
    """The swizzle mode of every sequence that fills in maps."""
    return re.findall(r"tensormap\.replace\.tile\.swizzle_mode\S* \[[^\]]+\], (\d+);", ptx)


@pytest.mark.parametrize("source", [gemm(64, 64, 64), persistent(128, 128, 64)])
def test_tiles_are_always_swizzled(source: bytes) -> None:
    """Operands and results: whether it is asked for or not, the maps say 128 bytes."""
    asked, unset = ptx_of(source, **{ALWAYS_SWIZZLE: "1"}), ptx_of(source)
    assert swizzles(unset)
    assert set(swizzles(unset)) == {SWIZZLE_128}
    assert asked == unset


def with_more_operands(pairs: int) -> bytes:
    """A sum of `pairs` products, each in a loop of its own, of operands with strides of their own.

    Equal views would be one view with one map.
    """
    text = gemm(64, 64, 64).decode()
    first, start, end = (text.index(part) for part in ("    %ta =", "%acc, %tl = for", "%h = ftof"))
    views = text[first : text.index("    %bx", first)]
    views = re.sub(r"    %[tp]c = .*\n(?:      :.*\n)?", "", views)
    made = loops = ""
    total = "%z"
    names = r"%(ta|tb|pa|pb|acc|tl|k|a0|t|a|ka|b|kb|d)\b"
    for number in range(pairs):
        stride = 64 * number + 64
        own = re.sub(names, rf"%\1_{number}", f"{views}LOOP{text[start:end]}")
        own = re.sub(r"strides = \[%[KN]1,", f"strides = [{stride},", own)
        view, loop = own.replace("strides=[?,", f"strides=[{stride},").split("LOOP")
        made += view
        loops += loop.replace("= %z", f"= {total}")
        total = f"%acc_{number}"
    after = text[end:].replace("%acc :", f"{total} :").replace("= %tl", "= %t0")
    return (text[:start] + made + loops + after).encode()


@pytest.mark.parametrize(("pairs", "fills"), [(2, [4]), (17, [32, 2])])
def test_a_warp_fills_in_as_many_maps_at_once_as_it_has_lanes(pairs: int, fills: list[int]) -> None:
    ptx = ptx_of(with_more_operands(pairs))
    assert [int(n) for n in re.findall(r"%laneid; setp\.lt\.u32 p, lane, (\d+);", ptx)] == fills
    assert ptx.count("tensormap.cp_fenceproxy") == 2 * pairs


def test_tensor_maps_are_looked_for_before_they_are_made():
    ptx = compiled(gemm(128, 256, 64), emit="ptx")
    # A lane each: one sequence for both maps.
    assert ptx.count("tensormap.replace.tile.global_address") == 1
    # To where later CTAs find them, and to a stage of this one.
    assert ptx.count("tensormap.cp_fenceproxy") == 4
    assert ptx.count("fence.proxy.tensormap::generic.acquire") == 2
    found, filled = ptx.index("vote.sync.all"), ptx.index("tensormap.replace")
    claimed, acquired = ptx.index("atom.acquire.gpu.global.or"), ptx.index("fence.proxy.tensormap")
    assert found < filled < claimed < acquired
    # Whoever finds them makes none; the producer needs mbarriers in either case.
    assert re.search(r"@%p\d+ bra", ptx[found:filled])
    assert re.search(r"bar\.sync\s+8", ptx[claimed:acquired])


def test_maps_of_more_than_one_kind_are_made_in_a_stage():
    ptx = compiled(ProductKernel("f8E4M3FN", (128, 64, 64)).text().encode(), emit="ptx")
    assert "vote.sync.all" not in ptx
    assert "tensormap.cp_fenceproxy" in ptx


def test_tensor_maps_are_made_together_and_once():
    text = compiled(softmax_attention("causal", 128, 128, 128), "ptx")
    assert text.count("tensormap.replace.tile.rank") == 1
    # Of keys and values: threads bring the queries.
    assert text.count("fence.proxy.tensormap::generic.acquire") == 2


@pytest.mark.parametrize(
    ("tile", "codes"),
    [((128, 32, 64), [3, 2]), ((128, 16, 64), [3, 1]), ((128, 16, 32), [2, 1])],
)
def test_each_map_has_its_own_swizzle(tile: tuple[int, int, int], codes: list[int]) -> None:
    """Rows of A are K long, rows of B N long: 128, 64 or 32 bytes."""
    assert sorted(map(int, swizzles(ptx_of(gemm(*tile)))), reverse=True) == codes
