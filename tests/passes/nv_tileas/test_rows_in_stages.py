"""Small tiles for threads that come to the stage of products' operands."""

from __future__ import annotations

import re

import pytest

from tests.kernels.attention import attention_gradient
from tests.kernels.pass_runs import passes_between, run_passes
from tileiras.planning.operands import rows

LAST = "tileas-optimize-dot-accumulation"
KEYS = 64 * 64 * 2
ROW = 64 * 2


def lowered(source: bytes) -> str:
    """The kernel behind the last pass that moves waits."""
    return run_passes(source, *passes_between("check-target", LAST))


def test_a_row_lies_behind_the_operands_in_their_stage() -> None:
    text = lowered(attention_gradient())
    wait = re.search(r"consumer_wait (%pipeline\w*) at \[0, 0, (\d+)\]", text)
    assert wait is not None
    assert wait[2] == str(KEYS)
    copy = (
        rf"tiled_tma_load [^\n]*\n?[^\n]*into {wait[1]} using %\w+ \{{axis = 0, offset = {KEYS}\}}"
    )
    assert re.search(copy, text)
    assert f"producer_acquire {wait[1]} {{bytes = {KEYS + ROW}}}" in text
    assert "make_tiled_tma_desc" in text
    assert "box [64] {swizzle = 0}" in text
    assert f"stage_bytes = {KEYS + 1024}," in text


def test_threads_read_it_behind_the_wait_for_what_it_meets() -> None:
    lines = lowered(attention_gradient(wide_weights=True)).split("\n")
    read = next(number for number, line in enumerate(lines) if "read_tile" in line)
    assert "consumer_release" in lines[read - 1] or "dot_wait" in lines[read - 1]
    assert "mulf" in lines[read + 3]


def test_large_tiles_are_loaded_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", ROW - 1)
    text = lowered(attention_gradient())
    assert "read_tile" not in text
    assert "nv_tileas.tiled_load" in text


def test_a_row_that_does_more_than_go_into_the_last_product_is_loaded_by_threads() -> None:
    """Its stage may be handed back before the other reader."""
    text = attention_gradient().decode()
    total = "tile<128x64xf32>"
    more = f"""%w4_0 = mulf %w2_0, %w2_0 : tile<128x64xf16>
      %w5_0 = ftof %w4_0 : tile<128x64xf16> -> {total}
      %more_0 = addf %d_0, %w5_0 : {total}
      continue %more_0 : {total}"""
    text = text.replace(f"continue %d_0 : {total}", more)
    assert "more_0" in text
    assert "read_tile" not in lowered(text.encode())
