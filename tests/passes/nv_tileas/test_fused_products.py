"""Products with an operand in common as one instruction, and which are computed transposed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.gemm import gemm
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.product_text import Form, Order, ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.shared_operand_runs import run_stages
from tests.kernels.shared_operands import shared_operands
from tests.kernels.tiles_per_cta import placed, two_tiles_stages
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions

LISTED = ProductKernel("f16", (128, 128, 64), form="numbered")
READ = ProductKernel("f32", (128, 128, 32), form="numbered", order="columns")
"""Threads read B, which neighbours have in common."""


def fused(func: aa.FuncOp | ModuleOp) -> list[wg.WgmmaDotsOp]:
    """The operations that stand for several products."""
    return [op for op in func.walk() if isinstance(op, wg.WgmmaDotsOp)]


def products(func: aa.FuncOp | ModuleOp) -> list[wg.WgmmaDotOp]:
    """The products that stand alone."""
    return [op for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]


@pytest.mark.parametrize(
    ("form", "transposed"), [("left", False), ("right", True), ("right is left", True)]
)
def test_what_is_always_in_common_needs_no_branch(form: str, transposed: bool):
    module = run_stages(shared_operands(form), "f16")
    [found] = fused(module)
    assert (found.transposed is not None) == transposed
    assert not products(module)
    assert not any(isinstance(op, aa.IfOp) for op in module.walk())


@pytest.mark.parametrize("form", ["three", "one at a time", "one goes on"])
def test_not_where_products_are_more_than_two_sums_that_go_on(form: str):
    assert not fused(run_stages(shared_operands(form), "f16"))


def test_not_where_panels_of_both_tiles_alternate():
    """K-major, and deeper than a panel: the second panel of a tile is not behind the first."""
    deep = replace(LISTED, tile=(64, 64, 128))
    assert fused(placed(deep.text()))
    assert not fused(placed(replace(deep, b="column").text()))


@pytest.mark.parametrize(("order", "transposed"), [("rows", False), ("columns", True)])
def test_the_operand_that_neighbours_mostly_share_is_the_left_one(order: Order, transposed: bool):
    """Tiles of a row of the result share A, those of a column B."""
    func = placed(replace(LISTED, order=order).text())
    [found] = fused(func)
    assert (found.transposed is not None) == transposed
    # Sums of two tiles and of one are in the same registers.
    alone = products(func)
    assert [(op.transposed is not None) for op in alone] == [transposed] * 3


def test_a_branch_has_the_loop_as_it_was():
    """If the other operands are the same too, the second one never comes: nothing is fused."""
    func = placed(LISTED.text())
    [found] = fused(func)
    loop = found.parent_op()
    branch = loop.parent_op() if loop is not None else None
    assert isinstance(branch, aa.IfOp)
    others = [op for op in branch.else_region.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert len(others) == 2
    condition = branch.condition.owner
    assert isinstance(condition, aa.AndIOp)
    assert isinstance(condition.operands[1].owner, aa.XOrIOp)
    waits = [op for op in branch.walk() if isinstance(op, wg.DotWaitOp)]
    assert len(waits) == 4
    assert all(op.moved is not None for op in waits)


@pytest.mark.parametrize("form", ["numbered", "persistent"])
def test_threads_may_read_the_tile_in_common(form: Form):
    """Sums of the other loop move, those of the instruction for both stay where they are."""
    kernel = replace(READ, form=form)
    func = placed(kernel.text())
    [found] = fused(func)
    assert found.fragments is not None
    assert found.transposed is not None
    loop = found.parent_op()
    branch = loop.parent_op() if loop is not None else None
    assert isinstance(branch, aa.IfOp)
    moved = [
        [op.moved is not None for op in region.block.ops if isinstance(op, wg.DotWaitOp)]
        for region in branch.regions
    ]
    assert moved == [[False, False], [True, True]]


@pytest.mark.parametrize(
    ("rows", "columns", "transposed"),
    [(256, 128, True), (128, 256, False), (256, 64, False), (64, 256, False)],
)
def test_wide_instructions_read_less(rows: int, columns: int, transposed: bool):
    [found] = products(placed(gemm(rows, columns, 64).decode()))
    assert (found.transposed is not None) == transposed


@pytest.mark.parametrize(("result", "transposed"), [("f16", True), ("f32", False)])
@pytest.mark.parametrize("tile", [(256, 128, 64), (128, 128, 64)])
def test_results_of_persistent_kernels_leave_by_tma(
    tile: tuple[int, int, int], result: str, transposed: bool
):
    kernel = replace(LISTED, tile=tile, form="persistent", order="columns", result=result)
    func = placed(aligned_result(kernel))
    alone = products(func)
    assert all((op.transposed is not None) == transposed for op in alone)
    stores = [op for op in func.walk() if isinstance(op, ts.StoreStageOp)]
    assert stores
    assert all((op.transposed is not None) == transposed for op in stores)


@pytest.mark.parametrize("kernel", [replace(LISTED, order="columns"), replace(LISTED, a="column")])
@pytest.mark.parametrize("columns", [128, 200])
def test_every_stage_computes_the_product(
    kernel: ProductKernel, columns: int, monkeypatch: pytest.MonkeyPatch
):
    set_multiprocessors(monkeypatch, 1)
    assert two_tiles_stages(dense_case(kernel, (250, columns, 144), 4)) >= 3


@pytest.mark.parametrize(
    "source",
    [
        LISTED.text().encode(),
        replace(LISTED, order="columns").text().encode(),
        replace(LISTED, form="persistent", order="columns").text().encode(),
        gemm(256, 128, 64),
        shared_operands("left").encode(),
        READ.text().encode(),
        replace(READ, order="rows").text().encode(),
        aligned_result(replace(READ, form="persistent", whole=True)).encode(),
        replace(READ, order="rows", a="column", b="transposed").text().encode(),
    ],
    ids=[
        *("rows", "columns", "persistent", "256x128", "left"),
        *("read", "read, rows", "read, persistent", "read, A"),
    ],
)
def test_ptxas_keeps_products_under_way(source: bytes):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(source, options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("C75" in note for note in notes), notes
