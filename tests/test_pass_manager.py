"""The pass manager: order, dumps, border checks, verification and blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, i32
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from tileiras.errors import BytecodeError, CompileError, InternalError, SourceLocation
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import CompileOptions
from tileiras.pass_manager import ScheduledPass, Timings, run_passes
from tileiras.stages import STAGES, Stage, check_border, stage_of, verify_module


@irdl_op_definition
class BadOp(IRDLOperation):
    """An operation that never verifies."""

    name = "nv_tileaa.bad"

    def verify_(self) -> None:
        """Always fails."""
        raise VerifyException("has 3 elements, expected 2")


def located(op: Operation) -> Operation:
    """The op with a place."""
    op.location = FileLineColLoc(StringAttr("kernel.py"), IntAttr(12), IntAttr(8))
    return op


@dataclass(frozen=True)
class ActPass(IrPass):
    """Calls a function on the module."""

    name = "act"
    title = "Act on the module"

    action: Callable[[ModuleOp], None] = field(default=lambda module: None)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Calls the function."""
        self.action(op)


def append(op: Operation) -> Callable[[ModuleOp], None]:
    """An action that appends an op."""
    return lambda module: module.body.block.add_op(op)


def fail(error: Exception) -> Callable[[ModuleOp], None]:
    """An action that raises."""

    def action(module: ModuleOp) -> None:
        raise error

    return action


def run(
    *actions: Callable[[ModuleOp], None], stage: str = "", module: ModuleOp | None = None, **options
) -> ModuleOp:
    """Runs the actions as passes on a module and returns it."""
    module = module if module is not None else ModuleOp([])
    passes = tuple(ScheduledPass(ActPass(action), stage) for action in actions)
    run_passes(module, passes, CompileContext(options=CompileOptions(**options)))
    return module


def test_passes_run_in_order() -> None:
    """On the same module."""
    module = run(append(AnyOp()), append(AnyOp(result_types=[i32])))
    assert [len(op.results) for op in module.ops] == [0, 1]


def test_no_passes_leave_the_module_alone() -> None:
    """An empty list is fine."""
    assert not list(run().ops)


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({}, []),
        ({"print_before_all": True}, ["Before"]),
        ({"print_after_all": True}, ["After"]),
        ({"print_before": ("act",), "print_after": ("act",)}, ["Before", "After"]),
        ({"print_before": ("other",)}, []),
    ],
)
def test_dumps_have_llvm_style_headers(
    options: dict[str, object], headers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, with the title and the name of the pass."""
    run(append(AnyOp()), **options)
    shown = capsys.readouterr()
    assert shown.out == ""
    expected = [f"*** IR Dump {when} Act on the module (act) ***" for when in headers]
    assert [line for line in shown.err.splitlines() if line.startswith("***")] == expected


def test_dump_shows_the_module_at_that_point(capsys: pytest.CaptureFixture[str]) -> None:
    """Before: without what the pass adds; after: with it."""
    run(append(AnyOp()), print_before_all=True, print_after_all=True)
    before, _, after = capsys.readouterr().err.partition("*** IR Dump After")
    assert "test.op" not in before
    assert "test.op" in after


def test_illegal_dialect_at_a_border_is_our_fault() -> None:
    """The error names the pass, the op, the stage and the place."""
    with pytest.raises(InternalError) as caught:
        run(append(located(AnyOp())), stage="nv_tileaa")
    assert "'test.op' op is not legal in stage nv_tileaa" in caught.value.message
    assert caught.value.location == SourceLocation("kernel.py", 12, 8)


def test_op_that_does_not_verify_is_found_at_the_border() -> None:
    """With its place; the pass is named."""
    with pytest.raises(InternalError, match="in act: 'nv_tileaa.bad' op has 3 elements") as caught:
        run(append(located(BadOp())), stage="nv_tileaa")
    assert caught.value.location == SourceLocation("kernel.py", 12, 8)


def test_verification_within_a_stage_waits_for_the_border() -> None:
    """Unless each pass is to be verified."""

    def repair(module: ModuleOp) -> None:
        for op in list(module.ops):
            op.detach()

    run(append(BadOp()), repair, stage="nv_tileaa")
    with pytest.raises(InternalError):
        run(append(BadOp()), repair, stage="nv_tileaa", verify_each=True)


def test_exception_in_a_pass_becomes_an_internal_error() -> None:
    """That names the pass and says how to report it; the cause is kept."""
    with pytest.raises(InternalError) as caught:
        run(fail(KeyError("x")))
    assert caught.value.message == "internal error in act: KeyError: 'x'"
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.notes


def test_our_own_errors_pass_through() -> None:
    """A CompileError stays one."""
    with pytest.raises(CompileError, match="too large"):
        run(fail(CompileError("too large")))


def test_invalid_input_is_the_users_fault() -> None:
    """The same verifier, but a BytecodeError in the form that clients parse."""
    with pytest.raises(BytecodeError) as caught:
        verify_module(ModuleOp([located(BadOp())]))
    assert caught.value.render() == (
        "loc(\"kernel.py\":12:8): error: 'nv_tileaa.bad' op has 3 elements, expected 2"
    )


def test_place_of_an_op_without_location_is_its_parents() -> None:
    """The nearest enclosing place is better than none."""
    inner = ModuleOp([BadOp()])
    located(inner)
    with pytest.raises(BytecodeError) as caught:
        verify_module(ModuleOp([inner]))
    assert caught.value.location == SourceLocation("kernel.py", 12, 8)


def test_stage_is_found_from_the_operations() -> None:
    """The empty module belongs to the first; foreign ops to none."""
    assert stage_of(ModuleOp([])) is STAGES[0]
    assert stage_of(ModuleOp([BadOp()])).name == "nv_tileaa"
    with pytest.raises(InternalError, match="test"):
        stage_of(ModuleOp([AnyOp()]))


def test_border_check_accepts_legal_operations() -> None:
    """And nested modules."""
    check_border(ModuleOp([ModuleOp([AnyOp()])]), Stage("s", "t", ("test",)))


def test_timings_render_every_part_and_the_total() -> None:
    """In milliseconds, with shares."""
    timings = Timings([("read input", 0.003), ("act", 0.001)])
    with timings.measure("rest"):
        pass
    text = timings.render()
    assert "read input" in text
    assert "3.000 ms" in text
    assert text.splitlines()[-1].split()[0] == "total"


def test_context_knows_target_and_options_after_cloning() -> None:
    """Pass pipelines may clone their context."""
    context = CompileContext(options=CompileOptions(opt_level=1))
    assert context.clone().options.opt_level == 1
    with pytest.raises(InternalError):
        context.require_target()
