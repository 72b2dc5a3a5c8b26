"""Block-scaled kinds of tcgen05, and what is planned for products with scales."""

from __future__ import annotations

import pytest

from tests.kernels.planned import kernel_of
from tests.kernels.scaled_products import ScaledGemm, gemm
from tileiras.codegen.atoms.tcgen05_scaled import (
    SCALED_KINDS,
    find_scaled_kind,
    get_scaled_kind,
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
from tileiras.planning.mma.tcgen05 import Tcgen05Dot
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.written import read_plan, write_plan
from tileiras.planning.operands.scales import scale_dims, scale_vector
from tileiras.planning.operands.tma import is_by_tma, is_scale_load, place_bytes
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

TARGET = get_target("sm_100")
OPTIONS = CompileOptions(gpu_name="sm_100")
MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
NV4 = ("f4E2M1FN", "f8E4M3FN", 16)


def planned(kernel: ScaledGemm) -> tuple[aa.FuncOp, RolePlan]:
    """A kernel as it is planned for sm_100."""
    module = read_source(gemm(kernel).encode())
    context = CompileContext(target=TARGET, options=OPTIONS, remarks=RemarkCollector())
    for step in select_steps(OPTIONS, TARGET):
        if step.pass_name == "tileas-plan-cta":
            break
        load_pass(step.pass_name)().apply(context, module)
    func = kernel_of(module)
    plan = plan_kernel(func, TARGET, OPTIONS).roles
    assert plan is not None
    return func, plan


def test_scales_share_the_stages_of_operands() -> None:
    _, plan = planned(ScaledGemm(*MX8, (128, 256, 256), (128, 256, 512)))
    (pipeline,) = plan.pipelines
    (content,) = pipeline.contents
    assert [is_scale_load(load) for load in content] == [False, False, True, True]
    assert [is_by_tma(load) for load in content] == [True, True, False, False]
    # 8 scales of 128 rows are two chunks of 512 bytes, of 256 columns four.
    assert [place_bytes(load) for load in content[2:]] == [1024, 2048]
    assert pipeline.has_scales and not pipeline.gathers


def test_scales_lie_behind_the_sums_in_tensor_memory() -> None:
    func, plan = planned(ScaledGemm(*NV4, (128, 128, 256), (256, 384, 512), is_persistent=True))
    (dot,) = plan.dots.values()
    assert isinstance(dot, Tcgen05Dot)
    assert (dot.accumulator.buffers, dot.accumulator.columns) == (2, 128)
    assert (dot.scales_column, dot.scale_columns) == (256, 2 * 4 * 4)
    write_plan(func, plan_kernel(func, TARGET, OPTIONS))
    attribute = dot.dot.attributes[MMA]
    assert isinstance(attribute, Tcgen05Attr) and attribute.integer("scales") == 256
    read = read_plan(func, TARGET)
    assert read is not None and read.roles is not None
    assert read.roles.dots[dot.dot] == dot


def test_two_sums_and_scales_that_do_not_fit_leave_one_sum() -> None:
    _, plan = planned(ScaledGemm(*NV4, (128, 256, 256), (256, 512, 512), is_persistent=True))
    (dot,) = plan.dots.values()
    assert isinstance(dot, Tcgen05Dot)
    assert (dot.accumulator.buffers, dot.scales_column) == (1, 256)


@pytest.mark.parametrize(
    ("kernel", "vector"),
    [
        (ScaledGemm(*MX8, (128, 128, 128), (128, 128, 512)), 4),
        (ScaledGemm(*MX8, (128, 128, 64), (128, 128, 512)), 1),
        (ScaledGemm(*MX8, (128, 128, 128), (128, 128, 320)), 1),
    ],
    ids=str,
)
def test_words_are_copied_where_they_are_aligned(kernel: ScaledGemm, vector: int) -> None:
    _, plan = planned(kernel)
    loads = [load for load in plan.pipelines[0].loads if is_scale_load(load)]
    assert [scale_vector(load) for load in loads if isinstance(load, aa.TiledLoadOp)] == [
        vector
    ] * 2


def test_dims_of_scales_are_those_under_reshapes() -> None:
    _, plan = planned(ScaledGemm(*MX8, (128, 64, 128), (128, 128, 512), batches=2))
    left, right = (load for load in plan.pipelines[0].loads if is_scale_load(load))
    assert isinstance(left, aa.TiledLoadOp) and isinstance(right, aa.TiledLoadOp)
    dims = [(dims.rows, dims.k) for dims in (scale_dims(left), scale_dims(right))]
    assert dims == [(1, 2), (2, 1)]


def test_kinds_have_their_blocks() -> None:
    found = {kind.name: (kind.k, kind.block, kind.vector) for kind in SCALED_KINDS}
    assert found == {"mxf8f6f4": (32, 32, 1), "mxf4": (64, 32, 2), "mxf4nvf4": (64, 16, 4)}
    assert find_scaled_kind("e4m3", "e5m2", "ue8m0", 32) is get_scaled_kind("mxf8f6f4")
    assert find_scaled_kind("e2m1", "e2m1", "ue8m0", 16) is None
    assert find_scaled_kind("e4m3", "e2m1", "ue8m0", 32) is None
    with pytest.raises(InternalError, match="no block-scaled tcgen05 kind"):
        get_scaled_kind("f16")


def test_steps_of_k_find_their_scales() -> None:
    eight, four, nv = SCALED_KINDS
    assert [eight.scale_place(step) for step in range(5)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
    ]
    assert [four.scale_place(step) for step in range(3)] == [(0, 0), (0, 2), (1, 0)]
    assert [nv.scale_place(step) for step in range(2)] == [(0, 0), (1, 0)]


def test_descriptor_has_its_fields() -> None:
    """PTX ISA, "Instruction descriptor": the tables of the block-scaled kinds."""
    word = get_scaled_kind("mxf8f6f4").descriptor(
        "e5m2", "e4m3", 128, 256, 3, transposed=(False, True)
    )
    assert word == 3 << 4 | 1 << 7 | 1 << 16 | 32 << 17 | 1 << 23 | 1 << 27 | 3 << 29
    nv = get_scaled_kind("mxf4nvf4").descriptor("e2m1", "e2m1", 128, 64, 0)
    assert nv == 1 << 7 | 1 << 10 | 8 << 17 | 1 << 27


@pytest.mark.parametrize(
    ("m", "n", "byte"), [(64, 64, 0), (128, 24, 0), (128, 512, 0), (128, 64, 2), (128, 64, 4)]
)
def test_descriptors_of_other_shapes_and_bytes_are_refused(m: int, n: int, byte: int) -> None:
    with pytest.raises(InternalError, match="no tcgen05|reads no scales"):
        get_scaled_kind("mxf4nvf4").descriptor("e2m1", "e2m1", m, n, byte)
