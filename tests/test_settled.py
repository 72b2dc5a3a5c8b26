"""What each pass promises to leave is checked by `--verify-each`, and broken IR is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from filetests.ir_case import Case, expected_errors, request_of
from pass_files import always_acts, cases_of_passes, show
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i32

from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import PLAN, STRATEGY
from tileiras.driver import compile_module
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.ir_text import parse_text
from tileiras.pipeline import PIPELINE
from tileiras.registry import load_pass
from tileiras.settled import verify_left
from tileiras.stages import check_border, find_stage

NAMES = [step.pass_name for step in PIPELINE]
ONCE = list(dict.fromkeys(NAMES))
STAGE = {step.pass_name: step.stage for step in PIPELINE}
REJECTS = ("check-target",)
"""A pass that changes nothing: what it does not reject, it leaves."""
BY_PLACES = ("tileaa-name-variables",)
"""Passes that look at source places, which text of this kind does not have."""
CONVERSIONS = ("convert-cudatile-to-tileaa", "convert-nv-tileas-to-llvm")
"""Passes that leave another stage: the check of its border is theirs."""

LIES = ("leaves_a_strategy_that_stands",)
"""Cases whose text has a decision that is not true, to show that the pass keeps it."""


def check(name: str, text: str, case: Case) -> None:
    """Verifies a text as if the pass had left it."""
    options = request_of(case).options
    target = get_target(options.gpu_name) if options.gpu_name else None
    module = parse_text(text)
    if name in CONVERSIONS:
        stage = find_stage(STAGE[name])
        assert stage is not None
        check_border(module, stage)
    verify_left(load_pass(name)(), CompileContext(target=target, options=options), module)


@pytest.mark.parametrize("name", [name for name in ONCE if name not in (*REJECTS, *BY_PLACES)])
def test_what_a_pass_would_change_is_refused_behind_it(name: str) -> None:
    """The input of its first case, as if the pass had forgotten it."""
    case = cases_of_passes()[name][0]
    shown = show(case)
    assert shown.acts
    with pytest.raises(InternalError, match=r"'.+' op ") as caught:
        check(name, shown.before, case)
    assert name in CONVERSIONS or caught.value.message.startswith(f"internal error in {name}: ")


@pytest.mark.parametrize("name", ONCE)
def test_what_a_pass_leaves_is_accepted(name: str) -> None:
    """All of its cases, each pass before it included."""
    for case in cases_of_passes()[name]:
        if not expected_errors(case) and not any(lie in case.text for lie in LIES):
            request = request_of(case)
            options = replace(request.options, verify_each=True)
            compile_module(case.text.encode(), options, pass_names=request.pass_names)


def test_lists_of_exceptions_are_right() -> None:
    """Passes that do not settle are those whose own checks are tested here."""
    unsettled = [name for name in ONCE if not load_pass(name).settles]
    assert unsettled == [
        "convert-cudatile-to-tileaa",
        "tileaa-name-variables",
        "unroll-locked-loops",
        "tileas-plan-cta",
        "convert-tileaa-to-tileas",
        "convert-nv-tileas-to-llvm",
    ]
    assert all(always_acts(name) for name in CONVERSIONS)


def left_by(name: str) -> tuple[IrPass, CompileContext, ModuleOp]:
    """The first case of a pass, behind it."""
    case = cases_of_passes()[name][0]
    options = request_of(case).options
    context = CompileContext(target=get_target(options.gpu_name), options=options)
    return load_pass(name)(), context, parse_text(show(case).after)


def function(module: ModuleOp) -> aa.FuncOp:
    """The first kernel."""
    return next(op for op in module.ops if isinstance(op, aa.FuncOp))


def mark_twice(module: ModuleOp) -> None:
    mark = next(op for op in module.walk() if isinstance(op, aa.DebugValueOp))
    block = mark.parent_block()
    assert block is not None
    block.insert_op_after(mark.clone(), mark)


def take_the_plan(module: ModuleOp) -> None:
    del function(module).attributes[PLAN]


def leave_a_layout(module: ModuleOp) -> None:
    next(iter(function(module).body.block.ops)).attributes["layouts"] = StringAttr("here")


def lie_about_the_strategy(module: ModuleOp) -> None:
    func = function(module)
    func.attributes[STRATEGY] = type(func.attributes[STRATEGY]).of(chosen="none")


BROKEN: list[tuple[str, Callable[[ModuleOp], None], str]] = [
    ("tileaa-name-variables", mark_twice, "marks a value again"),
    ("tileas-plan-cta", take_the_plan, "has no plan"),
    ("convert-tileaa-to-tileas", leave_a_layout, "has an attribute 'layouts'"),
    ("choose-strategy", lie_about_the_strategy, "has a strategy that is not true"),
]


@pytest.mark.parametrize(("name", "damage", "said"), BROKEN, ids=[row[0] for row in BROKEN])
def test_damage_is_refused(name: str, damage: Callable[[ModuleOp], None], said: str) -> None:
    """What the pass left is accepted, and one change to it is not."""
    ir_pass, context, module = left_by(name)
    verify_left(ir_pass, context, module)
    damage(module)
    with pytest.raises(InternalError, match=said):
        verify_left(ir_pass, context, module)


@dataclass(frozen=True)
class Counting(IrPass):
    """A pass that never has enough."""

    name = "count"
    title: ClassVar[str] = "Count"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        found = op.attributes.get("count")
        count = found.value.data if isinstance(found, IntegerAttr) else 0
        op.attributes["count"] = IntegerAttr(count + 1, i32)


def test_a_pass_that_does_not_settle_is_found() -> None:
    """And one that adds operations."""
    with pytest.raises(InternalError, match=r"in count: 'builtin.module' op is not as the pass"):
        verify_left(Counting(), CompileContext(), ModuleOp([]))
