"""Epilogues computed slice by slice: the same memory, and no more than the registers at once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.biased_gemm import biased_arguments, biased_gemm
from tests.kernels.loop_products import LOOP, STORE, kernel
from tests.kernels.split_products import (
    BRANCH,
    EPILOGUE,
    IN_PLACE,
    NORMALISED,
    PERSISTENT,
    READ_BACK,
    arrays,
)
from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout.grid_slices import grid_slice
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa.epilogue_cut import build_epilogue_slices, find_epilogue_cut

BIASED = f"""{LOOP}
    %pl = make_partition_view %te
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>
    %row, %kr = load_view_tko weak %pl[%c0, %y] token = %t0
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>, tile<i32>
          -> tile<1x32xf32>, token
    %rows = broadcast %row : tile<1x32xf32> -> tile<32x32xf32>
    %sum = addf %acc, %rows : tile<32x32xf32>
    {STORE.replace("%acc", "%sum")}"""

OUTER_ROW = f"""%pl = make_partition_view %te
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>
    %row, %kr = load_view_tko weak %pl[%c0, %c0] token = %t0
        : partition_view<tile=(1x32), tensor_view<56x56xf32, strides=[56,1]>>, tile<i32>
          -> tile<1x32xf32>, token
    {PERSISTENT}""".replace(
    "%u = store_view_tko weak %acc",
    """%rows = broadcast %row : tile<1x32xf32> -> tile<32x32xf32>
      %sum = addf %acc, %rows : tile<32x32xf32>
      %u = store_view_tko weak %sum""",
)

UNDER_JOIN = IN_PLACE.replace("token = %k0", "token = %j").replace(
    "%new = addf", "%j = join_tokens %k0, %t0 : token\n    %new = addf"
)

BEHIND = f"""{EPILOGUE}
    %j = join_tokens %u, %v : token
    %old, %ko = load_view_tko weak %pc[%x, %y] token = %j
        : VIEWC, tile<i32> -> tile<32x32xf32>, token
    %again = addf %old, %old : tile<32x32xf32>
    %w = store_view_tko weak %again, %pc[%x, %y] token = %ko
        : tile<32x32xf32>, VIEWC, tile<i32> -> token"""

SLICED = {
    "a row for all rows": (kernel(BIASED), 1),
    "two stores, ranges and masks": (kernel(f"{LOOP}\n{EPILOGUE}"), 2),
    "in place": (kernel(f"{LOOP}\n{IN_PLACE}"), 1),
    "in place, behind a join": (kernel(f"{LOOP}\n{UNDER_JOIN}"), 1),
    "persistent": (kernel(PERSISTENT, is_block=False), 1),
    "a row from around the loop": (kernel(OUTER_ROW, is_block=False), 1),
    "with accesses behind it": (kernel(f"{LOOP}\n{BEHIND}"), 2),
}


def at_nv_tileaa(text: str):
    """The kernel as the pass gets it."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "convert-cudatile-to-tileaa":
            break
    return module


def blocks_of(module):
    """Bodies of functions and loops."""
    owners = [op for op in module.walk() if isinstance(op, aa.FuncOp | aa.ForOp)]
    return [op.body.block for op in owners]


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("text", "stores"), SLICED.values(), ids=SLICED)
def test_slices_compute_the_same(text, stores, dim, parts):
    module = at_nv_tileaa(text)
    wanted, found = arrays(), arrays()
    run_entry(module, "kernel", wanted, (2, 2, 1))
    cuts = [cut for block in blocks_of(module) if (cut := find_epilogue_cut(block, parts, dim))]
    before = sum(isinstance(op, aa.TiledStoreOp) for op in module.walk())
    for cut in cuts:
        assert len(cut.stores) == stores
        build_epilogue_slices(cut)
    assert len(cuts) == 1
    module.verify()
    after = sum(isinstance(op, aa.TiledStoreOp) for op in module.walk())
    assert after == before + stores * (parts - 1)
    run_entry(module, "kernel", found, (2, 2, 1))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(one, other)


ORDERED = EPILOGUE.replace("%v = store_view_tko weak %most, %pe[%x, %y] token = %t0", "%v = STORE")
WHOLE = {
    "a sum that all of it goes into": NORMALISED,
    "stores in branches": BRANCH,
    "reads what another slice stores": READ_BACK,
    "a row from around the loop that stores wait for": OUTER_ROW.replace(
        "iter_values(%w = %t0)", "iter_values(%w = %kr)"
    ),
    "stores in an order": f"""{LOOP}
    {ORDERED.replace("STORE", "store_view_tko weak %most, %pe[%x, %y] token = %u")}""",
}


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_epilogue_stays_whole(body):
    module = at_nv_tileaa(kernel(body, is_block="%x =" not in body))
    assert not [cut for block in blocks_of(module) if (cut := find_epilogue_cut(block, 2, 1))]


@pytest.mark.parametrize(
    ("rows", "columns", "part"), [(128, 256, (128, 128)), (256, 128, (128, 128))]
)
def test_slices_are_registers_of_an_accumulator(rows, columns, part):
    """One of the whole height, or of the whole width where the product is computed transposed."""
    source = biased_gemm(rows, columns, 64)
    module = read_source(source)
    wanted = biased_arguments(rows, columns, 128)
    run_entry(module, "gemm", wanted, (1, 1, 1))
    assert wanted[2].any()
    for name, _ in changing(module, passes(module, (), "sm_90")):
        found = biased_arguments(rows, columns, 128)
        run_entry(module, "gemm", found, (1, 1, 1))
        np.testing.assert_array_equal(wanted[2], found[2], err_msg=f"after {name}")
    slices = [op for op in module.walk() if isinstance(op, aa.ExtractOp)]
    assert [op.result.type.get_shape() for op in slices] == [part] * 2
    layout = wgmma_accumulator((128, 128), 2)
    layout = layout if rows < columns else layout.permute((1, 0))
    assert all(str(layout) in str(op.result.type) for op in slices)


def test_epilogue_of_two_stores_does_not_spill():
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    assert "0 bytes spilled" in compile_module(biased_gemm(128, 256, 64), options).notes[0]


def test_slices_of_lanes_have_no_layout():
    layout = wgmma_accumulator((128, 256), 2)
    assert grid_slice(layout, (128, 64)) == wgmma_accumulator((128, 64), 2)
    assert grid_slice(layout, (64, 256)) is None
    assert grid_slice(layout, (128, 4)) is None
