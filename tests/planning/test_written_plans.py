"""Plans as attributes: what is written is what was planned, is read back so, and is acted on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.kernels.planned import ALIKE, SPECIALISED, kernel_of, planned, ready
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import (
    MMA,
    NAMES,
    PIPELINE,
    PIPELINES,
    PLAN,
    FilledByAttr,
    KernelPlanAttr,
    PipelinePlanAttr,
    WgmmaAttr,
)
from tileiras.driver import compile_module
from tileiras.errors import CompileError, InternalError
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.model.written import erase_plan, read_plan, write_plan
from tileiras.stages import print_stage

TARGET = get_target("sm_90")
OPTIONS = CompileOptions(gpu_name="sm_90")


def written(func: aa.FuncOp) -> CtaPlan:
    """Writes the plan of a kernel, and reads it back."""
    write_plan(func, planned(func, TARGET, OPTIONS))
    plan = read_plan(func, TARGET)
    assert plan is not None
    return plan


@pytest.mark.parametrize("name", SPECIALISED)
def test_plan_is_read_as_it_was_made(name: str) -> None:
    func = kernel_of(ready(SPECIALISED[name]()))
    made, found = planned(func, TARGET, OPTIONS), written(func)
    assert made.roles is not None and found.roles is not None
    assert found == made
    assert list(found.roles.dots) == list(made.roles.dots)
    assert found.roles.stores == made.roles.stores


@pytest.mark.parametrize("name", SPECIALISED)
def test_plan_survives_text(name: str) -> None:
    module = ready(SPECIALISED[name]())
    written(kernel_of(module))
    text = print_stage(module)
    again = parse_text(text, "plan.mlir")
    found = read_plan(kernel_of(again), TARGET)
    assert found is not None and found.roles is not None
    assert print_stage(again) == text
    write_plan(kernel_of(again), found)
    assert print_stage(again) == text


@pytest.mark.parametrize("name", ALIKE)
def test_only_warps_are_planned_where_all_do_the_same(name: str) -> None:
    func = kernel_of(ready(ALIKE[name]()))
    made = planned(func, TARGET, OPTIONS)
    assert written(func) == made and made.roles is None
    assert [op for op in func.walk() if set(op.attributes) & set(NAMES)] == [func]


def test_plan_is_taken_away_whole_and_replaced() -> None:
    module = ready(SPECIALISED["stores by a warp"]())
    func, before = kernel_of(module), print_stage(module)
    write_plan(func, planned(func, TARGET, OPTIONS))
    assert print_stage(module) != before
    write_plan(func, CtaPlan(4, TARGET))
    assert read_plan(func, TARGET) == CtaPlan(4, TARGET)
    erase_plan(func)
    assert print_stage(module) == before
    assert read_plan(func, TARGET) is None


def converted(text: str, roles: bool = False) -> str:
    """What the passes behind the plan make of nv_tileaa."""
    names = (
        "tileas-assign-dot-layouts",
        "tileas-assign-load-store-layouts",
        *(["tileas-assign-warp-roles"] if roles else []),
        "convert-tileaa-to-tileas",
    )
    return compile_module(text.encode(), OPTIONS, pass_names=names).output.decode()


def test_conversion_acts_on_what_is_written() -> None:
    module = ready(ALIKE["small gemm"]())
    for warps in (2, 8):
        kernel_of(module).attributes[PLAN] = KernelPlanAttr.of(num_warps=warps)
        assert f"num_warps = {warps}" in converted(print_stage(module))


def test_conversion_leaves_no_plan_but_that_of_shared_memory() -> None:
    module = ready(SPECIALISED["gemm"]())
    written(kernel_of(module))
    text = converted(print_stage(module), roles=True)
    assert "agent_switch" in text
    assert text.count("nv_tileas.kernel_plan") == text.count("nv_tileas.pipeline_plan") == 1
    assert "filled_by" not in text and "nv_tileas.wgmma<" not in text


def test_conversion_of_a_kernel_without_a_plan_is_refused() -> None:
    text = print_stage(ready(SPECIALISED["gemm"]()))
    with pytest.raises(CompileError, match="kernel 'gemm' is not planned: .* tileas-plan-cta"):
        converted(text)


def spoiled(change: Callable[[aa.FuncOp], object]) -> aa.FuncOp:
    """A planned product whose attributes somebody has changed."""
    func = kernel_of(ready(SPECIALISED["gemm"]()))
    written(func)
    change(func)
    return func


def first(func: aa.FuncOp, name: str) -> dict[str, object]:
    """The attributes of the first operation that has one of a name."""
    return next(op.attributes for op in func.walk() if name in op.attributes)  # type: ignore


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda func: func.attributes.pop(PIPELINES), "names no pipelines"),
        (lambda func: [first(func, PIPELINE).pop(PIPELINE) for _ in range(2)], "has no loads"),
        (lambda func: first(func, MMA).pop(MMA), "is not planned"),
        (
            lambda func: first(func, MMA).update(
                {MMA: WgmmaAttr.of(lhs="smem", fragments="some", transposed=0)}
            ),
            "cannot be computed as planned",
        ),
        (
            lambda func: first(func, MMA).update(
                {MMA: WgmmaAttr.of(lhs="tmem", fragments="none", transposed=0)}
            ),
            "cannot be computed as planned",
        ),
    ],
)
def test_attributes_that_contradict_each_other_are_seen(
    change: Callable[[aa.FuncOp], object], message: str
) -> None:
    with pytest.raises(InternalError, match=message):
        read_plan(spoiled(change), TARGET)


def test_attributes_know_their_names() -> None:
    assert str(PipelinePlanAttr.of(may_grow=1, bytes=64, least=2)) == (
        "#nv_tileas.pipeline_plan<bytes = 64, least = 2, may_grow = 1>"
    )
    with pytest.raises(VerifyException, match="expected pipeline, content, place"):
        FilledByAttr.of(pipeline=0, content=0)
    with pytest.raises(VerifyException, match="found bytes, .*, size, expected .* any of within"):
        PipelinePlanAttr.of(bytes=64, least=2, may_grow=1, size=3)
    with pytest.raises(VerifyException, match="least is many, expected an integer"):
        PipelinePlanAttr.of(bytes=64, least="many", may_grow=1).integer("least")
