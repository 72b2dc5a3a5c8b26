"""Two tiles at once: which kernels do so, and the same results with fewer copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import aligned_result, dense_case, make_case
from tests.kernels.tiles_per_cta import SQUARE, changed, placed, two_tiles_stages
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg

SMALL = ProductKernel("f16", (64, 64, 64), form="persistent")


def has_two_tiles(text: str) -> bool:
    """Whether a kernel computes two tiles at once; then it is no cluster."""
    func = placed(text)
    assert func.two_tiles is None or func.cluster_size == 1
    return func.two_tiles is not None


@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 64), (128, 64, 64), (64, 64, 64)])
def test_small_tiles_are_two_tiles(tile: tuple[int, int, int]):
    assert has_two_tiles(replace(SQUARE, tile=tile).text())


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (64, 256, 64)])
def test_not_where_registers_do_not_suffice(tile: tuple[int, int, int]):
    func = placed(replace(SQUARE, tile=tile).text())
    assert (func.two_tiles, func.cluster_size) == (None, 2)


@pytest.mark.parametrize(("a", "b"), [("row", "row"), ("column", "transposed")])
def test_threads_may_read_an_operand(a: str, b: str):
    kernel = replace(SQUARE, element="f32", tile=(128, 128, 32), a=a, b=b)
    assert has_two_tiles(kernel.text())


def test_not_where_threads_transpose_an_operand():
    kernel = replace(SQUARE, element="f32", tile=(128, 128, 32), a="column")
    assert not has_two_tiles(kernel.text())


def test_a_cluster_that_is_asked_for_is_made():
    assert placed(replace(SQUARE, cluster=2).text()).cluster_size == 2
    assert has_two_tiles(replace(SQUARE, cluster=1).text())


def test_loops_over_depth_that_depend_on_the_tile_are_not_two_tiles():
    causal = changed("for %k in (%c0 to %space#1", "for %k in (%c0 to %row")
    assert not has_two_tiles(causal)


def test_tile_blocks_that_may_wait_for_each_other_are_not_two_tiles():
    assert not has_two_tiles(changed("store_view_tko weak", "store_view_tko release device"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%row = divi %tile,", "%row = divi %x,"),
        ("%row = divi %tile, %tiles#1", "%row = divi %tile, %nx"),
        ("(%x to %total, step %nx)", "(%x to %total, step %M)"),
        ("(%x to %total, step %nx)", "(%c0 to %total, step %nx)"),
    ],
)
def test_who_computes_a_tile_must_not_matter(old: str, new: str):
    assert not has_two_tiles(changed(old, new))


def test_a_tile_must_not_need_what_another_one_stored():
    text = SQUARE.text()
    store = next(line for line in text.splitlines() if "%stored =" in line)
    view = store.split(": ")[1].split(", ", 1)[1].removesuffix(", tile<i32> -> token")
    type = "tile<128x128xf32>"
    load = f"""    %old, %read = load_view_tko weak %pC[%row, %column] token = ORDER
      : {view}, tile<i32> -> {type}, token
    %more = addf %sum, %old : {type}
{store.replace("%sum", "%more").replace("%t0", "%read")}"""
    carried = text.replace(store, load.replace("ORDER", "%before_all"))
    carried = carried.replace(
        "step %nx) : tile<i32> {",
        "step %nx) : tile<i32> iter_values(%before_all = %t0) -> (token) {",
    ).replace("for %tile", "%all = for %tile")
    head, tail = carried.rsplit("    continue\n", 1)
    carried = f"{head}    continue %stored : token\n{tail}"
    assert not has_two_tiles(carried)
    assert has_two_tiles(text.replace(store, load.replace("ORDER", "%t0")))


def test_an_iteration_that_may_end_early_is_not_two_tiles():
    early = "%odd = cmpi equal %tile, %c1, signed : tile<i32> -> tile<i1>\n"
    early += "if %odd {\ncontinue\n}\n%row = divi %tile,"
    assert not has_two_tiles(changed("%row = divi %tile,", early))


def looked_up(kernel: ProductKernel) -> str:
    """A kernel that takes the number of a tile from a list."""
    return changed(
        "%row = divi %tile,",
        """%entry = offset %locks, %tile : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %group, %known = load_ptr_tko weak %entry token=%t0
      : tile<ptr<i32>> -> tile<i32>, token
    %place = addi %tile, %group : tile<i32>
    %row = divi %place,""",
        kernel,
    )


def test_tiles_without_a_common_tile_are_computed_in_turn():
    """Stages have room for what is loaded: three tiles, or two."""
    func = placed(SQUARE.text())
    copies = [op for op in func.walk() if isinstance(op, pl.TmaLoadOp)]
    assert not any(copy.skip_if is not None for copy in copies)
    # Both, each of them alone, and the one of a last round.
    assert len(copies) == 3 + 2 + 2 + 2
    made = [op for op in func.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert [(op.stages.data, op.stage_bytes.data) for op in made] == [(3, 49152)]


def test_what_both_tiles_may_share_is_copied_under_a_condition():
    """Where a list says which tiles they are."""
    func = placed(looked_up(SQUARE))
    copies = [op for op in func.walk() if isinstance(op, pl.TmaLoadOp)]
    assert [copy.skip_if is not None for copy in copies].count(True) == 2
    acquired = [op for op in func.walk() if isinstance(op, pl.ProducerAcquireOp)]
    skipped = [op.skipped.data for op in acquired if op.skipped is not None]
    assert skipped == [(16384, 16384)]
    made = [op for op in func.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert [(op.stages.data, op.stage_bytes.data) for op in made] == [(3, 65536)]


@pytest.mark.parametrize("tile", [(64, 128, 64), (128, 64, 64)])
def test_smaller_tiles_have_more_stages(tile: tuple[int, int, int]):
    func = placed(aligned_result(replace(SQUARE, tile=tile, result="f16")))
    made = [op for op in func.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert [(op.stages.data, op.stage_bytes.data) for op in made] == [(4, STAGES[tile])]


STAGES = {(64, 128, 64): 64 * 128 + 2 * 128 * 128, (128, 64, 64): 128 * 128 + 2 * 64 * 128}
"""Bytes of the tile in common, and of two others."""


def test_products_of_both_tiles_run_on():
    func = placed(SQUARE.text())
    pending = [op.pending for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert sorted(value.data for value in pending if value is not None) == [1, 1, 1]
    func = placed(looked_up(SQUARE))
    pending = [op.pending for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert sorted(value.data for value in pending if value is not None) == [1, 2, 2]


SIMULATED = (
    *(replace(SMALL, order=order) for order in ("rows", "columns", "diagonal")),
    ProductKernel("f16", (64, 128, 64), form="persistent", result="f16"),
    ProductKernel("bf16", (128, 64, 64), a="column", b="transposed", form="persistent"),
    ProductKernel("f32", (64, 64, 32), b="transposed", form="persistent"),
    ProductKernel("i8", (64, 64, 128), b="transposed", form="persistent"),
    ProductKernel("f32", (64, 64, 32), form="persistent"),
    ProductKernel("f32", (64, 64, 32), form="persistent", order="columns"),
    ProductKernel("i8", (64, 64, 128), form="persistent", order="columns"),
)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", SIMULATED, ids=lambda kernel: kernel.name)
def test_every_stage_computes_the_product(kernel: ProductKernel, seed: int):
    assert two_tiles_stages(make_case(kernel, seed)) >= 3


@pytest.mark.parametrize("order", ["rows", "columns", "diagonal"])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 8, 9, 12])
def test_every_division_of_the_tiles(order: Order, blocks: int):
    case = dense_case(replace(SMALL, order=order), (187, 176, 96), blocks)
    assert two_tiles_stages(case) >= 3


@pytest.mark.parametrize("blocks", [1, 2, 4, 9])
def test_tiles_leave_by_tma(blocks: int):
    kernel = replace(SMALL, result="f16")
    text = aligned_result(kernel)
    assert any(isinstance(op, ts.StoreStageOp) for op in placed(text).walk())
    assert two_tiles_stages(dense_case(kernel, (187, 176, 96), blocks), text) >= 3


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 7, 8, 9, 12])
def test_indices_may_come_from_memory(blocks: int):
    text = looked_up(SMALL)
    # There is an entry for each tile: it shows if one beyond the last is computed.
    case = dense_case(SMALL, (187, 176, 96), blocks)
    assert two_tiles_stages(case, text, np.zeros(9, np.int32)) >= 3
