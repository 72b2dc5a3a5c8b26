"""Loads that are started iterations before they are used: which, how far, and with what result."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.gemm import gemm, with_ctas
from tests.kernels.product_text import ProductKernel
from tests.kernels.row_loops import KERNELS, RowLoop
from tests.passes.nv_tileaa.scheduled_loads import after, finished, run, scheduled
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module
from tileiras.interpreter import InterpreterError, run_entry
from tileiras.options import CompileOptions
from tileiras.planning.resources.warps import plan_cta
from tileiras.remarks import Remark, RemarkCollector, RemarkFilter, RemarkKind


def stages(module) -> list[int]:
    """The stages of its circular buffers."""
    return [op.stages.data for op in module.walk() if isinstance(op, aa.CircularBufferOp)]


BOUNDS = [(0, 0, 1), (0, 1, 1), (0, 3, 1), (1, 3, 2), (2, 1, 1), (0, 6, 3), (0, 4, 1 << 30)]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_every_stage_computes_the_same(kernel: RowLoop, bounds: tuple[int, int, int]) -> None:
    module = scheduled(kernel)
    assert len(finished(module)) == 2
    wanted = run(parse_module(kernel.text), kernel, bounds)
    for stage in (module, after(kernel.text, "convert-tileaa-to-tileas")):
        np.testing.assert_array_equal(run(stage, kernel, bounds), wanted)


def test_no_load_is_executed_for_an_iteration_that_is_not_there() -> None:
    """Indices beyond the bound would be out of the range of i32, or of the tensor."""
    kernel = RowLoop()
    module = scheduled(kernel)
    for op in module.walk():
        if isinstance(op, aa.AsyncCopyOp):
            flags = [True] * len(op.indices)
            op.properties["inbounds"] = type(op.inbounds).from_list(op.inbounds.elt_type, flags)
    run(module, kernel, (0, 2, 1))
    with pytest.raises(InterpreterError, match="promised to be in bounds"):
        run(module, kernel, (0, 4, 1))


def test_copies_of_nothing_are_over_before_another_loop_uses_their_memory() -> None:
    module = scheduled(RowLoop())
    loops = [op.parent_op() for op in finished(module)]
    assert len(loops) == 2
    assert all(loop is not None and isinstance(loop.next_op, aa.AsyncWaitGroupOp) for loop in loops)


def test_a_kernel_with_pipelined_loads_is_not_specialised() -> None:
    """Its left operand is loaded early; TMA could bring the right one, whose row memory tells.

    What the left one is padded with TMA could not bring, nor the producer's threads.
    """
    tile, bytes_of = "tile=(128x64), padding_value = zero", "tensor_view<?x?xf16, strides=[?,1]>"
    text = ProductKernel("f16", (128, 128, 64)).text()
    text = text.replace(tile, tile.replace("zero", "nan"))
    tile = tile.replace("zero", "nan")
    text = text.replace("%As1k = assume div_by<8>", "%As1k = assume div_by<2>")
    text = text.replace("%A1k = assume div_by<16>", "%A1k = assume div_by<4>")
    text = text.replace("%tA = make", "%Kd = assume div_by<2>, %K : tile<i32>\n%tA = make")
    text = text.replace("[%M, %K], strides = [%As1k", "[%M, %Kd], strides = [%As1k")
    hinted = "token = %t0 optimization_hints = <sm_90 = {latency = 10}> : partition_view<"
    text = text.replace(
        f"token = %t0 : partition_view<{tile}, {bytes_of}>, tile<i32> -> tile<128x64",
        f"{hinted}{tile}, {bytes_of}>, tile<i32> -> tile<128x64",
    )
    told = """%lp = offset %locks, %k : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %kk, %kt = load_ptr_tko weak %lp token = %t0 : tile<ptr<i32>> -> tile<i32>, token
    %Bv, %Bvt ="""
    text = text.replace("%Bv, %Bvt =", told).replace("%pB[%k,", "%pB[%kk,")
    module = after(text, "convert-tileaa-to-tileas")
    assert any(isinstance(op, tas.ReadStageOp) for op in module.walk())
    assert not any(isinstance(op, pl.AgentSwitchOp) for op in module.walk())


def test_a_higher_latency_goes_further_distance() -> None:
    kernels = [RowLoop(width=1024, latency=latency, occupancy=1) for latency in (2, 4, 8)]
    assert [stages(scheduled(kernel))[0] for kernel in kernels] == [3, 4, 5]


def test_quick_loads_get_stages_where_two_tile_blocks_are_asked_for() -> None:
    """Tiles of 8 KB, 8 warps."""
    assert stages(scheduled(RowLoop(width=2048, latency=2, occupancy=2))) == [2, 2]


def test_a_load_behind_a_store_of_the_loop_stays() -> None:
    module = scheduled(RowLoop(chained=True))
    assert len(finished(module)) == 1
    assert sum(isinstance(op, aa.TiledLoadOp) for op in module.walk()) == 1


def behind_stores() -> str:
    """A third loop, which reads what the second one has stored: its token is that loop's result."""
    kernel = RowLoop(chained=True)
    text = kernel.text.replace("token = %k", "token = %t")
    text = text.replace(
        "continue %c : token", "%kc = join_tokens %k, %c : token\n      continue %kc : token"
    )
    types = f"{kernel.view}, tile<i32>"
    return text.replace(
        "    return\n",
        f"""    for %j in (%lower to %tiles, step %by) : tile<i32> {{
      %x, %a = load_view_tko weak %w[%r, %j] token = %last : {types} -> {kernel.tile}, token
      %d = addf %x, %x : {kernel.wide}
      %c = store_view_tko weak %d, %u[%r, %j] token = %a : {kernel.tile}, {types} -> token
    }}
    return
""",
    )


