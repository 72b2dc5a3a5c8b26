"""Which products have their sums in tensor memory, where these lie, and what is refused."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.kernels.attention import attention
from tests.kernels.gather import experts
from tests.kernels.gemm import gemm, persistent, with_ctas
from tests.kernels.planned import kernel_of
from tests.kernels.product_text import ProductKernel
from tileiras.codegen.atoms.tcgen05 import (
    TCGEN05_KINDS,
    allocated_columns,
    find_tcgen05_kind,
    get_tcgen05_kind,
)
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import MMA, Tcgen05Attr
from tileiras.driver import read_source
from tileiras.errors import InternalError
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.planning.kernel import plan_kernel
from tileiras.planning.mma.strategy import pipelined_strategies
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.written import read_plan, write_plan
from tileiras.planning.strategy import refusals_of
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

TARGET = get_target("sm_100")
OPTIONS = CompileOptions(gpu_name="sm_100")


def planned(source: bytes) -> tuple[aa.FuncOp, RolePlan | None, dict[str, str]]:
    """A kernel as it is planned for sm_100, its plan, and what was refused."""
    module = read_source(source)
    context = CompileContext(target=TARGET, options=OPTIONS, remarks=RemarkCollector())
    for step in select_steps(OPTIONS, TARGET):
        if step.pass_name == "tileas-plan-cta":
            break
        load_pass(step.pass_name)().apply(context, module)
    func = kernel_of(module)
    return func, plan_kernel(func, TARGET, OPTIONS).roles, refusals_of(func)


def sums(plan: RolePlan | None) -> list[tuple[int, int, int]]:
    """First column, columns and buffers of every sum."""
    assert plan is not None
    assert all(isinstance(dot, Tcgen05Dot) for dot in plan.dots.values())
    return [(own.column, own.columns, own.buffers) for own in plan.sums]


@pytest.mark.parametrize(
    ("tile", "columns"),
    [((128, 128, 64), 128), ((128, 256, 64), 256), ((256, 128, 64), 256), ((64, 128, 64), 128)],
)
def test_sum_takes_its_columns(tile: tuple[int, int, int], columns: int) -> None:
    _, plan, refusals = planned(gemm(*tile))
    assert sums(plan) == [(0, columns, 1)] and refusals == {}


def test_sums_of_several_tiles_have_two_buffers() -> None:
    _, plan, _ = planned(persistent(128, 128, 64))
    assert sums(plan) == [(0, 128, 2)]


def test_ctas_of_an_sm_share_its_columns() -> None:
    _, plan, _ = planned(with_ctas(gemm(128, 128, 64), 2))
    assert plan is not None
    assert plan.shape.ctas * allocated_columns(128) <= 512


def test_plan_is_read_as_it_was_made() -> None:
    func, plan, _ = planned(persistent(128, 128, 64))
    made = plan_kernel(func, TARGET, OPTIONS)
    write_plan(func, made)
    (dot,) = (op for op in func.walk() if isinstance(op, aa.DotOp))
    assert isinstance(dot.attributes[MMA], Tcgen05Attr)
    assert read_plan(func, TARGET) == made
    assert plan == made.roles


def test_a_plan_that_contradicts_the_product_is_our_mistake() -> None:
    func, _, _ = planned(gemm(128, 128, 64))
    write_plan(func, plan_kernel(func, TARGET, OPTIONS))
    with pytest.raises(InternalError, match="cannot be computed as planned: tcgen05 has no"):
        read_plan(func, get_target("sm_90").without(["tcgen05"]))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (gemm(32, 128, 64), "tcgen05 has no instructions for a product of 32x128x64"),
        (
            attention(rows=64),
            "a left operand that is computed has 64 rows, no multiple of 128",
        ),
        (
            attention().replace(b"ftof %p_0", b"ftof %z"),
            "a left operand is computed from other than products",
        ),
        (
            experts(128, 256),
            "a thread has 128 registers, and 128 of them would be for a sum",
        ),
        (
            ProductKernel("f16", (128, 128, 64), result="f16")
            .text()
            .replace("f32", "f16")
            .encode(),
            "tcgen05 has no instructions for the element types",
        ),
    ],
)
def test_refusals_say_why(source: bytes, reason: str) -> None:
    _, plan, refusals = planned(source)
    assert plan is None or not plan.is_in_tmem
    assert plan is None or "tcgen05" in refusals
    if plan is not None:
        assert refusals["tcgen05"] == reason


def test_gathering_warps_have_one_for_products_beside_them() -> None:
    _, plan, _ = planned(experts())
    assert sums(plan) == [(0, 128, 1)]
    assert plan is not None and plan.shape.producer_warps == 5
    assert plan.shape.producer_registers == plan.shape.consumer_registers == 0


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("sm_90", ["wgmma"]),
        ("sm_100", ["tcgen05", "mma_sync"]),
        ("sm_120", ["mma_sync"]),
    ],
)
def test_strategies_follow_from_the_target(target: str, names: list[str]) -> None:
    assert [strategy.name for strategy in pipelined_strategies(get_target(target))] == names


def test_without_the_feature_mma_sync_is_asked() -> None:
    strategies = pipelined_strategies(TARGET.without(["tcgen05"]))
    assert [strategy.name for strategy in strategies] == ["mma_sync"]


@pytest.mark.parametrize("kind", TCGEN05_KINDS, ids=lambda kind: kind.name)
def test_kinds_are_found_by_their_types(kind) -> None:
    for name, _ in kind.codes:
        assert find_tcgen05_kind(kind.accumulator, name, name) is kind
    assert get_tcgen05_kind(kind.name) is kind


@pytest.mark.parametrize(
    "types",
    [("f16", "f16", "f16"), ("f32", "f16", "bf16"), ("f32", "s8", "s8"), ("f32", None, "f16")],
)
def test_other_types_have_no_kind(types) -> None:
    assert find_tcgen05_kind(*types) is None


def test_instruction_descriptor_has_the_fields_of_the_isa() -> None:
    word = get_tcgen05_kind("f16").descriptor("bf16", "bf16", 128, 256, transposed=(False, True))
    assert word == 1 << 4 | 1 << 7 | 1 << 10 | 1 << 16 | 32 << 17 | 8 << 24


@pytest.mark.parametrize(("m", "n"), [(32, 64), (128, 8), (128, 264), (96, 64)])
def test_no_descriptor_for_a_shape_without_instructions(m: int, n: int) -> None:
    with pytest.raises(InternalError, match=r"no tcgen05\.mma f16"):
        get_tcgen05_kind("f16").descriptor("f16", "f16", m, n)


@pytest.mark.parametrize(("columns", "allocated"), [(1, 32), (32, 32), (96, 128), (257, 512)])
def test_columns_are_allocated_by_powers_of_two(columns: int, allocated: int) -> None:
    assert allocated_columns(columns) == allocated


def test_a_plan_names_all_that_was_decided() -> None:
    with pytest.raises(VerifyException, match="expected column, columns, buffers, load"):
        Tcgen05Attr.of(column=0)
