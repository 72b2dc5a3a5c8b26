"""Packed f32 arithmetic: the values of scalar instructions, and pairs that stay pairs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.elementwise_body import SIZE, elementwise_kernel
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import TARGET_NAMES, Feature, get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import EXP2_ON_FMA, CompileOptions


def compiled(body: str, target: str, without: tuple[str, ...] = ()) -> str:
    """The PTX of a kernel."""
    options = CompileOptions(gpu_name=target, emit="ptx", disabled_features=without)
    return compile_module(elementwise_kernel(body), options).output.decode()


def floats(seed: int) -> np.ndarray:
    """f32 of every magnitude, with zeros, infinities, NaN and subnormals."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, SIZE, np.uint32)
    bits[: 8 * seed : seed] = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x007FFFFF, 3]
    return bits.view(np.float32)


def results(text: str) -> np.ndarray:
    """What a kernel leaves."""
    result = np.zeros(SIZE, np.float32)
    run_ptx(text, [floats(1), floats(3), result], (1, 1, 1))
    return result


FLAGS = ("", " flush_to_zero", " rounding<zero>", " rounding<negative_inf> flush_to_zero")


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(
    "operation", ["addf %a, %b", "subf %a, %b", "mulf %a, %b", "fma %a, %b, %a"]
)
def test_packed_instructions_round_as_scalar_ones(operation: str, flags: str) -> None:
    body = f"%r = {operation}{flags} : tile<SIZExf32>"
    packed, scalar = compiled(body, "sm_100"), compiled(body, "sm_90")
    assert "f32x2" in packed and "f32x2" not in scalar
    found, wanted = results(packed), results(scalar)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~is_number)
    found, wanted = (values[is_number].view(np.uint32) for values in (found, wanted))
    np.testing.assert_array_equal(found, wanted)


def test_targets_say_whether_the_hardware_has_them() -> None:
    native = [name for name in TARGET_NAMES if get_target(name).has(Feature.F32X2_NATIVE)]
    assert native == ["sm_100", "sm_103", "sm_107"]
    assert all(get_target(name).has(Feature.F32X2) for name in native)


def sums_of_sums(without: tuple[str, ...]) -> tuple[int, int]:
    """Of the packed additions of attention: all, and those of two that have been added before."""
    options = CompileOptions(
        gpu_name="sm_100", emit="ptx", disabled_features=without, knobs={EXP2_ON_FMA: "0"}
    )
    text = compile_module(softmax_attention("full", 128, 64, 64), options).output.decode()
    added = re.findall(r"add\.rn\.f32x2\s+(%rd\d+), (%rd\d+), (%rd\d+);", text)
    results = {result for result, _, _ in added}
    return len(added), sum(lhs in results and rhs in results for _, lhs, rhs in added)


def test_sums_keep_pairs() -> None:
    """Without the feature each step puts new pairs together."""
    assert sums_of_sums(()) == (31, 15)
    assert sums_of_sums(("f32x2-native",)) == (31, 0)