def test_loads_behind_a_rebuilt_loop_are_started_behind_its_stores() -> None:
    text, bounds = behind_stores(), (0, 3, 1)
    module = after(text, "tileas-expand-schedule")
    module.verify()
    assert len(finished(module)) == 3
    wanted = run(parse_module(text), RowLoop(), bounds)
    placed = after(text, "convert-tileaa-to-tileas")
    np.testing.assert_array_equal(run(module, RowLoop(), bounds), wanted)
    np.testing.assert_array_equal(run(placed, RowLoop(), bounds), wanted)
    func = next(op for op in placed.walk() if isinstance(op, aa.FuncOp))
    ops = list(func.body.ops)
    stores = [
        n for n, op in enumerate(ops) if any(isinstance(i, tas.TiledStoreOp) for i in op.walk())
    ]
    starts = [n for n, op in enumerate(ops) if isinstance(op, tas.AsyncCopyOp) and n > stores[0]]
    between = ops[stores[0] : starts[0]]
    assert any(isinstance(op, aa.BarrierOp) for op in between)


def test_a_load_that_may_be_passed_over_stays() -> None:
    skip = "%c0 = cmpi equal %j, %by, signed : tile<i32> -> tile<i1>\n"
    skip += "if %c0 { continue %s : tile<1x64xf32> }"
    assert len(finished(scheduled(RowLoop(skip=skip)))) == 1


def test_loads_of_two_bytes_stay() -> None:
    text = RowLoop("f16").text.replace("assume div_by<16>", "assume div_by<1>")
    assert not finished(after(text, "tileas-expand-schedule"))


def test_no_load_is_pipelined_without_optimisation() -> None:
    options = CompileOptions(gpu_name="sm_90", opt_level=0, emit="nv_tileas", print_generic=True)
    text = compile_module(RowLoop().text.encode(), options).output.decode()
    assert "read_stage" not in text and "tiled_load" in text


def test_first_loads_come_before_the_reduction_that_the_loop_waits_for() -> None:
    module = scheduled(RowLoop(step="%by"))
    ops = list(next(op for op in module.walk() if isinstance(op, aa.FuncOp)).body.ops)
    starts = [number for number, op in enumerate(ops) if isinstance(op, aa.AsyncCopyOp)]
    [reduction] = [number for number, op in enumerate(ops) if isinstance(op, aa.ReduceOp)]
    assert max(starts) < reduction


