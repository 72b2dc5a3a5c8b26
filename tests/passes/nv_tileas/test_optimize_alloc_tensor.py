"""Stages of pipelines are chosen once, from what stands in the IR, and errors name what lacks."""

from __future__ import annotations

import re

import pytest

from tests.passes.nv_tileas.gemm import aligned, gemm, persistent
from tileiras.driver import compile_module
from tileiras.errors import BytecodeError, CompileError
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE

OPTIONS = CompileOptions(gpu_name="sm_90", opt_level=3)
NAME = "tileas-optimize-alloc-tensor"
KERNEL_PLAN = re.compile(r"plan = #nv_tileas\.kernel_plan<[^>]*>")
PIPELINE_PLAN = re.compile(r",\s+plan = #nv_tileas\.pipeline_plan<[^>]*>")


def passes(first: str, last: str) -> tuple[str, ...]:
    """The names of passes of the pipeline from one to another, both included."""
    names = [step.pass_name for step in PIPELINE]
    return tuple(names[names.index(first) : names.index(last) + 1])


def run(text: bytes, *names: str) -> str:
    """What the passes make of a text."""
    return compile_module(text, OPTIONS, filename="k.mlir", pass_names=names).output.decode()


def converted(source: bytes) -> str:
    """A kernel in front of the pass."""
    return run(source, *passes("check-target", "tileas-remove-barriers"))


def test_text_in_front_of_the_pass_is_all_that_it_needs():
    for source in (aligned(gemm(128, 128, 64)), persistent(128, 128, 64)):
        whole = run(source, *passes("check-target", NAME))
        before = converted(source)
        assert KERNEL_PLAN.search(before) and PIPELINE_PLAN.search(before)
        assert run(before.encode(), NAME) == whole
        assert not KERNEL_PLAN.search(whole) and not PIPELINE_PLAN.search(whole)


def test_a_kernel_with_its_stages_stays_as_it_is():
    whole = run(persistent(128, 128, 64), *passes("check-target", NAME))
    assert run(whole.encode(), NAME) == whole


def test_a_kernel_without_a_plan_whose_pipelines_have_one_is_refused():
    text = KERNEL_PLAN.sub("other = 1 : i32", converted(aligned(gemm(128, 128, 64))))
    with pytest.raises(CompileError, match="'gemm' is not planned, but its pipelines are") as found:
        run(text.encode(), NAME)
    assert found.value.location is not None


@pytest.mark.parametrize("name", ["stages", "slot_bytes", "consumers"])
def test_a_pipeline_of_nothing_is_refused(name: str):
    whole = run(aligned(gemm(128, 128, 64)), *passes("check-target", NAME))
    text = re.sub(rf"{name} = \d+", f"{name} = 0", whole, count=1)
    with pytest.raises(BytecodeError, match="a pipeline needs a stage, bytes in it"):
        run(text.encode(), NAME)


def test_a_pipeline_without_a_plan_is_refused():
    text = PIPELINE_PLAN.sub("", converted(aligned(gemm(128, 128, 64))))
    with pytest.raises(CompileError, match="a pipeline is not planned") as found:
        run(text.encode(), NAME)
    assert found.value.location is not None
