"""How kernels of attention start: whose tensor maps they take, when the second warpgroup begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation

from tests.kernels.planned_attention import behind, kernel_of, windowed
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.warp_roles import AWAITS_FIRST, KEPT_MAPS, STARTS_OTHERS
from tileiras.errors import CompileError
from tileiras.planning.model.written import read_plan
from tileiras.planning.model.written_warp_roles import read_warp_roles

PRODUCT, LOOP, NOTHING = "product", "loop", ""


def assigned(text: str) -> ModuleOp:
    """A module behind the pass that assigns warps."""
    return behind(text, "tileas-assign-warp-roles")


def start_of(func: aa.FuncOp) -> str:
    """What starts the other warpgroups."""
    awaits = [op for op in func.walk() if AWAITS_FIRST in op.attributes]
    starts = [op for op in func.walk() if STARTS_OTHERS in op.attributes]
    assert len(awaits) == len(starts) <= 1
    if not starts:
        return NOTHING
    assert isinstance(awaits[0], aa.DotOp)
    return PRODUCT if starts == awaits else LOOP


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "depth", "keeps", "start"),
    [
        ("full", 128, 128, 128, True, PRODUCT),
        ("full", 128, 64, 128, True, PRODUCT),
        ("full", 64, 64, 128, True, PRODUCT),
        ("full", 128, 128, 64, True, PRODUCT),
        # Loops of different lengths: products of heads of 64 are shorter than powers.
        ("causal", 128, 128, 128, True, LOOP),
        ("causal", 128, 128, 64, False, NOTHING),
        # One warpgroup a CTA.
        ("full", 64, 128, 64, True, NOTHING),
        # Producers have no registers left.
        ("full", 128, 64, 256, False, NOTHING),
        # A grid of few blocks, whose warps have copies of few rows.
        ("full", 16, 64, 128, False, NOTHING),
    ],
)
def test_which_start_late(
    kind: str, rows: int, columns: int, depth: int, keeps: bool, start: str
) -> None:
    func = kernel_of(assigned(softmax_attention(kind, rows, columns, depth).decode()))
    assert (KEPT_MAPS in func.attributes) == keeps
    assert start_of(func) == start


def test_static_schedules_make_their_maps_once() -> None:
    """Only those of f8 start late."""
    windows = kernel_of(assigned(windowed(127)))
    assert KEPT_MAPS not in windows.attributes and start_of(windows) == NOTHING
    text = softmax_attention("full", 128, 128, 128, element="f8E4M3FN")
    small = kernel_of(assigned(text.decode()))
    assert KEPT_MAPS not in small.attributes and start_of(small) == LOOP


@pytest.mark.parametrize(("kind", "has_product"), [("full", True), ("causal", False)])
def test_what_is_awaited_stands_in_the_consumers_program(kind: str, has_product: bool) -> None:
    module = behind(softmax_attention(kind, 128, 128, 128).decode(), "tileas-remove-barriers")
    [switch] = [op for op in module.walk() if isinstance(op, pl.AgentSwitchOp)]
    assert switch.kept_maps is not None
    in_order = [
        op
        for op in switch.consumer.block.walk()
        if isinstance(op, wg.AwaitFirstOp | wg.StartOthersOp | wg.WgmmaDotOp | aa.ForOp)
    ]
    awaits, product, starts, loop = in_order[:4]
    assert isinstance(awaits, wg.AwaitFirstOp) and isinstance(product, wg.WgmmaDotOp)
    assert isinstance(starts, wg.StartOthersOp) and isinstance(loop, aa.ForOp)
    assert (starts.after is not None) == has_product
    if starts.after is not None:
        assert isinstance(starts.after.owner, wg.DotWaitOp)


def drop(func: aa.FuncOp) -> None:
    """Nobody starts the others."""
    for op in func.walk():
        op.attributes.pop(STARTS_OTHERS, None)


def move(func: aa.FuncOp, name: str, kind: type[Operation]) -> None:
    """Another operation has the attribute."""
    for op in func.walk():
        op.attributes.pop(name, None)
    next(op for op in func.walk() if isinstance(op, kind)).attributes[name] = UnitAttr()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, "1 'awaits_first' and 0 'starts_others', expected one of each"),
        (lambda f: move(f, AWAITS_FIRST, aa.ReduceOp), "is no product with 'awaits_first'"),
        (lambda f: move(f, STARTS_OTHERS, aa.ReduceOp), "no product or loop with 'starts_others'"),
    ],
)
def test_contradictions_are_errors(change: Callable[[aa.FuncOp], None], message: str) -> None:
    func = kernel_of(assigned(softmax_attention("full", 128, 128, 128).decode()))
    change(func)
    plan = read_plan(func, get_target("sm_90"))
    assert plan is not None and plan.roles is not None
    with pytest.raises(CompileError, match=message):
        read_warp_roles(func, plan.roles, "convert-tileaa-to-tileas")