def test_operands_of_mma_sync_are_pipelined() -> None:
    text = with_ctas(gemm(64, 64, 64), 2).decode()
    module = after(text, "convert-tileaa-to-tileas", disabled=("tma", "wgmma"))
    assert sum(isinstance(op, tas.ReadStageOp) for op in module.walk()) == 2


def pipelined_loads_remark(kernel: RowLoop) -> Remark:
    """What the compiler says of the loads of a kernel."""
    wanted = RemarkFilter(dict.fromkeys(RemarkKind, "all"))
    remarks = RemarkCollector(wanted)
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    compile_module(kernel.text.encode(), options, remarks=remarks)
    [remark] = [remark for remark in remarks.remarks if remark.name == "PipelinedLoads"]
    return remark


@pytest.mark.parametrize(("width", "is_cut"), [(512, False), (1024, True)])
def test_a_remark_tells_of_too_little_shared_memory(width: int, is_cut: bool) -> None:
    remark = pipelined_loads_remark(RowLoop(width=width, latency=10))
    assert ("for more there is no room" in remark.message) == is_cut, remark.message


def test_a_remark_says_what_was_done() -> None:
    remark = pipelined_loads_remark(RowLoop())
    assert remark.kind is RemarkKind.PASSED
    assert remark.message.startswith("2 of 2 loads in loops are started early: 1 by")


COLUMNS_SUMMED = """
cuda_tile.module @m {
  entry @sums(%X: tile<ptr<f16>>, %Y: tile<ptr<f32>>, %rows: tile<i32>) {
    %x = assume div_by<16>, %X : tile<ptr<f16>>
    %y = assume div_by<16>, %Y : tile<ptr<f32>>
    %t0 = make_token : token
    %tx = make_tensor_view %x, shape = [%rows, 256], strides = [256, 1]
      : tile<i32> -> tensor_view<?x256xf16, strides=[256,1]>
    %ty = make_tensor_view %y, shape = [HEIGHT, 256], strides = [256, 1]
      : tensor_view<HEIGHTx256xf32, strides=[256,1]>
    %px = make_partition_view %tx
      : partition_view<tile=(HEIGHTx128), padding_value = zero,
                       tensor_view<?x256xf16, strides=[256,1]>>
    %py = make_partition_view %ty
      : partition_view<tile=(HEIGHTx128), tensor_view<HEIGHTx256xf32, strides=[256,1]>>
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %n:2 = get_index_space_shape %px
      : partition_view<tile=(HEIGHTx128), padding_value = zero,
                       tensor_view<?x256xf16, strides=[256,1]>> -> tile<i32>
    %z = constant <f32: 0.0> : tile<HEIGHTx128xf32>
    %s = for %j in (%c0 to %n#0, step %c1) : tile<i32>
        iter_values(%a = %z) -> (tile<HEIGHTx128xf32>) {
      %v, %k = load_view_tko weak %px[%j, %b] token = %t0
        : partition_view<tile=(HEIGHTx128), padding_value = zero,
                         tensor_view<?x256xf16, strides=[256,1]>>, tile<i32>
        -> tile<HEIGHTx128xf16>, token
      %w = ftof %v : tile<HEIGHTx128xf16> -> tile<HEIGHTx128xf32>
      WORK
      %d = addf %a, %e : tile<HEIGHTx128xf32>
      continue %d : tile<HEIGHTx128xf32>
    }
    %u = store_view_tko weak %s, %py[%c0, %b] token = %t0
      : tile<HEIGHTx128xf32>,
        partition_view<tile=(HEIGHTx128), tensor_view<HEIGHTx256xf32, strides=[256,1]>>, tile<i32>
      -> token
    return
  }
}
"""
LIGHT_WORK = "%e = addf %w, %z : tile<HEIGHTx128xf32>"
HEAVY_WORK = "%e = sin %w : tile<HEIGHTx128xf32>"


