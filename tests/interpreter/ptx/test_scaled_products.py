"""Block-scaled GEMMs in the PTX machine, against float64: values, races, unfinished copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.scaled_products import ScaledGemm, gemm_arguments
from tests.kernels.scaled_runs import MX4, MX4_16, MX8, MX8_E5M2, NV4, WHOLE, check, compiled
from tileiras.codegen.atoms.mma import MMA_ATOMS
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.layout.scales import ScaleWords
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

STAGED = (
    ScaledGemm(*MX8, (128, 128, 128), WHOLE),
    ScaledGemm(*MX8_E5M2, (128, 128, 64), WHOLE),
    ScaledGemm(*MX4, (128, 128, 256), WHOLE),
    ScaledGemm(*MX4, (128, 256, 128), WHOLE),
    ScaledGemm(*NV4, (128, 128, 256), WHOLE),
    ScaledGemm(*NV4, (128, 128, 128), WHOLE, bytes=True),
    ScaledGemm(*MX8, (128, 128, 128), (160, 200, 320)),
    ScaledGemm(*NV4, (128, 128, 256), (160, 200, 320)),
    ScaledGemm(*NV4, (128, 128, 128), WHOLE, adds=True),
    ScaledGemm(*MX4, (128, 128, 128), (160, 200, 320), adds=True),
)
"""Products whose operands TMA brings: ldmatrix reads bytes, of f4 two elements each."""

COPIED = (
    ScaledGemm(*MX8, (64, 64, 64), (64, 128, 256)),
    ScaledGemm(*MX8, (128, 128, 64), WHOLE, rows=True),
    ScaledGemm(*MX4, (64, 64, 64), (64, 128, 256)),
    ScaledGemm(*NV4, (128, 64, 128), (128, 128, 256), rows=True),
)
"""Small ones, and those with pairs of f4, or bytes, that do not lie along K."""


@pytest.mark.parametrize("kernel", STAGED, ids=str)
def test_staged_operands_are_multiplied_with_their_scales(kernel: ScaledGemm) -> None:
    text = compiled(kernel, "sm_120")
    assert "cp.async.bulk.tensor" in text and "ldmatrix" in text and "block_scale" in text
    check(kernel, text)


@pytest.mark.parametrize("kernel", COPIED, ids=str)
def test_copied_operands_are_multiplied_with_their_scales(kernel: ScaledGemm) -> None:
    text = compiled(kernel, "sm_120")
    assert "cp.async.bulk.tensor" not in text and "block_scale" in text
    check(kernel, text)


@pytest.mark.parametrize("negative", [None, 0, 1], ids=["none", "one of A", "one of B"])
def test_signs_of_scales_count_where_there_are_any(negative: int | None) -> None:
    """The code for signs runs in warps that have a negative scale, and in no other."""

    def change(*scales: np.ndarray) -> None:
        for codes in scales:
            codes &= 0x7F
        if negative is not None:
            scales[negative][37, 5] |= 0x80

    kernel = ScaledGemm(*NV4, (128, 128, 128), (128, 128, 256))
    given, wanted = gemm_arguments(kernel, change=change)
    run_ptx(compiled(kernel, "sm_120"), given, kernel.grid)
    np.testing.assert_allclose(given[-1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_sm_121_computes_the_same() -> None:
    text = compiled(STAGED[0], "sm_121")
    assert ".target sm_121a" in text and "block_scale" in text
    check(STAGED[0], text)


@pytest.mark.parametrize("kernel", [COPIED[0], COPIED[2]], ids=str)
def test_bf16_products_in_their_place_give_the_same(kernel: ScaledGemm) -> None:
    text = compiled(kernel, "sm_120", without=("block-scaled-mma",))
    assert "block_scale" not in text
    check(kernel, text)


def test_blocks_of_16_with_ue8m0_scales_are_multiplied_in_bf16() -> None:
    kernel = ScaledGemm(*MX4_16, (64, 64, 64), (64, 64, 128))
    text = compiled(kernel, "sm_120")
    assert "block_scale" not in text
    check(kernel, text)


@pytest.mark.parametrize("kernel", [*STAGED, *COPIED], ids=str)
def test_ptxas_takes_it_and_spills_nothing(kernel: ScaledGemm) -> None:
    options = CompileOptions(opt_level=3, gpu_name="sm_120")
    result = ptx_to_cubin(compiled(kernel, "sm_120"), get_target("sm_120"), options)
    assert result.cubin
    assert result.spills == 0


SCALED_ATOMS = [atom for atom in MMA_ATOMS.values() if atom.scaling is not None]


def test_ptxas_takes_every_block_scaled_instruction() -> None:
    """All pairs of operand types of 8, 6 and 4 bits, at every place of scales."""
    lines = [
        f"{atom.mnemonic} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, "
        f"{{%f0, %f1, %f2, %f3}}, %r6, {{{place.byte}, {place.thread % 2}}}, %r7, "
        f"{{{place.byte}, {place.thread}}};"
        for atom in SCALED_ATOMS
        if atom.scaling is not None
        for place in (ScaleWords("B", 16).select(0, at) for at in range(0, 16, atom.scaling.vector))
    ]
    body = "\n".join(lines)
    text = (
        ".version 9.0\n.target sm_120a\n.address_size 64\n"
        ".visible .entry k(.param .u64 p) .reqntid 32 {\n"
        ".reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %d;\nld.param.b64 %d, [p];\n"
        "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d];\n"
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d+16];\n"
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d+32];\n"
        f"{body}\nst.global.v4.f32 [%d], {{%f0, %f1, %f2, %f3}};\nret;\n}}\n"
    )
    assert len(SCALED_ATOMS) == 27
    for name in ("sm_120", "sm_121"):
        options = CompileOptions(opt_level=3, gpu_name=name)
        assert ptx_to_cubin(text.replace("sm_120a", f"{name}a"), get_target(name), options).cubin
