"""Two tiles of 64 rows as one of 128: which kernels, and the same results at every stage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.product_text import Form, ProductKernel
from tests.kernels.random_products import UNTOUCHED, aligned_result, dense_case, filled
from tests.kernels.stage_comparison import passes
from tests.kernels.tiles_per_cta import placed, two_tiles_stages
from tests.kernels.unchanged import changing
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

FLAT = ProductKernel("f16", (64, 256, 64), form="numbered", order="columns", result="f16")


WIDE = ProductKernel("f32", (128, 256, 32), form="numbered", order="columns")
"""Threads read B, whose rows are contiguous: wgmma wants 32-bit elements along K."""
BYTES = ProductKernel(
    "f8E4M3FN", (128, 256, 128), form="numbered", order="columns", result="f16", whole=True
)
"""The same of 8 bits, whose sums are partial."""


def is_one(text: str) -> bool:
    """Whether two tiles are computed as one."""
    func = placed(text)
    return func.two_tiles is not None and func.two_tiles.data == "rows"


def products(text: str) -> list[tuple[int, ...]]:
    """The shapes of a kernel's products."""
    func = placed(text)
    dots = [op for op in func.walk() if isinstance(op, wg.WgmmaDotOp)]
    return [shape_of(op.result) for op in dots]


def columns_first(text: str) -> str:
    """A kernel whose grid goes along a row of tiles first."""
    numbers = "%x, %y, %z = get_tile_block_id"
    assert numbers in text
    return text.replace(numbers, "%y, %x, %z = get_tile_block_id")


def with_sum(text: str, added: str) -> str:
    """The kernel that adds something to its sum before it stores it."""
    end = next(line for line in text.splitlines() if "ftof %sum" in line or "%stored =" in line)
    return text.replace(end, f"{added}\n{end.replace('%sum', '%more')}")


def row_and_column(text: str) -> str:
    """The kernel that adds the first row of B and the first column of A."""
    lines: list[str] = []
    for name, tile, place in (("A", "64x1", "%row, %c0"), ("B", "1x256", "%c0, %column")):
        view = next(line for line in text.splitlines() if f"%t{name} = make" in line)
        type = view.rpartition("-> ")[2]
        part = f"partition_view<tile=({tile}), padding_value = zero, {type}>"
        lines += [
            f"    %o{name} = make_partition_view %t{name} : {part}",
            f"    %v{name}, %u{name} = load_view_tko weak %o{name}[{place}] token = %t0 : {part}, "
            f"tile<i32> -> tile<{tile}xf16>, token",
            f"    %f{name} = ftof %v{name} : tile<{tile}xf16> -> tile<{tile}xf32>",
            f"    %w{name} = broadcast %f{name} : tile<{tile}xf32> -> tile<64x256xf32>",
        ]
    lines += [
        "    %part = addf %sum, %wA : tile<64x256xf32>",
        "    %more = addf %part, %wB : tile<64x256xf32>",
    ]
    return with_sum(text, "\n".join(lines))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_two_tiles_are_one_of_twice_the_rows(element: str):
    text = aligned_result(replace(FLAT, element=element, result=element))
    assert is_one(text)
    # In a round, one after the other where they do not follow, and a last one.
    assert products(text) == [(128, 256), (64, 256), (64, 256)]


@pytest.mark.parametrize("order", ["rows", "diagonal"])
def test_not_where_neighbours_have_other_columns(order: str):
    assert not is_one(aligned_result(replace(FLAT, order=order)))


@pytest.mark.parametrize("tile", [(64, 128, 64), (128, 128, 64), (128, 256, 64)])
def test_not_where_the_tile_would_not_be_large_or_is(tile: tuple[int, int, int]):
    assert not is_one(aligned_result(replace(FLAT, tile=tile)))


@pytest.mark.parametrize(("depth", "is_deep"), [(16, False), (32, True)])
def test_not_where_a_stage_has_one_step_of_an_instruction(depth: int, is_deep: bool):
    assert is_one(aligned_result(replace(FLAT, tile=(64, 256, depth)))) == is_deep


def test_not_where_no_warp_stores():
    assert not is_one(FLAT.text())


def test_not_where_the_loop_over_k_depends_on_the_tile():
    text = aligned_result(FLAT)
    assert not is_one(text.replace("for %k in (%c0 to %space#1", "for %k in (%c0 to %row"))


@pytest.mark.parametrize("blocks", [(2, 1), (3, 2), (1, 1)])
def test_every_stage_computes_the_product(blocks: tuple[int, int]):
    rows, columns = blocks
    case = dense_case(FLAT, (rows * 64 - 8, columns * 256 - 8, 72), rows * columns, 1, 1)
    assert two_tiles_stages(case, aligned_result(FLAT)) >= 2


def test_wide_tiles_whose_columns_threads_read_are_one_in_two_parts():
    assert is_one(WIDE.text())
    assert products(WIDE.text()) == [(256, 128), (128, 256), (128, 256)]


def test_the_first_operands_of_a_last_wide_tile_are_fetched_by_threads():
    fills = [op for op in placed(WIDE.text()).walk() if isinstance(op, pl.PrologueFillOp)]
    assert [fill.at_start is not None for fill in fills] == [True]


