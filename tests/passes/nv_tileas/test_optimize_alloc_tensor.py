"""Stages of pipelines are chosen once, from what stands in the IR, and errors name what lacks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from xdsl.ir import Block, Operation

from tests.kernels.gemm import aligned, gemm, persistent, with_ctas
from tests.kernels.pass_runs import OPTIONS, passes_between, run_passes
from tests.kernels.row_loops import RowLoop
from tests.kernels.tma_store_programs import AT_ONCE, built
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.memory import AllocTensorOp
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError, CompileError
from tileiras.ir_text import parse_text
from tileiras.options import PREFER_TMA

BEFORE = "tileas-materialize-convert-layout"
NAME = "tileas-optimize-alloc-tensor"
KERNEL_PLAN = re.compile(r"plan = #nv_tileas\.kernel_plan<[^>]*>")
PIPELINE_PLAN = re.compile(r",\s+plan = #nv_tileas\.pipeline_plan<[^>]*>")


def converted(source: bytes) -> str:
    """A kernel in front of the pass."""
    return run_passes(source, *passes_between("check-target", BEFORE))


def test_text_in_front_of_the_pass_is_all_that_it_needs():
    for source in (aligned(gemm(128, 128, 64)), persistent(128, 128, 64)):
        whole = run_passes(source, *passes_between("check-target", NAME))
        before = converted(source)
        assert KERNEL_PLAN.search(before) and PIPELINE_PLAN.search(before)
        assert run_passes(before.encode(), NAME) == whole
        assert not KERNEL_PLAN.search(whole) and not PIPELINE_PLAN.search(whole)


def test_a_kernel_with_its_stages_stays_as_it_is():
    whole = run_passes(persistent(128, 128, 64), *passes_between("check-target", NAME))
    assert run_passes(whole.encode(), NAME) == whole


def test_a_kernel_without_a_plan_whose_pipelines_have_one_is_refused():
    text = KERNEL_PLAN.sub("other = 1 : i32", converted(aligned(gemm(128, 128, 64))))
    with pytest.raises(CompileError, match="'gemm' is not planned, but its pipelines are") as found:
        run_passes(text.encode(), NAME)
    assert found.value.location is not None


@pytest.mark.parametrize("name", ["stages", "stage_bytes", "consumers"])
def test_a_pipeline_of_nothing_is_refused(name: str):
    whole = run_passes(aligned(gemm(128, 128, 64)), *passes_between("check-target", NAME))
    text = re.sub(rf"{name} = \d+", f"{name} = 0", whole, count=1)
    with pytest.raises(BytecodeError, match="a pipeline needs a stage, bytes in it"):
        run_passes(text.encode(), NAME)


def test_a_pipeline_without_a_plan_is_refused():
    text = PIPELINE_PLAN.sub("", converted(aligned(gemm(128, 128, 64))))
    with pytest.raises(CompileError, match="a pipeline is not planned") as found:
        run_passes(text.encode(), NAME)
    assert found.value.location is not None


def test_buffers_get_places_which_text_keeps():
    """Loads of two loops, one after another."""
    source = RowLoop("f16", step="%by").text.encode()
    before = converted(source)
    assert before.count("alloc_tensor") == 2
    assert "offset" not in before
    whole = run_passes(before.encode(), NAME)
    assert whole == run_passes(source, *passes_between("check-target", NAME))
    assert whole.count("alloc_tensor {stages = 5, offset = 0} : !smem0") == 2
    assert run_passes(whole.encode(), NAME) == whole


def stages_of(rows: int, columns: int) -> list[int]:
    """The stages of the pipelines of a product, those in the memory of others last."""
    whole = run_passes(aligned(gemm(rows, columns, 64)), *passes_between("check-target", NAME))
    ops = parse_text(whole, "k.mlir").walk()
    made = [op for op in ops if isinstance(op, pl.CreatePipelineOp)]
    assert [op.storage is not None for op in made] == [False, True]
    return [op.stages.data for op in made]


def test_a_pipeline_in_the_memory_of_another_one_takes_all_of_it():
    """A tile alone: 3 stages of 64 KB are room for 6 of 32 KB, of which 4 would be enough."""
    assert stages_of(128, 128) == [3, 6]
    assert stages_of(64, 128) == [4, 5]


def buffers_of_stores(text: str) -> list[type[Operation | Block]]:
    """What makes the buffers that tiles of consumers leave through."""
    stores = [op for op in parse_text(text, "k.mlir").walk() if isinstance(op, ts.TmaStoreOp)]
    return [type(store.buffers.owner) for store in stores if store.buffers is not None]


def test_tiles_leave_through_free_stages_or_memory_of_their_own():
    """In a loop stages are never free; what is stored once has the pipeline's."""
    late = built(with_ctas(aligned(gemm(128, 128, 64)), 2), "nv_tileas", **{PREFER_TMA: "1"})
    assert buffers_of_stores(late) == [pl.CreatePipelineOp]
    early = built(persistent(128, 128, 64), "nv_tileas", **AT_ONCE)
    assert buffers_of_stores(early) == [AllocTensorOp]
    warp = run_passes(persistent(128, 128, 64), *passes_between("check-target", NAME))
    assert re.search(r"%buffer = nv_tileas.alloc_tensor {stages = 4} : !smem\d", warp)
    assert "create_store_pipeline %buffer {stages = 1, pieces = 2}" in warp
    assert "free_pipelines %pipeline\n" in warp


def test_operands_lie_behind_each_other():
    """Those of a product that mma.sync reads where cp.async has copied them to."""
    options, names = replace(OPTIONS, gpu_name="sm_80"), passes_between("check-target", NAME)
    source = gemm(128, 128, 32)
    text = compile_module(source, options, filename="k.mlir", pass_names=names).output.decode()
    assert re.search(r"#shared_linear0 = #nv_tileas.shared_linear<layout = #linear\d+>", text)
    found = re.findall(r"alloc_tensor {stages = 3, offset = (\d+), ctas = \d} : !smem", text)
    assert found == ["0", "24576"]


def test_a_buffer_without_a_place_is_no_program():
    text = converted(RowLoop("f16", step="%by").text.encode())
    with pytest.raises(CompileError, match="a buffer has no place: tileas-optimize-alloc-ten"):
        run_passes(text.encode(), "convert-nv-tileas-to-llvm")
