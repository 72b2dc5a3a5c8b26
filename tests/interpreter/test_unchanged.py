"""What a test takes for a change of a kernel, and what not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation

from tests.kernels.stage_comparison import passes
from tests.kernels.unchanged import Changes, changing
from tileiras.dialects import cuda_tile as ct
from tileiras.ir_text import parse_text

VECTOR_ADD = Path(__file__).resolve().parents[2] / "examples" / "vector_add.mlir"


def kernel() -> ModuleOp:
    return parse_text(VECTOR_ADD.read_text(encoding="utf-8"), "kernel.mlir")


def sum_of(module: ModuleOp) -> Operation:
    return next(op for op in module.walk() if isinstance(op, ct.AddFOp))


def swap_operands(op: Operation) -> None:
    op.operands = op.operands[::-1]


def set_property(op: Operation) -> None:
    op.properties["flush_to_zero"] = UnitAttr()


def set_attribute(op: Operation) -> None:
    op.attributes["any"] = UnitAttr()


def move_down(op: Operation) -> None:
    after = op.next_op
    assert after is not None and after.next_op is not None
    op.detach()
    after.parent_block().insert_op_after(op, after)  # type: ignore[union-attr]


def make_anew(op: Operation) -> None:
    made = op.clone()
    op.parent_block().insert_op_before(made, op)  # type: ignore[union-attr]
    op.results[0].replace_all_uses_with(made.results[0])
    op.detach()
    op.erase()


@pytest.mark.parametrize(
    "change", [swap_operands, set_property, set_attribute, move_down, make_anew]
)
def test_is_seen(change: Callable[[Operation], None]) -> None:
    module = kernel()
    changes = Changes(module)
    assert not changes.any()
    change(sum_of(module))
    assert changes.any()
    assert not changes.any()


def test_steps_that_change_nothing_are_left_out() -> None:
    module = kernel()
    seen = [name for name, _ in changing(module, passes(module, (), "sm_90"))]
    every = [name for name, _ in passes(kernel(), (), "sm_90")]
    assert "convert-cudatile-to-tileaa" in seen
    assert "split-k" in every and "split-k" not in seen
    assert seen == [name for name in every if name in seen]