@pytest.mark.parametrize(
    "changed",
    [
        replace(WIDE, b="transposed"),
        replace(WIDE, tile=(128, 128, 32)),
        replace(WIDE, tile=(256, 128, 32)),
        replace(WIDE, order="rows"),
        replace(WIDE, element="i8", tile=(128, 256, 128)),
    ],
)
def test_not_where_parts_would_not_read_less(changed: ProductKernel):
    """K contiguous in both, no wide tile, other columns in the next tile, 8-bit integers."""
    assert not is_one(changed.text())


def test_partial_sums_are_one_in_two_parts():
    text = aligned_result(BYTES)
    assert is_one(text)
    assert products(text) == [(256, 128), (128, 256), (128, 256)]
    # Stores element by element, or of words, would leave them too few registers.
    assert not is_one(aligned_result(replace(BYTES, whole=False)))
    assert not is_one(aligned_result(replace(BYTES, result="f32")))


@pytest.mark.parametrize("form", ["numbered", "plain", "batched"])
@pytest.mark.parametrize("depth", [64, 128, 256])
def test_partial_sums_spill_nothing_in_parts(form: Form, depth: int):
    kernel = replace(BYTES, tile=(128, 256, depth), form=form)
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(aligned_result(kernel).encode(), options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("C75" in note for note in notes), notes


@pytest.mark.parametrize(
    ("kernel", "form"),
    [(FLAT, "plain"), (WIDE, "plain"), (WIDE, "batched"), (BYTES, "plain"), (BYTES, "batched")],
)
def test_neighbours_along_any_axis_of_the_grid(kernel: ProductKernel, form: Form):
    text = aligned_result(replace(kernel, form=form))
    assert is_one(text)
    assert is_one(columns_first(text))


@pytest.mark.parametrize("blocks", [(2, 2), (3, 2), (5, 3), (1, 4), (4, 1)])
def test_every_stage_computes_the_product_along_columns(blocks: tuple[int, int]):
    rows, columns = blocks
    kernel = replace(FLAT, form="plain")
    case = dense_case(kernel, (rows * 64 - 8, columns * 256 - 8, 72), columns, rows)
    assert two_tiles_stages(case, columns_first(aligned_result(kernel))) >= 2


@pytest.mark.parametrize("blocks", [(2, 1), (3, 1)])
def test_every_stage_computes_the_product_in_parts(blocks: tuple[int, int]):
    rows, columns = blocks
    case = dense_case(WIDE, (rows * 128 - 8, columns * 256 - 8, 40), rows * columns, 1, 1)
    assert two_tiles_stages(case, WIDE.text()) >= 2


@pytest.mark.parametrize("blocks", [(2, 1), (3, 2), (1, 1)])
def test_what_belongs_to_rows_has_twice_as_many(blocks: tuple[int, int]):
    text = row_and_column(aligned_result(FLAT))
    assert is_one(text)
    rows, columns = blocks
    case = dense_case(FLAT, (rows * 64 - 8, columns * 256 - 8, 72), rows * columns, 1, 1)
    a, b = (operand.astype(np.float64) for operand in case.operands())
    exact = np.matmul(a, b) + a[:, :, :1] + b[:, :1, :]
    wanted = filled(case.c, exact, "f16", UNTOUCHED)
    module, stages = parse_text(text, "kernel.mlir"), 0
    for name, _ in changing(module, passes(module, (), "sm_90")):
        func = next((op for op in module.walk() if isinstance(op, aa.FuncOp)), None)
        if func is None or func.two_tiles is None:
            continue
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        np.testing.assert_array_equal(arguments[2], wanted, name)
        stages += 1
    assert stages >= 2


@pytest.mark.parametrize("blocks", [(2, 1), (3, 2)])
def test_a_tile_that_is_loaded_first_is_stored_behind_its_load(blocks: tuple[int, int]):
    text = aligned_result(FLAT)
    view = next(line for line in text.splitlines() if "%pC = make" in line).rpartition(" : ")[2]
    added = f"""    %old, %read = load_view_tko weak %pC[%row, %column] token = %t0
      : {view}, tile<i32> -> tile<64x256xf16>, token
    %wide = ftof %old : tile<64x256xf16> -> tile<64x256xf32>
    %more = addf %sum, %wide : tile<64x256xf32>"""
    text = with_sum(text, added).replace(
        "%row, %column] token = %t0 : tile<64x256xf16>",
        "%row, %column] token = %read : tile<64x256xf16>",
    )
    rows, columns = blocks
    case = dense_case(FLAT, (rows * 64 - 8, columns * 256 - 8, 72), rows * columns, 1, 1)
    module = parse_text(text, "kernel.mlir")
    wanted = case.arguments()
    run_entry(module, "product", wanted, case.grid)
    for name, _ in changing(module, passes(module, (), "sm_90")):
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        np.testing.assert_array_equal(arguments[2], wanted[2], name)


def test_sums_over_rows_need_the_rows_of_a_tile():
    text = aligned_result(FLAT)
    added = """    %total = reduce %sum dim=0 identities=[0.0 : f32] : tile<64x256xf32>
      -> tile<256xf32>
      (%one: tile<f32>, %other: tile<f32>) {
        %both = addf %one, %other : tile<f32>
        yield %both : tile<f32>
      }
    %flat = reshape %total : tile<256xf32> -> tile<1x256xf32>
    %wide = broadcast %flat : tile<1x256xf32> -> tile<64x256xf32>
    %more = addf %sum, %wide : tile<64x256xf32>"""
    assert not is_one(with_sum(text, added))
