"""Block-scaled GEMMs by tcgen05 in the PTX machine, against float64: values, races, copies."""

from __future__ import annotations

import re

import pytest

from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tests.kernels.scaled_runs import MX4, MX4_16, MX8, MX8_E5M2, NV4, WHOLE, check, compiled
from tileiras.codegen.lowering import tcgen05_scaled
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module, read_source
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

RAGGED = (160, 200, 320)

NATIVE = (
    ScaledGemm(*MX8, (128, 128, 128), WHOLE),
    ScaledGemm(*MX8_E5M2, (128, 128, 64), WHOLE),
    ScaledGemm(*MX8, (128, 256, 128), (128, 256, 256)),
    ScaledGemm(*MX8, (256, 128, 256), (256, 128, 512)),
    ScaledGemm(*MX8, (128, 64, 128), (128, 128, 256)),
    ScaledGemm(*MX8, (128, 128, 64), WHOLE, rows=True),
    ScaledGemm(*MX8, (128, 128, 128), RAGGED),
    ScaledGemm(*MX8, (128, 128, 128), RAGGED, batches=2),
    ScaledGemm(*MX8, (128, 128, 128), (256, 384, 320), is_persistent=True),
    ScaledGemm(*MX4, (128, 128, 256), WHOLE),
    ScaledGemm(*MX4, (128, 256, 128), RAGGED),
    ScaledGemm(*NV4, (128, 128, 256), WHOLE),
    ScaledGemm(*NV4, (128, 128, 128), WHOLE, bytes=True),
    ScaledGemm(*NV4, (128, 128, 256), RAGGED),
    ScaledGemm(*NV4, (128, 64, 256), (200, 200, 512), is_persistent=True),
    ScaledGemm(*NV4, (128, 256, 256), (256, 512, 512), is_persistent=True),
)
"""Products whose scales tcgen05 takes from tensor memory."""

REFUSED = (
    (ScaledGemm(*MX8, (64, 64, 64), (64, 128, 256)), "a product of 64x64x64 with scales"),
    (ScaledGemm(*MX4_16, (128, 128, 128), WHOLE), "types of operands and scales"),
    (ScaledGemm(*MX8, (128, 128, 32), WHOLE), "fewer than 2 scales along K"),
    (ScaledGemm(*NV4, (128, 16, 128), (128, 32, 256)), "signs of scales are moved for 32 columns"),
    (ScaledGemm(*NV4, (128, 128, 64), WHOLE, rows=True), "does not come through a pipeline"),
)
"""Products whose scales are multiplied into bf16 operands, and why."""


def told(source: str, gpu: str = "sm_100") -> list[tuple[RemarkKind, str]]:
    """What is said of products with scales."""
    options = CompileOptions(opt_level=3, gpu_name=gpu)
    target, module = get_target(gpu), read_source(source.encode())
    wanted = RemarkFilter({RemarkKind.PASSED: "all", RemarkKind.MISSED: "all"})
    remarks = RemarkCollector(wanted)
    context = CompileContext(target=target, options=options, remarks=remarks)
    for step in select_steps(options, target):
        load_pass(step.pass_name)().apply(context, module)
        if step.pass_name == "tileas-plan-cta":
            break
    return [(r.kind, r.message) for r in remarks.remarks if r.name == "BlockScaled"]


@pytest.mark.parametrize("kernel", NATIVE, ids=str)
def test_scales_are_multiplied_by_tcgen05(kernel: ScaledGemm) -> None:
    text = compiled(kernel, "sm_100")
    kind = {MX8: "mxf8f6f4", MX8_E5M2: "mxf8f6f4", MX4: "mxf4", NV4: "mxf4nvf4"}[
        kernel.element, kernel.scale, kernel.block
    ]
    assert f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale" in text
    assert "tcgen05.cp.cta_group::1.32x128b.warpx4" in text and "mma.sync" not in text
    check(kernel, text)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
@pytest.mark.parametrize("kernel", [NATIVE[0], NATIVE[9], NATIVE[11]], ids=str)
def test_other_targets_with_tensor_memory_compute_the_same(kernel: ScaledGemm, gpu: str) -> None:
    text = compiled(kernel, gpu)
    assert "block_scale" in text
    check(kernel, text)


