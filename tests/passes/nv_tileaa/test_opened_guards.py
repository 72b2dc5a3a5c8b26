"""Kernels whose work is under a condition, or that return early, computed two tiles at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.stage_comparison import passes
from tests.kernels.tiles_per_cta import kernel_of
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

KERNEL = ProductKernel("f16", (128, 128, 64), form="numbered", result="f16")
CONDITIONS = {
    "all": "%is = cmpi less_than %x, %nx, signed : tile<i32> -> tile<i1>",
    "none": "%is = cmpi less_than %nx, %x, signed : tile<i32> -> tile<i1>",
    "first": "%is = cmpi less_than %x, %c2, signed : tile<i32> -> tile<i1>",
    "even": """%rest = remi %x, %c2 signed : tile<i32>
    %is = cmpi less_than %rest, %c1, signed : tile<i32> -> tile<i1>""",
    "some": """%part = divi %x, %c2 signed : tile<i32>
    %rest = remi %part, %c2 signed : tile<i32>
    %is = cmpi less_than %rest, %c1, signed : tile<i32> -> tile<i1>""",
    "odd": """%rest = remi %x, %c2 signed : tile<i32>
    %is = cmpi less_than %c0, %rest, signed : tile<i32> -> tile<i1>""",
}
"""Which tiles there are: some neighbours both, one or the other of two alone, or none of two."""


def guarded(condition: str, how: str, kernel: ProductKernel = KERNEL) -> str:
    """The kernel's text with its work under a condition, or behind an early return."""
    text = aligned_result(kernel)
    start, end = text.index("\n", text.index("%tiles:2 = ")) + 1, text.rindex("return")
    work = text[start:end]
    if how == "guarded":
        work = f"{CONDITIONS[condition]}\n    if %is {{\n    {work}\n    }}\n    "
    else:
        opposite = "%yes = constant <i1: true> : tile<i1>\n    %not = xori %is, %yes : tile<i1>"
        work = f"{CONDITIONS[condition]}\n    {opposite}\n    if %not {{\n return\n }}\n    {work}"
    return text[:start] + work + text[end:]


@pytest.mark.parametrize("how", ["guarded", "early"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    ("rows", "tiles", "order"),
    [(128, 4, "rows"), (128, 13, "rows"), (128, 22, "columns"), (64, 9, "rows")],
)
def test_tiles_that_exist_are_computed(
    monkeypatch: pytest.MonkeyPatch, rows: int, tiles: int, order: Order, condition: str, how: str
) -> None:
    """Tiles of 128 rows in rounds: the interpreter's GPU has 5 multiprocessors, so of ten tiles, up
    to five at the end. Of 64 rows without a static schedule: the grid is taken to fill the GPU.
    """
    set_multiprocessors(monkeypatch, 1)
    kernel = replace(KERNEL, order=order, tile=(rows, 128, 64))
    text = guarded(condition, how, kernel)
    extents = (rows, 128 * tiles - 24, 96) if order == "rows" else (rows * tiles - 24, 128, 96)
    case = dense_case(kernel, extents, tiles)
    module = parse_text(text, "kernel.mlir")
    wanted = case.arguments()
    run_entry(module, "product", wanted, case.grid)
    assert (condition == "all") == (not case.difference(wanted[2]))
    stages = {"form-clusters", "tileas-optimize-alloc-tensor"}
    for name, _ in passes(module, (), "sm_90"):
        if name in stages:
            func = kernel_of(module)
            assert (func.static_tile_scheduler is not None) == (rows == 128)
            assert func.two_tiles is not None and func.two_tiles.data == "blocks"
            arguments = case.arguments()
            run_entry(module, "product", arguments, case.grid)
            np.testing.assert_array_equal(arguments[2], wanted[2], err_msg=name)


def test_nothing_spills() -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(guarded("odd", "guarded").encode(), options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("C75" in note for note in notes), notes


LOADED = """%list = make_tensor_view %locks, shape = [1], strides = [1]
      : tile<i32> -> tensor_view<1xi32, strides=[1]>
    %one = make_partition_view %list : partition_view<tile=(1), tensor_view<1xi32, strides=[1]>>
    %found, %tf = load_view_tko weak %one[%c0] token = %t0
      : partition_view<tile=(1), tensor_view<1xi32, strides=[1]>>, tile<i32> -> tile<1xi32>, token
    %count = reshape %found : tile<1xi32> -> tile<i32>
    %is = cmpi less_than %x, %count, signed : tile<i32> -> tile<i1>"""


EQUAL = """%rest = remi %x, %c2 signed : tile<i32>
    %is = cmpi equal %rest, %c1, signed : tile<i32> -> tile<i1>"""
TRIANGLE = """%rest = remi %x, %tiles#1 signed : tile<i32>
    %line = divi %x, %tiles#1 signed : tile<i32>
    %is = cmpi less_than %rest, %line, signed : tile<i32> -> tile<i1>"""
BAND = """%rest = remi %x, %tiles#1 signed : tile<i32>
    %line = divi %x, %tiles#1 signed : tile<i32>
    %far = subi %rest, %line : tile<i32>
    %is = cmpi less_than %far, %c1, signed : tile<i32> -> tile<i1>"""
BOUND = "%p, %tp = load_ptr_tko weak %locks token = %t0 : tile<ptr<i32>> -> tile<i32>, token"


@pytest.mark.parametrize(
    "edits",
    [
        {"    %sum = for %k in (%c0": f"    {BOUND}\n    %sum = for %k in (%p"},
        {CONDITIONS["odd"]: LOADED},
        {CONDITIONS["odd"]: EQUAL},
        {CONDITIONS["odd"]: TRIANGLE},
        {CONDITIONS["odd"]: BAND},
    ],
    ids=["a load under it", "a loaded one", "every second tile", "a triangle", "a band"],
)
def test_other_guards_stay(edits: dict[str, str]) -> None:
    """What is loaded under a condition may not be there without it; of tiles here and there some
    tile blocks of a static schedule would have more than others.
    """
    text = guarded("odd", "guarded")
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "form-clusters":
            assert kernel_of(module).two_tiles is None
