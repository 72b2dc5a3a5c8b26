"""How many warps a tile block gets: by its largest tile, fewer where rows are combined."""

from __future__ import annotations

import re

import pytest

from tests.kernels.gemm import gemm
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.row_loops import RowLoop
from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.driver import compile_module, with_environment
from tileiras.errors import UsageError
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.pass_names import make_pass
from tileiras.planning.resources.warps import plan_cta

SUM = """
    %s = reduce %x dim=AXIS identities=[0.0 : f32] : tile<SHAPExf32> -> tile<RESTxf32>
    (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }"""


def warps(shape: tuple[int, int], axis: int | None) -> int:
    """Warps of a kernel that loads a tile and stores it, and sums it along an axis if asked."""
    dims = "x".join(map(str, shape))
    view = "tensor_view<?x?xf32, strides=[?,1]>"
    tile = f"partition_view<tile=({dims}), {view}>"
    combined = ""
    if axis is not None:
        combined = SUM.replace("AXIS", str(axis)).replace("SHAPE", dims)
        combined = combined.replace("REST", str(shape[1 - axis]))
    text = f"""entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %v = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> {view}
    %w = make_partition_view %v : {tile}
    %i = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %w[%i, %i] : {tile}, tile<i32> -> tile<{dims}xf32>, token
    {combined}
    KEEP
    %u = store_view_tko weak %x, %w[%i, %i] token = %t
      : tile<{dims}xf32>, {tile}, tile<i32> -> token
    return
    }}"""
    keep = ""
    if axis is not None:
        rest = shape[1 - axis]
        keep = (
            f"%q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>\n"
            f"%r = broadcast %q : tile<1xptr<f32>> -> tile<{rest}xptr<f32>>\n"
            f"%y = store_ptr_tko weak %r, %s : tile<{rest}xptr<f32>>, tile<{rest}xf32> -> token"
        )
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    )
    made = compile_module(text.replace("KEEP", keep).encode(), options).output.decode()
    found = re.search(r"num_warps = (\d+)", made)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(
    ("shape", "wanted"), [((1, 128), 1), ((1, 512), 2), ((1, 1024), 4), ((2, 1024), 4)]
)
def test_copies_are_shared_by_up_to_four_warps(shape: tuple[int, int], wanted: int):
    assert warps(shape, None) == wanted


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((1, 512), 1), ((1, 1024), 1), ((1, 2048), 2), ((2, 1024), 2), ((1, 4096), 4), ((4, 256), 4)],
)
def test_rows_of_up_to_1024_are_combined_within_a_warp(shape: tuple[int, int], wanted: int):
    assert warps(shape, 1) == wanted


def test_columns_that_are_short_do_not_change_the_number():
    assert warps((64, 16), 0) == warps((64, 16), None) == 4


@pytest.mark.parametrize(
    ("element", "columns", "wanted"),
    [("f16", 4096, (4, 8)), ("f16", 2048, (4, 4)), ("f32", 1024, (4, 8)), ("f64", 512, (2, 8))],
)
def test_rows_that_are_read_again_get_more_warps(
    element: str, columns: int, wanted: tuple[int, int]
):
    """A warp for every 512 bytes, of narrow elements for every 1024, up to eight."""
    loop = """for %jN in (%i to %n, step %one) : tile<i32> {
      %xN, %tN = load_view_tko weak %w[%i, %jN] : TILE, tile<i32> -> tile<1xCxdtype>, token
      %uN = store_view_tko weak %xN, %o[%i, %jN] token = %tN
        : tile<1xCxdtype>, TILE, tile<i32> -> token
      continue
    }"""
    view = "tensor_view<?x?xdtype, strides=[?,1]>"
    tile = f"partition_view<tile=(1xC), {view}>"

    def planned(loops: int) -> int:
        text = f"""entry @k(%p: tile<ptr<dtype>>, %q: tile<ptr<dtype>>, %n: tile<i32>) {{
    %v = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> {view}
    %z = make_tensor_view %q, shape = [%n, %n], strides = [%n, 1] : tile<i32> -> {view}
    %w = make_partition_view %v : {tile}
    %o = make_partition_view %z : {tile}
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    {"".join(loop.replace("N", str(number)) for number in range(loops))}
    return
    }}""".replace("TILE", tile)
        text = text.replace("xCx", f"x{columns}x").replace("1xC)", f"1x{columns})")
        text = text.replace("dtype", element)
        options = with_environment(
            CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
        )
        output = compile_module(f"cuda_tile.module @m {{ {text} }}".encode(), options).output
        found = re.search(r"num_warps = (\d+)", output.decode())
        assert found is not None
        return int(found[1])

    assert (planned(1), planned(2)) == wanted


def test_pipelined_loads_count_as_well():
    module = parse_text(RowLoop(width=4096, element="f16").text, "kernel.mlir")
    warps_after: list[int] = []
    for name, _ in passes(module, (), "sm_90"):
        func = next((op for op in module.walk() if isinstance(op, aa.FuncOp)), None)
        if func is not None and name in ("form-clusters", "tileas-expand-schedule"):
            warps_after.append(plan_cta(func, get_target("sm_90")).num_warps)
    assert any(isinstance(op, tas.ReadStageOp) for op in module.walk())
    assert warps_after == [8, 8]


@pytest.mark.parametrize("number", [1, 8])
def test_the_option_says_how_many(number: int):
    """Of a kernel that would have warp roles, too: its text goes on through all later passes."""
    names = passes_between("check-target", "tileas-plan-cta")[:-1]
    text = run_passes(gemm(64, 64, 32), *names, f"tileas-plan-cta{{num-warps={number}}}")
    assert f"kernel_plan<num_warps = {number}>" in text
    assert "pipelines" not in text
    rest = passes_between("tileas-assign-dot-layouts", "tileas-optimize-alloc-tensor")
    later = run_passes(text.encode(), *rest)
    assert f"num_warps = {number}" in later
    assert "agent_switch" not in later


@pytest.mark.parametrize("number", [3, 64, -1])
def test_other_numbers_are_refused(number: int):
    with pytest.raises(UsageError, match=f"'num-warps' of pass 'tileas-plan-cta' is {number}, exp"):
        make_pass(f"tileas-plan-cta{{num-warps={number}}}")
