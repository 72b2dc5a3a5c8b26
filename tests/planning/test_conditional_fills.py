"""Prologue fills before a branch: whether they come only where it is taken."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr

from tests.kernels.assigned import BORDER, assigned, first, read, run
from tests.kernels.attention import attention
from tests.kernels.gemm import gemm, with_ctas
from tests.kernels.planned import kernel_of
from tests.kernels.softmax_attention import softmax_attention
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import PROLOGUE_FILLS, PrologueFillAttr
from tileiras.errors import CompileError

FULL = with_ctas(softmax_attention("full", 128, 128, 128), 1).replace(
    b"occupancy = 1", b"occupancy = 1, num_cta_in_cga = 1"
)
"""Of a cluster of one CTA: tile blocks keep their grid."""
CAUSAL = with_ctas(attention(2, depth=128), 1)


@pytest.mark.parametrize(("source", "expected"), [(FULL, [False]), (CAUSAL, [True])])
def test_fills_depend_on_a_branch_whose_stages_others_need(
    source: bytes, expected: list[bool]
) -> None:
    fills = read(kernel_of(assigned(source))).fills
    assert [fill.if_taken for fill in fills if isinstance(fill.before, aa.IfOp)] == expected
    assert not any(fill.if_taken for fill in fills if not isinstance(fill.before, aa.IfOp))


def test_word_is_written_where_it_holds_only() -> None:
    assert "if_taken = 1" in run(assigned(CAUSAL), "tileas-assign-warp-roles")
    assert "if_taken" not in run(assigned(FULL), "tileas-assign-warp-roles")


def test_conversion_puts_a_branch_around_fills_that_say_so() -> None:
    module = assigned(FULL)
    without = run(module, BORDER)
    branch = next(
        op
        for op in kernel_of(module).walk()
        if isinstance(op, aa.IfOp) and PROLOGUE_FILLS in op.attributes
    )
    fill = PrologueFillAttr.of(pipeline=0, stages=1, if_taken=1)
    branch.attributes[PROLOGUE_FILLS] = ArrayAttr([fill])
    guarded = run(module, BORDER)
    assert guarded.count("prologue_fill") == without.count("prologue_fill")
    assert guarded.count("nv_tileaa.if") == without.count("nv_tileaa.if") + 1


def test_fill_before_a_loop_depends_on_no_branch() -> None:
    func = kernel_of(assigned(gemm(128, 256, 64)))
    fill = PrologueFillAttr.of(pipeline=0, if_taken=1)
    first(func, aa.ForOp)[PROLOGUE_FILLS] = ArrayAttr([fill])
    with pytest.raises(CompileError, match="'for' op has 'prologue_fills' if_taken, and is no bra"):
        read(func)


def test_fill_of_stages_that_others_need_without_the_word_is_refused() -> None:
    func = kernel_of(assigned(CAUSAL))
    for op in func.walk():
        if isinstance(op, aa.IfOp) and PROLOGUE_FILLS in op.attributes:
            fill = PrologueFillAttr.of(pipeline=0, stages=1)
            op.attributes[PROLOGUE_FILLS] = ArrayAttr([fill])
    with pytest.raises(CompileError, match="stages that others need, too, without if_taken"):
        read(func)
