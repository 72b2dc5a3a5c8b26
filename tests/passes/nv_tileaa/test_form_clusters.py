"""Clusters: tile blocks in pairs, tiles divided among CTAs; the same results, fewer loads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import aligned_result, make_case
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text

PERSISTENT = ProductKernel("f16", (64, 256, 64), form="persistent")
CLUSTERED = ProductKernel("f16", (128, 128, 64), cluster=2)
DIVIDED = ProductKernel("f16", (256, 256, 64), cluster=2)


def placed(text: str) -> ModuleOp:
    """The kernel after its layouts have been chosen for sm_90."""
    module = parse_text(text, "kernel.mlir")
    for _ in passes(module, (), "sm_90"):
        pass
    return module


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))


def copies(func: aa.FuncOp) -> list[pl.TmaLoadOp]:
    """The copies of a kernel's producer."""
    return [op for op in func.walk() if isinstance(op, pl.TmaLoadOp)]


def test_persistent_kernels_are_clustered():
    func = kernel_of(placed(PERSISTENT.text()))
    assert func.cluster_size == 2
    assert func.clustered is not None
    assert all(copy.multicast_if is not None for copy in copies(func))


def test_one_tile_each_is_clustered_only_if_asked_for():
    assert kernel_of(placed(replace(CLUSTERED, cluster=0).text())).cluster_size == 1
    assert kernel_of(placed(replace(CLUSTERED, cluster=1).text())).cluster_size == 1
    assert kernel_of(placed(CLUSTERED.text())).clustered is not None


def test_one_cta_can_be_asked_for():
    assert kernel_of(placed(replace(PERSISTENT, cluster=1).text())).cluster_size == 1


LOOKED_UP = """    %entry = offset %locks, %column : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %group, %known = load_ptr_tko weak %entry token=%t0 : tile<ptr<i32>> -> tile<i32>, token
    %place = addi %column, %group : tile<i32>
    %sum = for"""


@pytest.mark.parametrize(
    ("order", "rows", "size"), [("rows", "", 2), ("columns", "", 1), ("columns", "%one", 2)]
)
def test_neighbours_have_to_have_a_tile_in_common_mostly(order: Order, rows: str, size: int):
    """B is looked up. A is the same along a row of tiles, or where a row of tiles is one tile."""
    text = replace(PERSISTENT, order=order).text()
    text = text.replace("    %sum = for", LOOKED_UP).replace("%pB[%k, %column]", "%pB[%k, %place]")
    if rows:
        one = f"{rows} = mini %tiles#0, %c1 signed : tile<i32>\n    %total = muli"
        text = text.replace("%total = muli", one).replace("%tile, %tiles#0", f"%tile, {rows}")
    assert kernel_of(placed(text)).cluster_size == size


