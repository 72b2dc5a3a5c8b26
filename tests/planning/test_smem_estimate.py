"""Whether the least stages fit is known when a kernel is planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.pass_runs import OPTIONS
from tests.kernels.planned import SPECIALISED, planned, ready
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.resources.stages import has_room

TARGET = get_target("sm_90")


def kernel(name: str) -> aa.FuncOp:
    """A kernel that is ready to be planned."""
    return next(op for op in ready(SPECIALISED[name]()).walk() if isinstance(op, aa.FuncOp))


def roles(func: aa.FuncOp) -> RolePlan:
    """Its plan, which has roles."""
    plan = planned(func, TARGET, OPTIONS).roles
    assert plan is not None
    return plan


@pytest.mark.parametrize("name", SPECIALISED)
def test_there_is_room_for_what_is_planned(name: str) -> None:
    func = kernel(name)
    assert has_room(func, roles(func), TARGET)


def test_not_for_more_than_an_sm_has() -> None:
    func = kernel("gemm")
    plan = roles(func)
    larger = replace(plan, smem_transpose=TARGET.shared_memory_of_each(plan.shape.ctas))
    assert not has_room(func, larger, TARGET)
    longer = replace(
        plan, pipelines=tuple(replace(pipeline, least=9) for pipeline in plan.pipelines)
    )
    assert not has_room(func, longer, TARGET)


def test_without_room_stores_are_given_up_first_and_then_roles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    func = kernel("stores by a warp")
    assert roles(func).stores
    module = "tileiras.planning.resources.stages.has_room"
    monkeypatch.setattr(module, lambda func, plan, target: not plan.stores)
    assert not roles(func).stores and not roles(func).has_store_warp
    monkeypatch.setattr(module, lambda func, plan, target: False)
    assert planned(func, TARGET, OPTIONS).roles is None
