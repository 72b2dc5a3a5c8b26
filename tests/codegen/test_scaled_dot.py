"""Block-scaled matrix products: by mma.sync with scales, or in bf16 where it has none."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.scaled_products import ScaledKernel, arguments, product
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.driver import compile_module
from tileiras.errors import CompileError
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

MX8 = ("f8E4M3FN", "f8E8M0FNU", 32)
MX8_E5M2 = ("f8E5M2", "f8E8M0FNU", 32)
MX4 = ("f4E2M1FN", "f8E8M0FNU", 32)
MX4_16 = ("f4E2M1FN", "f8E8M0FNU", 16)
NV4 = ("f4E2M1FN", "f8E4M3FN", 16)

NATIVE = [
    ScaledKernel(*MX8, (16, 8, 64)),
    ScaledKernel(*MX8_E5M2, (32, 16, 32)),
    ScaledKernel(*MX8, (64, 64, 128)),
    ScaledKernel(*MX8, (32, 32, 256)),
    ScaledKernel(*MX8, (32, 16, 64), batches=2),
    ScaledKernel(*MX4, (16, 8, 64)),
    ScaledKernel(*MX4, (64, 32, 128)),
    ScaledKernel(*MX4, (32, 32, 512)),
    ScaledKernel(*NV4, (16, 8, 64)),
    ScaledKernel(*NV4, (64, 32, 128)),
    ScaledKernel(*NV4, (32, 64, 256)),
]
"""Products that sm_120 has instructions for."""

EXPANDED = [
    ScaledKernel(*MX4_16, (32, 16, 64)),
    ScaledKernel(*MX8, (8, 8, 64)),
    ScaledKernel(*NV4, (16, 16, 32)),
]
"""Products that it has none for: types, or less than an instruction."""


@cache
def compiled(kernel: ScaledKernel, stage: str, without: tuple[str, ...] = ()) -> str:
    """The kernel at a later stage, as text."""
    options = CompileOptions(gpu_name="sm_120", emit=stage, opt_level=3, disabled_features=without)
    return compile_module(product(kernel).encode(), options).output.decode()


def wanted(kernel: ScaledKernel) -> tuple[list[np.ndarray], np.ndarray]:
    """Arguments, and what the last of them becomes."""
    given = arguments(kernel)
    later = [array.copy() for array in given]
    run_entry(parse_module(product(kernel)), None, later, (1, 1, 1))
    assert np.abs(later[-1]).max() > 1
    return given, later[-1]


@pytest.mark.parametrize("kernel", [*NATIVE, *EXPANDED], ids=str)
def test_threads_compute_what_the_program_means(kernel: ScaledKernel) -> None:
    given, result = wanted(kernel)
    run_lowered(lower_to_llvm(parse_module(product(kernel)), "sm_120"), given)
    np.testing.assert_allclose(given[-1], result, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("kernel", NATIVE, ids=str)
def test_ptx_computes_what_the_program_means(kernel: ScaledKernel) -> None:
    given, result = wanted(kernel)
    text = compiled(kernel, "ptx")
    assert "block_scale" in text and ".target sm_120a" in text
    run_ptx(text, given, grid=(1, 1, 1))
    np.testing.assert_allclose(given[-1], result, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("kernel", EXPANDED, ids=str)
def test_other_products_have_no_block_scaled_instruction(kernel: ScaledKernel) -> None:
    text = compiled(kernel, "ptx")
    assert "block_scale" not in text


def test_a_switched_off_feature_expands_the_product() -> None:
    text = compiled(NATIVE[2], "ptx", ("block-scaled-mma",))
    assert "block_scale" not in text and "bf16" in text


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (NATIVE[0], "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"),
        (NATIVE[5], "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X"),
        (NATIVE[8], "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"),
    ],
)
def test_each_format_has_its_instruction(kernel: ScaledKernel, kind: str) -> None:
    assert kind in compiled(kernel, "ptx")


@pytest.mark.parametrize(("element", "scale", "block"), [NV4, MX4, MX8_E5M2])
def test_operands_are_scaled_in_f32_and_multiplied_in_bf16(
    element: str, scale: str, block: int
) -> None:
    module = parse_module(product(ScaledKernel(element, scale, block, (16, 8, 64))))
    context = CompileContext(target=get_target("sm_100"), options=CompileOptions())
    for name in ("convert-cudatile-to-tileaa", "tileaa-legalize-scaled-dot"):
        load_pass(name)().apply(context, module)
    ops = [op for op in module.walk() if op.name in ("nv_tileaa.mulf", "nv_tileaa.dot")]
    assert [op.name for op in ops] == ["nv_tileaa.mulf", "nv_tileaa.mulf", "nv_tileaa.dot"]
    shapes = [str(op.results[0].type) for op in ops]
    assert shapes == ["tensor<16x64xf32>", "tensor<64x8xf32>", "tensor<16x8xf32>"]
    assert [str(value.type) for value in ops[2].operands[:2]] == [
        "tensor<16x64xbf16>",
        "tensor<64x8xbf16>",
    ]


def test_targets_without_the_scale_type_reject_it() -> None:
    text = product(ScaledKernel(*MX8, (16, 8, 64)))
    with pytest.raises(CompileError, match="unsupported type 'f8E8M0FNU'"):
        lower_to_llvm(parse_module(text), "sm_90")


@pytest.mark.parametrize(
    ("kernel", "gpu", "text"),
    [
        (NATIVE[0], "sm_120", "scaled by mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4"),
        (NATIVE[0], "sm_100", "multiplied in bf16: tcgen05 has no instructions for a product"),
        (EXPANDED[0], "sm_120", "no instruction has scales of f8E8M0FNU for 16 elements each"),
        (EXPANDED[1], "sm_120", "8x8x64 is smaller than an instruction (16x8x32)"),
        (EXPANDED[2], "sm_120", "16x16x32 is smaller than an instruction (16x8x64)"),
    ],
)
def test_a_remark_says_how_a_product_is_computed(kernel: ScaledKernel, gpu: str, text: str) -> None:
    module = parse_module(product(kernel))
    wanted = RemarkFilter({RemarkKind.PASSED: "all", RemarkKind.MISSED: "all"})
    context = CompileContext(
        target=get_target(gpu), options=CompileOptions(), remarks=RemarkCollector(wanted)
    )
    for name in ("convert-cudatile-to-tileaa", "tileaa-legalize-scaled-dot"):
        load_pass(name)().apply(context, module)
    [remark] = context.remarks.remarks
    assert remark.name == "BlockScaled"
    assert text in remark.message


def test_a_product_that_was_not_legalised_is_an_error() -> None:
    module = parse_module(product(EXPANDED[0]))
    context = CompileContext(target=get_target("sm_120"), options=CompileOptions())
    for name in ("convert-cudatile-to-tileaa", "choose-strategy", "tileas-plan-cta"):
        load_pass(name)().apply(context, module)
    with pytest.raises(CompileError, match="has no instruction: tileaa-legalize-scaled-dot"):
        load_pass("tileas-assign-dot-layouts")().apply(context, module)