def test_a_tile_beyond_the_registers_is_divided():
    func = kernel_of(placed(DIVIDED.text()))
    assert (func.cluster_size, func.clustered) == (2, None)
    products = [op for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert len(products) == 1
    left, right = copies(func)
    assert left.multicast_if is None
    assert right.multicast_if is not None


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (DIVIDED, [128, 256]),
        (replace(DIVIDED, form="batched", b="transposed"), [128, 256]),
        (replace(DIVIDED, element="f32", tile=(256, 256, 32)), [256, 128]),
        (replace(DIVIDED, element="f8E4M3FN", tile=(256, 256, 128), whole=True), [256, 128]),
    ],
)
def test_clusters_that_divide_a_tile_go_through_the_grid(
    kernel: ProductKernel, part: list[int], asked: int
):
    """Whether two CTAs are asked for or not; along columns where threads read them."""
    func = kernel_of(placed(aligned_result(replace(kernel, cluster=asked))))
    assert (func.cluster_size, func.clustered) == (2, None)
    assert func.static_tile_scheduler is not None and func.tile_queue is None
    [product] = [op for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert list(shape_of(product.results[0])) == part


def test_partial_sums_with_narrow_stores_have_no_loop_over_tiles():
    """They would spill."""
    kernel = replace(DIVIDED, element="f8E4M3FN", tile=(256, 256, 128), result="f32")
    func = kernel_of(placed(kernel.text()))
    assert (func.cluster_size, func.static_tile_scheduler) == (2, None)


def test_which_tiles_are_divided_unasked():
    """Those that two CTAs hold, of operands that TMA brings, one of each tile block."""
    whole = ProductKernel("f16", (128, 256, 64))
    for kernel in (
        whole,
        replace(whole, tile=(256, 256, 64), form="persistent"),
        replace(whole, tile=(256, 256, 64), is_aligned=False),
        replace(whole, tile=(256, 256, 64), a="any"),
        replace(whole, tile=(512, 256, 64)),
    ):
        func = kernel_of(placed(kernel.text()))
        assert func.cluster_size == 1 or func.clustered is not None, kernel.name


def test_larger_clusters_have_a_tile_each():
    func = kernel_of(placed(replace(DIVIDED, cluster=4).text()))
    assert (func.cluster_size, func.static_tile_scheduler) == (4, None)


@pytest.mark.parametrize("order", ["%rt", "%t0"])
def test_a_tile_is_not_divided_if_a_part_stores_what_another_one_loads(order: str):
    text = DIVIDED.text()
    view = "tensor_view<?x?xf32, strides=[?,1]>"
    row = f"partition_view<tile=(1x256), {view}>"
    store = next(line for line in text.splitlines() if "%stored =" in line)
    added = f"""    %pr = make_partition_view %tC : {row}
    %row, %rt = load_view_tko weak %pr[%c0, %c0] token = %t0 : {row}, tile<i32>
      -> tile<1x256xf32>, token
    %rows = broadcast %row : tile<1x256xf32> -> tile<256x256xf32>
    %more = addf %sum, %rows : tile<256x256xf32>
{store.replace("%sum", "%more").replace("%t0", order)}"""
    func = kernel_of(placed(text.replace(store, added)))
    assert (func.clustered is None and func.cluster_size == 2) == (order == "%t0")


def test_tile_blocks_that_may_wait_for_each_other_are_not_clustered():
    weak = PERSISTENT.text()
    strong = weak.replace("store_view_tko weak", "store_view_tko release device")
    assert strong != weak
    assert kernel_of(placed(strong)).cluster_size == 1


def test_loops_that_depend_on_the_tile_block_are_not_clustered():
    text = CLUSTERED.text()
    causal = text.replace("for %k in (%c0 to %space#1", "for %k in (%c0 to %x")
    assert causal != text
    assert kernel_of(placed(causal)).cluster_size == 1


def test_loops_over_tiles_that_sum_up_are_not_clustered():
    # The loop over K is the one that the tile blocks divide: one of a pair would go too far.
    head, loop = PERSISTENT.text().split(
        "    for %tile in (%x to %total, step %nx) : tile<i32> {\n"
    )
    loop = loop.replace("(%c0 to %space#1, step %c1)", "(%x to %space#1, step %nx)")
    loop = loop.replace("    continue\n    }\n    return", "    return").replace("%tile,", "%x,")
    assert kernel_of(placed(head + loop)).cluster_size == 1
    fixed = loop.replace("(%x to %space#1, step %nx)", "(%c0 to %space#1, step %nx)")
    assert kernel_of(placed(head + fixed)).cluster_size == 2


SIMULATED = (
    ProductKernel("f16", (64, 256, 64), form="persistent"),
    ProductKernel("bf16", (64, 256, 64), b="transposed", form="persistent"),
    ProductKernel("f16", (64, 64, 64), form="batched", cluster=2),
    ProductKernel("f16", (64, 128, 64), cluster=2),
    ProductKernel("f16", (256, 256, 64), b="transposed", cluster=2),
    ProductKernel("f32", (256, 256, 32)),
    ProductKernel("i8", (64, 256, 128), b="transposed", form="persistent"),
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", SIMULATED, ids=lambda kernel: kernel.name)
def test_every_stage_computes_the_product(kernel: ProductKernel, seed: int):
    case = make_case(kernel, seed)
    module = parse_text(kernel.text(), "kernel.mlir")
    stages = 0
    for name, _ in changing(module, passes(module, (), "sm_90")):
        func = next((op for op in module.walk() if isinstance(op, aa.FuncOp)), None)
        if func is None or func.cluster_size == 1:
            continue
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert not case.difference(arguments[2]), name
        stages += 1
    assert stages >= 2
