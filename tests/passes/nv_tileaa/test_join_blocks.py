"""Two tile blocks at once: which kernels do so, and the same results in grids of any size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.gpu.product_text import Order, ProductKernel
from tests.gpu.random_products import dense_case, make_case
from tests.passes.nv_tileaa.test_join_tiles import changed, joined_stages, placed
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.passes.nv_tileaa import join_blocks

SMALL = ProductKernel("f16", (64, 64, 64), form="numbered")
LISTED = replace(SMALL, tile=(128, 128, 64))
IN_ROWS = replace(LISTED, form="plain")


@pytest.fixture(params=[132, 1], ids=["few", "many"])
def grid_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Grids of the tests are small for an H100, and large for one multiprocessor."""
    monkeypatch.setattr(join_blocks, "MULTIPROCESSORS", request.param)
    return request.param


def joined(kernel: ProductKernel) -> str | None:
    """What a kernel joins."""
    found = placed(kernel.text()).joined
    return found.data if found is not None else None


@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 64), (128, 64, 64)])
@pytest.mark.parametrize("kernel", [LISTED, IN_ROWS], ids=lambda kernel: kernel.form)
def test_small_tiles_are_joined(kernel: ProductKernel, tile: tuple[int, int, int]):
    assert joined(replace(kernel, tile=tile)) == "blocks"


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (64, 256, 64)])
def test_not_where_registers_do_not_suffice(tile: tuple[int, int, int]):
    assert joined(replace(LISTED, tile=tile)) is None


def test_not_where_threads_read_operands_or_a_cluster_is_asked_for():
    assert joined(replace(LISTED, element="f32", tile=(128, 128, 32))) is None
    assert joined(replace(LISTED, cluster=2)) is None


def test_not_where_tile_blocks_may_wait_for_each_other():
    text = changed("store_view_tko weak", "store_view_tko release device", LISTED)
    assert placed(text).joined is None


def test_not_where_loops_over_depth_differ():
    text = changed("for %k in (%c0 to %space#1", "for %k in (%c0 to %row", LISTED)
    assert placed(text).joined is None


def test_an_operand_of_both_comes_once_or_under_a_condition():
    """In rows of the grid neighbours have the same tile of B; in a list it turns out."""
    spared = {}
    for kernel in (IN_ROWS, LISTED):
        copies = [op for op in placed(kernel.text()).walk() if isinstance(op, pl.TmaLoadOp)]
        spared[kernel.form] = (len(copies), sum(copy.unless is not None for copy in copies))
    assert spared == {"plain": (5, 0), "numbered": (6, 2)}


def test_rings_for_one_and_for_two_share_memory():
    made = [op for op in placed(LISTED.text()).walk() if isinstance(op, pl.CreatePipelineOp)]
    assert [(op.stages.data, op.slot_bytes.data) for op in made] == [(3, 65536), (4, 32768)]
    assert [op.storage for op in made] == [None, made[0].result]


def test_tile_blocks_without_a_tile_leave_first():
    func = placed(LISTED.text())
    operations = list(func.body.block.ops)
    exit = next(op for op in operations if isinstance(op, aa.IfOp))
    switch = next(op for op in operations if isinstance(op, pl.AgentSwitchOp))
    assert operations.index(exit) < operations.index(switch)
    assert isinstance(exit.then_region.block.first_op, aa.ReturnOp)
    # Nobody else ends early.
    assert not any(
        isinstance(op, aa.ReturnOp)
        for inner in switch.walk()
        if isinstance(inner, aa.IfOp)
        for op in inner.walk()
    )


SIMULATED = (
    *(replace(SMALL, order=order) for order in ("rows", "columns", "diagonal")),
    replace(SMALL, form="plain"),
    replace(SMALL, form="batched"),
    ProductKernel("bf16", (128, 64, 64), a="column", b="turned", form="numbered"),
    ProductKernel("f32", (64, 64, 32), b="turned", form="plain"),
    ProductKernel("i8", (64, 64, 128), b="turned", form="numbered"),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", SIMULATED, ids=lambda kernel: kernel.name)
def test_every_stage_computes_the_product(kernel: ProductKernel, seed: int, grid_size: int):
    assert joined_stages(make_case(kernel, seed)) >= 3


@pytest.mark.parametrize("order", ["rows", "columns", "diagonal"])
@pytest.mark.parametrize("columns", [64, 128, 176, 200])
def test_any_number_of_tiles(order: Order, columns: int, grid_size: int):
    blocks = 3 * -(-columns // 64)
    case = dense_case(replace(SMALL, order=order), (187, columns, 336), blocks)
    assert joined_stages(case) >= 3


def test_only_the_neighbour_along_the_first_axis_joins(grid_size: int):
    case = dense_case(replace(SMALL, form="plain"), (187, 100, 96), 3, 2)
    assert joined_stages(case) >= 3
