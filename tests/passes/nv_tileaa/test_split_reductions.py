"""Loops that the CTAs of a cluster divide: the same sums, and where the loop is left whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.column_sums import FUNCTIONS, ColumnCase, column_kernel, wide_kernel
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa import split_reductions

ROWS = [0, 1, 64, 200, 577, 1100]
SUM = column_kernel()
WIDE = wide_kernel()


@cache
def stages(text: str, gpu_name: str = "sm_90") -> dict[str, ModuleOp]:
    """The kernel behind the pass, and once tiles have layouts."""
    module = parse_text(text, "kernel.mlir")
    found: dict[str, ModuleOp] = {}
    for name, _ in passes(module, (), gpu_name):
        if name in ("split-reductions", "convert-tileaa-to-tileas"):
            module.verify()
            found[name] = module.clone()
    return found


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))


def cluster_size(text: str) -> int:
    """CTAs of the kernel's clusters behind the pass."""
    return kernel_of(stages(text)["split-reductions"]).cluster_size


@cache
def ptx_of(text: str) -> str:
    """The kernel's PTX."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(text.encode(), options).output.decode()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_rows_are_combined(function: str, rows: int):
    text = column_kernel(function)
    assert cluster_size(text) > 1
    for module in (parse_text(text, "kernel.mlir"), *stages(text).values()):
        case = ColumnCase(function, rows, 3)
        run_entry(module, None, case.arguments(), case.grid)
        case.check()


def test_iterations_of_a_loop_that_starts_later_and_leaves_some_out():
    text = column_kernel(first=1, step=3)
    assert cluster_size(text) > 1
    for module in stages(text).values():
        case = ColumnCase("sum", 1500, 2)
        run_entry(module, None, case.arguments(), case.grid)
        case.check(1, 3)


@pytest.fixture
def many_tile_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every grid is one that fills the GPU."""
    monkeypatch.setattr(split_reductions, "MANY", 0)
    for made in (stages, ptx_of):
        made.cache_clear()
    yield
    for made in (stages, ptx_of):
        made.cache_clear()


@pytest.mark.usefixtures("many_tile_blocks")
@pytest.mark.parametrize("blocks", [1, 3, 4, 6])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_tile_blocks_of_large_grids_are_left_to_one_cta(function: str, blocks: int):
    text = column_kernel(function)
    for module in stages(text).values():
        case = ColumnCase(function, 577, blocks)
        run_entry(module, None, case.arguments(), case.grid)
        case.check()


@pytest.mark.usefixtures("many_tile_blocks")
@pytest.mark.parametrize("blocks", [2, 5])
def test_ptx_of_large_grids_has_no_race_and_the_same_sums(blocks: int):
    case = ColumnCase("sum", 577, blocks)
    run_ptx(ptx_of(SUM), case.arguments(), case.grid)
    case.check()


