"""Stages of pipelines are chosen once, from what stands in the IR, and errors name what lacks."""

from __future__ import annotations

import re

import pytest

from tests.kernels.gemm import aligned, gemm, persistent
from tests.kernels.pass_runs import passes_between, run_passes
from tileiras.errors import BytecodeError, CompileError

NAME = "tileas-optimize-alloc-tensor"
KERNEL_PLAN = re.compile(r"plan = #nv_tileas\.kernel_plan<[^>]*>")
PIPELINE_PLAN = re.compile(r",\s+plan = #nv_tileas\.pipeline_plan<[^>]*>")


def converted(source: bytes) -> str:
    """A kernel in front of the pass."""
    return run_passes(source, *passes_between("check-target", "tileas-remove-barriers"))


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
