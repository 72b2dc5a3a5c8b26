"""Attention in tensor memory: places of sums and left operands, refusals, products issued ahead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import UnitAttr

from tests.kernels.assigned import BORDER, assigned, plan_of, read, run
from tests.kernels.attention import attention
from tests.kernels.planned import kernel_of
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import AHEAD
from tileiras.errors import CompileError
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.mma.tmem_columns import holding_sum, lanes_are_private, row_blocks
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.warp_roles.assignment import assign_roles

GPU = "sm_100"
TARGET = get_target(GPU)
FULL = softmax_attention("full", 128, 64, 64)
SCALED = "%b_0 = mulf %a_0, %fb_0 : tile<128x64xf32>"


def planned(source: bytes) -> tuple[aa.FuncOp, RolePlan]:
    """A kernel whose roles have been assigned, and its plan."""
    func = kernel_of(assigned(source, GPU))
    return func, plan_of(func, TARGET)


def products(source: bytes) -> list[Tcgen05Dot]:
    """The products of a kernel that are all done by tcgen05."""
    _, plan = planned(source)
    found = list(plan.dots.values())
    assert all(isinstance(product, Tcgen05Dot) for product in found)
    return [product for product in found if isinstance(product, Tcgen05Dot)]


def test_queries_stay_in_a_stage_and_the_sum_in_tensor_memory() -> None:
    scores, values = products(FULL)
    assert scores.is_lhs_resident and scores.accumulator.is_of_iteration
    assert values.lhs is None and values.accumulator.is_scaled
    places = [(p.accumulator.column, p.accumulator.buffers) for p in (scores, values)]
    assert places == [(0, 2), (128, 1)]
    assert (values.left_column, values.left_columns) == (192, 32)


def test_probabilities_lie_in_their_scores_where_there_is_no_room_beside_them() -> None:
    """Each block of 128 rows in the columns of the same rows."""
    scores, values = products(softmax_attention("full", 256, 128, 128))
    places = [(p.accumulator.column, p.accumulator.columns) for p in (scores, values)]
    assert places == [(0, 256), (256, 256)]
    assert holding_sum(values, [scores, values]) == scores.accumulator
    assert scores.accumulator.buffers == 1
    text = run(assigned(softmax_attention("full", 256, 128, 128), GPU), BORDER, GPU)
    assert "stride = 128" in text and "blocks = 2" in text


def test_they_have_columns_of_their_own_where_there_is_room() -> None:
    scores, values = products(softmax_attention("full", 256, 64, 128))
    assert holding_sum(values, [scores, values]) is None
    assert (values.left_column, row_blocks([scores, values], 2)) == (384, 2)


def test_warps_that_share_lanes_keep_them_apart() -> None:
    """Two warpgroups have columns of 128 rows each: one may still load what the other stores to."""
    scores, values = products(softmax_attention("full", 128, 128, 128))
    assert not lanes_are_private([scores, values], 2) and lanes_are_private([scores, values], 1)
    assert holding_sum(values, [scores, values]) is None
    assert row_blocks([scores, values], 2) == 1


def test_loops_that_follow_each_other_have_the_same_places() -> None:
    first, second, third, fourth = products(softmax_attention("causal", 128, 64, 64))
    assert first.accumulator.column == third.accumulator.column
    assert second.accumulator == fourth.accumulator
    (before,) = second.accumulator.before
    assert before[0] is first.dot.parent_op()
    assert second.left_column == fourth.left_column


def test_threads_hold_whole_rows() -> None:
    assert {product.load_shape for product in products(FULL)} == {"32x32b"}


@pytest.mark.parametrize(("sizes", "ctas"), [((128, 64, 64), 2), ((128, 128, 128), 1)])
def test_ctas_of_an_sm_have_columns_for_all(sizes: tuple[int, int, int], ctas: int) -> None:
    _, plan = planned(softmax_attention("full", *sizes))
    assert plan.shape.ctas == ctas and plan.is_in_tmem


def changed(old: str, new: str) -> bytes:
    """Full attention that does something else in its loop."""
    text = FULL.decode()
    assert text.count(old) == 1
    return text.replace(old, new).encode()


@pytest.mark.parametrize(
    "source",
    [
        changed(SCALED, SCALED.replace(" : ", " rounding<zero> : ")),
        changed(SCALED, SCALED.replace("%fb_0", "%a_0")),
        changed(SCALED, SCALED.replace("mulf", "addf")),
    ],
    ids=["rounded otherwise", "read twice", "not scaled"],
)
def test_sum_that_is_not_only_scaled_is_one_of_an_iteration(source: bytes) -> None:
    _, values = products(source)
    assert values.lhs is None and values.accumulator.is_of_iteration


def test_left_factor_may_be_the_sum() -> None:
    _, values = products(changed(SCALED, SCALED.replace("%a_0, %fb_0", "%fb_0, %a_0")))
    assert values.accumulator.is_scaled


def ahead(func: aa.FuncOp) -> list[bool]:
    """Which products are issued an iteration ahead."""
    found = read(func, TARGET).ahead
    return [op in found for op in func.walk() if isinstance(op, aa.DotOp)]


def test_scores_are_issued_ahead_of_what_is_made_of_them() -> None:
    func, plan = planned(softmax_attention("causal", 128, 64, 64))
    assert ahead(func) == [True, False, True, False]
    assert read(func, TARGET).ahead == assign_roles(func, plan).ahead


def test_warp_issues_them_before_and_in_the_loop() -> None:
    text = run(assigned(attention(1), GPU), BORDER, GPU)
    inside = text[text.index("product_warp") : text.index("agent_switch")]
    before, loop = inside.split("nv_tileaa.for")
    assert before.count("tcgen05_dot") == 1 and "left_operand_wait" not in before
    assert loop.count("tcgen05_dot") == 2
    assert loop.index("tcgen05_dot") < loop.index("left_operand_wait")


def dot(func: aa.FuncOp, number: int) -> aa.DotOp:
    """A product of a kernel."""
    return [op for op in func.walk() if isinstance(op, aa.DotOp)][number]


SPOILED: dict[str, tuple[Callable[[aa.FuncOp], object], str]] = {
    "one that waits for others": (
        lambda f: dot(f, 1).attributes.update({AHEAD: UnitAttr()}),
        "'dot' op has 'ahead', and others of its iteration depend on it",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_products_that_cannot_be_ahead_are_refused(what: str) -> None:
    change, message = SPOILED[what]
    func, _ = planned(FULL)
    change(func)
    with pytest.raises(CompileError, match=message):
        read(func, TARGET)