@pytest.fixture
def halved_clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every grid is one of which the halves of clusters find room."""
    monkeypatch.setattr(split_reductions, "HALVED", (0, 100))
    for made in (stages, ptx_of):
        made.cache_clear()
    yield
    for made in (stages, ptx_of):
        made.cache_clear()


@pytest.mark.usefixtures("halved_clusters")
@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_halves_of_clusters_have_a_tile_block_each(function: str, blocks: int):
    text = column_kernel(function)
    for module in stages(text).values():
        case = ColumnCase(function, 577, blocks)
        run_entry(module, None, case.arguments(), case.grid)
        case.check()


@pytest.mark.usefixtures("halved_clusters")
@pytest.mark.parametrize(("blocks", "rows"), [(2, 577), (5, 200), (1, 64)])
def test_ptx_of_halves_has_no_race_and_the_same_sums(blocks: int, rows: int):
    case = ColumnCase("sum", rows, blocks)
    run_ptx(ptx_of(SUM), case.arguments(), case.grid)
    case.check()


@pytest.mark.parametrize("rows", [1, 200, 577])
def test_ptx_has_no_race_and_the_same_sums(rows: int):
    case = ColumnCase("sum", rows, 2)
    run_ptx(ptx_of(SUM), case.arguments(), case.grid)
    case.check()


def test_one_cta_reads_the_sums_of_all_and_stores():
    func = kernel_of(stages(SUM)["split-reductions"])
    exchanges = [op for op in func.walk() if isinstance(op, aa.ShareTilesOp)]
    assert [op.members for op in exchanges] == [func.cluster_size // 2, func.cluster_size]
    for shared in exchanges:
        reads = shared.reads(0)
        assert sorted(op.rank.data for op in reads) == list(range(shared.members))
        [branch] = [use.operation for use in reads[0].results[0].uses]
        around = branch.parent_op()
        assert isinstance(around, aa.IfOp) and shared.parent_op() is around.parent_op()
        assert sum(isinstance(op, aa.TiledStoreOp) for op in around.walk()) == 1
    assert func.clustered is None


def hinted(text: str, most: int) -> str:
    """The kernel with a hint for CTAs of a cluster."""
    hint = f"%columns: tile<i32>) optimization_hints=<sm_90 = {{num_cta_in_cga = {most}}}>"
    return text.replace("%columns: tile<i32>)", hint, 1)


def test_a_hint_says_how_many_ctas_there_are_at_most():
    assert cluster_size(hinted(SUM, 2)) == 2


LEFT = {
    "sums that the loop reads otherwise": SUM.replace("addf %s, %y", "addf %s, %s"),
    "a sum of what it was": SUM.replace(
        "%more = addf %s, %y", "%old = mulf %s, %y : tile<64x128xf32>\n      %more = addf %s, %old"
    ),
    "a sum that is rounded to zero": SUM.replace("addf %s, %y", "addf %s, %y rounding<zero>"),
    "a sum that starts from one": SUM.replace("<f32: 0.0>", "<f32: 1.0>"),
    "an order of subtractions": SUM.replace("addf %s, %y", "subf %s, %y"),
    "a loop to an unknown end": SUM.replace(
        "divi %rows, %c64 signed rounding<positive_inf>", "addi %rows, %c64"
    ),
    "a loop that starts anywhere": SUM.replace("(%first to", "(%by to"),
    "one CTA is asked for": hinted(SUM, 1),
    "tiles that stay as they are": column_kernel(reduced=False),
    "rows, of which there are many": SUM.replace("%p[%i, %b]", "%p[%b, %i]")
    .replace("dim=0", "dim=1")
    .replace("-> tile<128xf32>", "-> tile<64xf32>")
    .replace("tile=(128)", "tile=(64)")
    .replace(": tile<128xf32>, part", ": tile<64xf32>, part"),
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_is_left(text: str):
    assert cluster_size(text) == 1


def test_targets_without_clusters_are_left():
    assert kernel_of(stages(SUM, "sm_80")["split-reductions"]).cluster_size == 1


@pytest.mark.parametrize("rows", [0, 1, 130])
@pytest.mark.parametrize(("function", "columns"), [("sum", 1024), ("max", 1024), ("sum", 2048)])
def test_parts_of_large_tiles_are_all_there(function: str, rows: int, columns: int):
    text = wide_kernel(function, columns)
    assert cluster_size(text) == 4
    for module in (parse_text(text, "kernel.mlir"), *stages(text).values()):
        case = ColumnCase(function, rows, 2, columns)
        run_entry(module, None, case.arguments(), case.grid)
        case.check()


def test_ptx_of_parts_has_no_race_and_the_same_sums():
    case = ColumnCase("sum", 130, 1, 1024)
    run_ptx(ptx_of(WIDE), case.arguments(), case.grid)
    case.check()


def test_a_cta_with_one_part_has_no_loop_over_parts():
    func = kernel_of(stages(WIDE)["split-reductions"])
    loops = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    assert len(loops) == 1 and len(loops[0].results) == 1
    several = kernel_of(stages(wide_kernel(columns=2048))["split-reductions"])
    loops = [op for op in several.body.block.ops if isinstance(op, aa.ForOp)]
    assert len(loops) == 1 and not loops[0].results


PARTS_LEFT = {
    "one CTA is asked for": hinted(WIDE, 1),
    "a tile that is printed": WIDE.replace(
        "%w = store_view", 'print_tko "%d", %b : tile<i32> -> token\n    %w = store_view'
    ),
    "loads behind what is stored": WIDE.replace(
        "    %n = divi",
        "    %z = store_view_tko weak %edge, %op[%by] token = %t : tile<1024xf32>, "
        "partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token\n"
        "    %n = divi",
    )
    .replace("%p[%i, %b] token = %t", "%p[%i, %b] token = %z")
    .replace("    %t = make", "    %edge = constant <f32: 2.0> : tile<1024xf32>\n    %t = make"),
}


@pytest.mark.parametrize("text", PARTS_LEFT.values(), ids=PARTS_LEFT)
def test_which_parts_are_left_to_one_cta(text: str):
    assert cluster_size(text) == 1
