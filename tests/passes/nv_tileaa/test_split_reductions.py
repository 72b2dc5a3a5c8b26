"""Loops that the CTAs of a cluster divide: the same sums, and where the loop is left whole."""

from __future__ import annotations

from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.column_sums import FUNCTIONS, ColumnCase, column_kernel
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

ROWS = [0, 1, 64, 200, 577, 1100]
SUM = column_kernel()


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


@pytest.mark.parametrize("rows", [1, 200, 577])
def test_ptx_has_no_race_and_the_same_sums(rows: int):
    case = ColumnCase("sum", rows, 2)
    run_ptx(ptx_of(SUM), case.arguments(), case.grid)
    case.check()


def test_one_cta_reads_the_sums_of_all_and_stores():
    func = kernel_of(stages(SUM)["split-reductions"])
    reads = [op for op in func.walk() if isinstance(op, aa.ReadSharedOp)]
    assert [op.rank.data for op in reads] == list(range(func.cluster_size))
    assert sum(isinstance(op, aa.TiledStoreOp) for op in func.walk()) == 1
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