@pytest.mark.parametrize(("kernel", "reason"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_has_no_place_is_multiplied_in_bf16(kernel: ScaledGemm, reason: str) -> None:
    text = compiled(kernel, "sm_100")
    assert "block_scale" not in text
    check(kernel, text)
    ((kind, message),) = told(gemm(kernel))
    assert kind is RemarkKind.MISSED
    assert message.startswith("scales are multiplied in bf16: ") and reason in message


def test_a_tile_that_one_cta_has_no_place_for_is_divided_unless_a_hint_forbids_it() -> None:
    source = gemm(ScaledGemm(*MX8, (256, 256, 128), (256, 256, 256)))
    assert told(source) == [(RemarkKind.PASSED, "scaled by tcgen05.mma.kind::mxf8f6f4")]
    alone = ") optimization_hints=<sm_100 = {num_cta_in_cga = 1}> {"
    ((kind, message),) = told(source.replace(") {", alone, 1))
    assert kind is RemarkKind.MISSED and "take more than 512 columns" in message


def test_what_is_scaled_by_tcgen05_is_told() -> None:
    assert told(gemm(NATIVE[11])) == [(RemarkKind.PASSED, "scaled by tcgen05.mma.kind::mxf4nvf4")]


@pytest.mark.parametrize("kernel", [NATIVE[0], NATIVE[11]], ids=str)
def test_a_plan_without_room_leaves_bf16_products(kernel: ScaledGemm) -> None:
    """Operands are loaded after a write, which only all warps together can wait for."""
    source = gemm(kernel)
    store = re.search(r"%t = (store_view_tko weak) %r(, %c_v.*?-> token)", source, re.DOTALL)
    assert store is not None
    first = f"%first = {store[1]} %zero{store[2]}\n %r = for"
    source = source.replace("%r = for", first, 1)
    source = re.sub(r"(load_view_tko weak %\w+\[.*?\]) :", r"\1 token = %first :", source)
    assert told(source) == [
        (RemarkKind.MISSED, "scales are multiplied in bf16: the kernel has no warp roles")
    ]
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(source.encode(), options).output.decode()
    assert "block_scale" not in text
    check(kernel, text)


@pytest.mark.parametrize(
    "how", [{"level": 0}, {"without": ("tcgen05-block-scale",)}, {"without": ("tcgen05",)}]
)
def test_without_it_products_are_those_of_bf16(how: dict) -> None:
    text = compiled(NATIVE[0], "sm_100", **how)
    assert "block_scale" not in text
    check(NATIVE[0], text)


def test_words_of_scales_are_copied_asynchronously_where_they_are_aligned() -> None:
    words = "cp.async.ca.shared.global"
    assert words in compiled(NATIVE[0], "sm_100")
    # 10 scales a row; scales that lie along the rows.
    assert words not in compiled(NATIVE[6], "sm_100") and words not in compiled(NATIVE[5], "sm_100")


def test_scales_that_the_async_proxy_may_not_see_are_found() -> None:
    text = compiled(NATIVE[6], "sm_100")
    assert "fence.proxy.async" in text
    cut = re.sub(r"fence\.proxy\.async\.shared::cta;", "", text)
    given, _ = gemm_arguments(NATIVE[6])
    with pytest.raises(PtxRuntimeError, match="without a fence.proxy.async"):
        run_ptx(cut, given, NATIVE[6].grid)


def test_signs_of_scales_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions take ue4m3 without a sign: the f4 in stages get it."""
    monkeypatch.setattr(tcgen05_scaled, "apply_signs", lambda *_: None)
    with pytest.raises(AssertionError):
        check(NATIVE[11], compiled.__wrapped__(NATIVE[11], "sm_100"))


@pytest.mark.parametrize("kernel", NATIVE, ids=str)
def test_ptxas_takes_it_and_spills_nothing(kernel: ScaledGemm) -> None:
    options = CompileOptions(opt_level=3, gpu_name="sm_100")
    result = ptx_to_cubin(compiled(kernel, "sm_100"), get_target("sm_100"), options)
    assert result.cubin
    assert result.spills == 0
