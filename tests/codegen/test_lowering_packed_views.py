"""Views of 4-bit floats: two share a byte, the one with the even index in the low half."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.errors import CompileError
from tileiras.interpreter import run_entry


def copy(shape: str, strides: str, tile: str, padding: str = "", rows: str = "[%n, 64]") -> str:
    """A kernel whose tile block i copies tile (i, 0) from %p to %q."""
    view = f"tensor_view<{shape}xf4E2M1FN, strides={strides}>"
    padded = f", padding_value = {padding}" if padding else ""
    source = f"partition_view<tile=({tile}){padded}, {view}>"
    target = f"partition_view<tile=({tile}), {view}>"
    dynamic = "tile<i32> -> " if "%n" in rows else ""
    make = f"shape = {rows}, strides = {strides} : {dynamic}{view}"
    kind = f"tile<{tile}xf4E2M1FN>"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f4E2M1FN>>, %q: tile<ptr<f4E2M1FN>>, %n: tile<i32>) {{
    %z = constant <i32: 0> : tile<i32>
    %i, %j, %l = get_tile_block_id : tile<i32>
    %t = make_tensor_view %p, {make}
    %u = make_partition_view %t : {source}
    %v, %a = load_view_tko weak %u[%i, %z] : {source}, tile<i32> -> {kind}, token
    %s = make_tensor_view %q, {make}
    %w = make_partition_view %s : {target}
    %b = store_view_tko weak %v, %w[%i, %z] : {kind}, {target}, tile<i32> -> token
    return
  }}
}}"""


@pytest.mark.parametrize(
    ("shape", "strides", "tile", "rows"),
    [
        ("?x64", "[64, 1]", "16x64", 32),
        ("?x64", "[64, 1]", "16x64", 20),
        ("?x64", "[96, 1]", "8x32", 16),
        ("?x64", "[64, 1]", "4x2", 8),
        ("?x64", "[1, 64]", "32x16", 64),
        ("?x64", "[1, 64]", "32x16", 48),
        ("?x64", "[1, 64]", "32x16", 39),
        ("?x64", "[1, 64]", "2x16", 3),
    ],
)
@pytest.mark.parametrize("padding", ["", "zero", "neg_zero"])
def test_copy(shape: str, strides: str, tile: str, rows: int, padding: str) -> None:
    text = copy(shape, strides, tile, padding)
    data = np.random.default_rng(3).integers(0, 256, 4096).astype(np.uint8)
    wanted, found = np.full(4096, 0x5A, np.uint8), np.full(4096, 0x5A, np.uint8)
    run_entry(parse_module(text), None, [data, wanted, np.int32(rows)], (2, 1, 1))
    run_lowered(lower_to_llvm(parse_module(text), "sm_100"), [data, found, rows], (2, 1, 1))
    np.testing.assert_array_equal(found, wanted)
    assert (found != 0x5A).any()


def test_a_row_is_read_in_wide_accesses() -> None:
    text = copy("?x64", "[64, 1]", "16x64").replace(
        "%t = make", "%p16 = assume div_by<16>, %p : tile<ptr<f4E2M1FN>>\n %t = make"
    )
    text = text.replace("make_tensor_view %p,", "make_tensor_view %p16,")
    module = lower_to_llvm(parse_module(text), "sm_100")
    widths = {op.align.data for op in module.walk() if op.name == "nvvm.guarded_load"}
    assert max(widths) == 16


@pytest.mark.parametrize(
    ("strides", "tile", "message"),
    [
        ("[63, 1]", "16x64", "odd stride"),
        ("[64, 1]", "16x1", "odd stride"),
        ("[64, 2]", "16x8", "without unit"),
    ],
)
def test_what_would_split_a_byte_is_an_error(strides: str, tile: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        lower_to_llvm(parse_module(copy("?x64", strides, tile)), "sm_100")
