"""Two tile blocks at once: which kernels do so, and the same results in grids of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import dense_case, make_case
from tests.kernels.stage_comparison import passes
from tests.kernels.tiles_per_cta import changed, kernel_of, placed, two_tiles_stages
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text

SMALL = ProductKernel("f16", (64, 64, 64), form="numbered")
LISTED = replace(SMALL, tile=(128, 128, 64))
IN_ROWS = replace(LISTED, form="plain")
ONE = replace(IN_ROWS, tile=(64, 64, 32))
"""A tile alone would have no more stages."""


@pytest.fixture(params=[132, 1], ids=["few", "many"])
def grid_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Grids of the tests are small for an H100, and large for one multiprocessor."""
    set_multiprocessors(monkeypatch, request.param)
    return request.param


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tile blocks are many."""
    set_multiprocessors(monkeypatch, 1)


def two_tiles(kernel: ProductKernel) -> str | None:
    """What a kernel joins."""
    found = placed(kernel.text()).two_tiles
    return found.data if found is not None else None


@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 128, 64), (128, 64, 64)])
@pytest.mark.parametrize("kernel", [LISTED, IN_ROWS], ids=lambda kernel: kernel.form)
def test_small_tiles_are_two_tiles(kernel: ProductKernel, tile: tuple[int, int, int]):
    assert two_tiles(replace(kernel, tile=tile)) == "blocks"


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (64, 256, 64)])
def test_not_where_registers_do_not_suffice(tile: tuple[int, int, int]):
    assert two_tiles(replace(LISTED, tile=tile)) is None


READ = replace(LISTED, element="f32", tile=(128, 128, 32), order="columns")
"""Threads read B, which neighbours have in common."""


def test_threads_may_read_an_operand():
    assert two_tiles(READ) == "blocks"


def test_not_where_threads_transpose_an_operand_or_a_cluster_is_asked_for():
    assert two_tiles(replace(READ, a="column")) is None
    assert two_tiles(replace(LISTED, cluster=2)) is None


def test_not_where_tile_blocks_may_wait_for_each_other():
    text = changed("store_view_tko weak", "store_view_tko release device", LISTED)
    assert placed(text).two_tiles is None


def test_not_where_loops_over_depth_differ():
    text = changed("for %k in (%c0 to %space#1", "for %k in (%c0 to %row", LISTED)
    assert placed(text).two_tiles is None


def test_an_operand_of_both_comes_once_or_under_a_condition():
    """In rows of the grid neighbours have the same tile of B; in a list it turns out.

    Where one loop serves two tiles and one the second tile of A comes if there is one.
    """
    skipped = {}
    for kernel in (IN_ROWS, LISTED, ONE):
        copies = [op for op in placed(kernel.text()).walk() if isinstance(op, pl.TmaLoadOp)]
        skipped[kernel] = (len(copies), sum(copy.skip_if is not None for copy in copies))
    assert skipped == {IN_ROWS: (5, 0), LISTED: (6, 2), ONE: (3, 1)}


def test_one_loop_serves_two_tiles_and_one():
    """The consumers' has two forms, with one pipeline; what follows it is a loop."""
    func = placed(ONE.text())
    [made] = [op for op in func.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert made.stages.data == 8
    [switch] = pl.switches_of(func)
    loops = [op for op in switch.consumer.walk() if isinstance(op, aa.ForOp)]
    products = [
        [type(op) for op in loop.walk() if isinstance(op, wg.WgmmaDotOp | wg.WgmmaDotsOp)]
        for loop in loops
    ]
    assert products == [[wg.WgmmaDotsOp], [wg.WgmmaDotOp], []]
    assert len([op for op in loops[-1].walk() if isinstance(op, tas.TiledStoreOp)]) == 1


def test_two_loops_where_a_tile_alone_would_wait_for_the_second_one():
    """Finding it takes divisions; or it would have fewer stages."""
    for kernel in (replace(ONE, form="numbered"), IN_ROWS):
        conditions = conditions_of(kernel)
        assert len(conditions) == 3
        assert not any(conditions)
    assert conditions_of(ONE) == [False, True]


def conditions_of(kernel: ProductKernel) -> list[bool]:
    """Which products of a kernel with two tiles have a condition."""
    found = kernel_after("tiles-per-cta", kernel)
    return [op.condition is not None for op in found.walk() if isinstance(op, aa.DotOp)]


def kernel_after(name: str, kernel: ProductKernel) -> aa.FuncOp:
    """The kernel as a pass leaves it."""
    module = parse_text(kernel.text(), "kernel.mlir")
    for done, _ in passes(module, (), "sm_90"):
        if done == name:
            break
    return kernel_of(module)


def test_pipelines_for_one_and_for_two_share_memory():
    made = [op for op in placed(LISTED.text()).walk() if isinstance(op, pl.CreatePipelineOp)]
    assert [(op.stages.data, op.stage_bytes.data) for op in made] == [(3, 65536), (5, 32768)]
    assert [op.storage for op in made] == [None, made[0].result]


def test_a_common_tile_has_a_loop_of_its_own_where_that_has_more_stages():
    """What comes in the other loop: both tiles of B, and one or two of A."""
    func = placed(READ.text())
    made = [op for op in func.walk() if isinstance(op, pl.CreatePipelineOp)]
    stages = {op.stage_bytes.data: op.stages.data for op in made}
    assert stages == {65536: 3, 49152: 4, 32768: 5}
    [largest] = [op for op in made if op.storage is None]
    assert largest.stage_bytes.data == 65536
    copies = [op for op in func.walk() if isinstance(op, pl.TmaLoadOp)]
    assert [copy.skip_if is not None for copy in copies].count(True) == 1


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
    replace(ONE, tile=(64, 64, 32)),
    replace(SMALL, form="batched"),
    ProductKernel("bf16", (128, 64, 64), a="column", b="transposed", form="numbered"),
    ProductKernel("f32", (64, 64, 32), b="transposed", form="plain"),
    ProductKernel("i8", (64, 64, 128), b="transposed", form="numbered"),
    ProductKernel("f32", (64, 64, 32), form="numbered", order="columns"),
    ProductKernel("i8", (64, 64, 128), form="numbered"),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", SIMULATED, ids=lambda kernel: kernel.name)
def test_every_stage_computes_the_product(kernel: ProductKernel, seed: int, grid_size: int):
    assert two_tiles_stages(make_case(kernel, seed)) >= 3


@pytest.mark.parametrize("order", ["rows", "columns", "diagonal"])
@pytest.mark.parametrize("columns", [64, 128, 176, 200])
def test_any_number_of_tiles(order: Order, columns: int, grid_size: int):
    blocks = 3 * -(-columns // 64)
    case = dense_case(replace(SMALL, order=order), (187, columns, 336), blocks)
    assert two_tiles_stages(case) >= 3


def test_only_the_neighbour_along_the_first_axis_joins(grid_size: int):
    case = dense_case(replace(SMALL, form="plain"), (187, 100, 96), 3, 2)
    assert two_tiles_stages(case) >= 3


def test_the_number_may_be_asked_for_behind_the_loop(many: None):
    """The same product for all tile blocks, each with a place of its own."""
    text = changed(
        "%x, %y, %z = get_tile_block_id : tile<i32>\n    ", "", replace(SMALL, form="plain")
    )
    text = text.replace("%pA[%x,", "%pA[%c0,").replace(", %y]", ", %c0]")
    text = text.replace("%stored =", "%x, %y, %z = get_tile_block_id : tile<i32>\n    %stored =")
    module = parse_text(text, "kernel.mlir")
    case = dense_case(replace(SMALL, form="plain"), (256, 64, 96), 4)
    wanted = case.arguments()
    run_entry(module, "product", wanted, case.grid)
    for name, _ in changing(module, passes(module, (), "sm_90")):
        found = case.arguments()
        run_entry(module, "product", found, case.grid)
        assert np.array_equal(found[2], wanted[2]), name


def test_views_may_depend_on_the_number(grid_size: int):
    text = changed(
        "%C1 = offset %C0, %Cfirst",
        """%nothing = muli %x, %Cfirst : tile<i32>
    %moved = addi %nothing, %Cfirst : tile<i32>
    %C1 = offset %C0, %moved""",
        SMALL,
    )
    assert two_tiles_stages(dense_case(SMALL, (187, 176, 96), 9), text) >= 3


@pytest.mark.parametrize("order", ["rows", "columns", "diagonal"])
def test_both_operands_may_be_tiles_of_one_tensor(order: Order, grid_size: int):
    """A times A transposed: tiles are alike only where products read them in the same way."""
    kernel = ProductKernel("f16", (64, 64, 64), b="permuted", form="numbered", order=order)
    text = kernel.text().replace("load_view_tko weak %pB[", "load_view_tko weak %pA[")
    case = dense_case(kernel, (187, 187, 96), 9)
    module, wanted = parse_text(text, "kernel.mlir"), case.arguments()
    run_entry(module, "product", wanted, case.grid)
    for name, _ in changing(module, passes(module, (), "sm_90")):
        found = case.arguments()
        run_entry(module, "product", found, case.grid)
        assert np.array_equal(found[2], wanted[2]), name
    assert kernel_of(module).two_tiles is not None


def test_the_exit_stands_in_front_of_where_warps_part():
    operations = list(placed(LISTED.text()).body.block.ops)
    exit = next(op for op in operations if isinstance(op, aa.IfOp))
    assert isinstance(exit.then_region.block.first_op, aa.ReturnOp)