def summed(work: str, height: int) -> str:
    """A kernel that adds up tiles of `height` rows, after some work on each."""
    return COLUMNS_SUMMED.replace("WORK", work).replace("HEIGHT", str(height))


@pytest.mark.parametrize(
    ("work", "height", "count"),
    [(LIGHT_WORK, 64, [7]), (LIGHT_WORK, 128, [4]), (LIGHT_WORK, 32, [9]), (HEAVY_WORK, 64, [])],
)
def test_loops_with_little_to_do_take_the_room_of_other_tile_blocks(
    work: str, height: int, count: list[int]
) -> None:
    """96 KB on the way, at most eight tiles, and the one that is used: 16, 32 and 8 KB each."""
    assert stages(after(summed(work, height), "tileas-expand-schedule")) == count


@pytest.mark.parametrize(
    ("work", "height", "is_streamed"),
    [(LIGHT_WORK, 64, True), (LIGHT_WORK, 16, False), (HEAVY_WORK, 16, False)],
)
def test_tiles_that_are_only_combined_leave_nothing_in_l1(
    work: str, height: int, is_streamed: bool
) -> None:
    module = after(summed(work, height), "convert-tileaa-to-tileas")
    copies = [op for op in module.walk() if isinstance(op, tas.AsyncCopyOp)]
    assert all((op.streamed is not None) is is_streamed for op in copies)
    assert copies or work == HEAVY_WORK


@pytest.mark.parametrize(("element", "cache"), [("f16", "ca"), ("f32", "cg")])
def test_pieces_of_16_bytes_go_past_l1(element: str, cache: str) -> None:
    """Elements that become wider are copied in pieces of 8 bytes, as they are stored."""
    text = summed(LIGHT_WORK, 64)
    if element == "f32":
        text = text.replace("ftof %v : tile<64x128xf16> -> tile<64x128xf32>", "addf %v, %z : WIDE")
        text = text.replace("f16", "f32").replace("WIDE", "tile<64x128xf32>")
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    ptx = compile_module(text.encode(), options).output.decode()
    assert set(re.findall(r"cp\.async\.(c[ag])", ptx)) == {cache}


@pytest.mark.parametrize(("height", "warps"), [(32, 4), (64, 8), (128, 8)])
def test_large_tiles_that_are_only_combined_have_eight_warps(height: int, warps: int) -> None:
    module = after(summed(LIGHT_WORK, height), "form-clusters")
    func = next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    assert plan_cta(func, get_target("sm_90")).num_warps == warps


@pytest.mark.parametrize(
    ("height", "dim", "warps"), [(32, 0, 8), (32, 1, 4), (16, 0, 8), (8, 0, 4)]
)
def test_sums_of_columns_have_eight_warps_earlier(height: int, dim: int, warps: int) -> None:
    """Grids of columns are small; of rows there are many."""
    size = 128 if dim == 0 else height
    tensor = f"tensor_view<{size}xf32, strides=[1]>"
    view = f"partition_view<tile=({size}), {tensor}>"
    reduction = f"""%q = reduce %s dim={dim} identities=[0.0 : f32]
      : tile<{height}x128xf32> -> tile<{size}xf32>
      (%one: tile<f32>, %more: tile<f32>) {{
        %both = addf %one, %more : tile<f32>
        yield %both : tile<f32>
      }}
    %tq = make_tensor_view %y, shape = [{size}], strides = [1] : {tensor}
    %pq = make_partition_view %tq : {view}
    %uq = store_view_tko weak %q, %pq[%c0] token = %t0
      : tile<{size}xf32>, {view}, tile<i32> -> token
    %u = store_view_tko"""
    text = summed(LIGHT_WORK, height).replace("%u = store_view_tko", reduction)
    module = after(text, "form-clusters")
    func = next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    assert any(isinstance(op, aa.ReduceOp) for op in func.walk())
    assert plan_cta(func, get_target("sm_90")).num_warps == warps


