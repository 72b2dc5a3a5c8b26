"""Loads in front of products: small tiles of all tile blocks, and what later tile blocks load."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects.cuda_tile.text import parse_module

SIZE = 16
BLOCKS = 3


def chain(index: str = "%x") -> str:
    """out[block] = b @ (a @ in[block]); `index` of the tile that each block loads."""
    view = "tensor_view<16x16xf16, strides=[16,1]>"
    rows = "tensor_view<48x16xf16, strides=[16,1]>"
    tile, part, many = (
        "tile<16x16xf16>",
        f"partition_view<tile=(16x16), {view}>",
        f"partition_view<tile=(16x16), {rows}>",
    )
    lines = ["cuda_tile.module @m {", "  entry @chain("]
    lines += [", ".join(f"%p{n}: tile<ptr<f16>>" for n in range(4)) + ") {"]
    lines += ["%t = make_token : token", "%i = constant <i32: 0> : tile<i32>"]
    lines += ["%x, %y, %z = get_tile_block_id : tile<i32>"]
    lines += [f"%zero = constant <f16: 0.0> : {tile}"]
    for n, type in enumerate((view, view, rows, rows)):
        size = 48 if type is rows else 16
        lines += [
            f"%v{n} = make_tensor_view %p{n}, shape = [{size}, 16], strides = [16, 1] : {type}"
        ]
        whole = f"partition_view<tile=(16x16), {type}>"
        lines += [f"%w{n} = make_partition_view %v{n} : {whole}"]
    load = "load_view_tko weak"
    lines += [
        f"%in, %tin = {load} %w2[{index}, %i] token = %t : {many}, tile<i32> -> {tile}, token"
    ]
    lines += [f"%a, %ta = {load} %w0[%i, %i] token = %t : {part}, tile<i32> -> {tile}, token"]
    lines += [f"%d = mmaf %a, %in, %zero : {tile}, {tile}, {tile}"]
    lines += [f"%b, %tb = {load} %w1[%i, %i] token = %t : {part}, tile<i32> -> {tile}, token"]
    lines += [f"%e = mmaf %b, %d, %zero : {tile}, {tile}, {tile}"]
    lines += ["%s = store_view_tko weak %e, %w3[%x, %i] token = %t"]
    lines += [f"  : {tile}, {many}, tile<i32> -> token", "return", "}", "}"]
    return "\n".join(lines)


def lowered(source: str, target: str = "sm_90") -> object:
    """The program of one thread."""
    return lower_to_llvm(parse_module(source), target)


def test_a_chain_loads_all_before_it_multiplies():
    text = str(lowered(chain()))
    last_load = max(match.start() for match in re.finditer(r"masked_load|nvvm.guarded_load", text))
    assert last_load < text.index("nvvm.mma_tile")


@pytest.mark.parametrize("target", ["sm_90", "sm_80"])
def test_values_are_right(target):
    generator = np.random.default_rng(3)
    a, b = (generator.integers(-2, 3, (SIZE, SIZE)).astype(np.float16) for _ in range(2))
    x = generator.integers(-2, 3, (BLOCKS * SIZE, SIZE)).astype(np.float16)
    out = np.zeros_like(x)
    module = lowered(chain(), target)
    run_lowered(module, [a, b, x, out], grid=(BLOCKS, 1, 1))
    wanted = [b @ (a @ x[block * SIZE :][:SIZE]) for block in range(BLOCKS)]
    np.testing.assert_array_equal(out, np.concatenate(wanted))


def test_a_later_tile_block_finds_its_tile_in_l2():
    assert "prefetch.global.L2" in str(lowered(chain()))


def test_a_tile_that_all_tile_blocks_load_is_not_asked_for():
    assert "prefetch.global.L2" not in str(lowered(chain("%i")))


def test_tile_blocks_along_other_axes_are_not_asked_for():
    assert "prefetch.global.L2" not in str(lowered(chain("%y")))


def test_targets_without_tma_are_left():
    assert "prefetch.global.L2" not in str(lowered(chain(), "sm_80"))