def test_loops_with_little_to_do_compute_the_same() -> None:
    text = summed(LIGHT_WORK, 64)
    source = np.arange(200 * 256).reshape(200, 256) % 5
    bits = source.astype(np.float16).view(np.uint16).ravel()
    for module in (parse_module(text), after(text, "convert-tileaa-to-tileas")):
        sums = np.zeros(64 * 256, np.uint32)
        run_entry(module, "sums", [bits, sums, np.int32(200)], (2, 1, 1))
        found = sums.view(np.float32).reshape(64, 256).sum(0)
        np.testing.assert_array_equal(found, source.sum(0))


def test_wider_elements_are_stored_in_one_piece() -> None:
    """What a thread loads is as much as it can store at once, not as much as it can load."""
    module = after(summed(LIGHT_WORK.replace("addf", "mulf"), 16), "convert-tileaa-to-tileas")
    [store] = [op for op in module.walk() if isinstance(op, tas.TiledStoreOp)]
    loads = [op for op in module.walk() if isinstance(op, tas.ReadStageOp | tas.TiledLoadOp)]
    assert store.vector.data == 4
    assert not any(isinstance(op, tas.ConvertLayoutOp) for op in module.walk())
    assert [op.vector.data for op in loads] == [4]


TILE_VIEW = (
    "partition_view<tile=(2x64), padding_value = zero, tensor_view<?x?xTYPE, strides=[?,1]>>"
)
TWO_SIZES = """
cuda_tile.module @m {
  entry @k(%A: tile<ptr<i8>>, %B: tile<ptr<f32>>, %C: tile<ptr<f32>>, %M: tile<i32>,
           %N: tile<i32>) {
    %a = assume div_by<16>, %A : tile<ptr<i8>>
    %b = assume div_by<4>, %B : tile<ptr<f32>>
    %n = assume div_by<16>, %N : tile<i32>
    %t0 = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %va = make_tensor_view %a, shape = [%M, %n], strides = [%n, 1]
      : tile<i32> -> tensor_view<?x?xi8, strides=[?,1]>
    %vb = make_tensor_view %b, shape = [%M, %N], strides = [%N, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %vc = make_tensor_view %C, shape = [%M, %N], strides = [%N, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %pa = make_partition_view %va : BYTES
    %pb = make_partition_view %vb : WORDS
    %pc = make_partition_view %vc : WORDS
    %s0 = constant <f32: 0.0> : tile<2x64xf32>
    %s = for %k in (%c0 to %M, step %c1) : tile<i32> iter_values(%p = %s0) -> (tile<2x64xf32>) {
      %l, %lt = load_view_tko weak %pa[%x, %k] token = %t0 : BYTES, tile<i32>
        -> tile<2x64xi8>, token
      %m, %mt = load_view_tko weak %pb[%x, %k] token = %t0 : WORDS, tile<i32>
        -> tile<2x64xf32>, token
      %f = itof %l signed : tile<2x64xi8> -> tile<2x64xf32>
      %g = addf %f, %m : tile<2x64xf32>
      %h = addf %g, %p : tile<2x64xf32>
      continue %h : tile<2x64xf32>
    }
    %st = store_view_tko weak %s, %pc[%x, %c0] token = %t0
      : tile<2x64xf32>, WORDS, tile<i32> -> token
    return
  }
}
"""


def test_a_stage_holds_each_element_once() -> None:
    """Bytes would be loaded 16 by a thread, which leaves most threads of a warp copies of words."""
    text = TWO_SIZES.replace("BYTES", TILE_VIEW.replace("TYPE", "i8"))
    module = after(
        text.replace("WORDS", TILE_VIEW.replace("TYPE", "f32")), "convert-tileaa-to-tileas"
    )
    starts = [op for op in module.walk() if isinstance(op, tas.AsyncCopyOp)]
    words = [op for op in starts if op.vector.data == 1]
    assert words and all(op.layout.data.in_size("register") == 4 for op in words)
