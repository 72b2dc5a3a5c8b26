"""Sine and cosine in the PTX machine, against numbers of more digits."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import DATA_LAYOUT, TRIPLE
from tileiras.codegen.lowering.elementwise.trigonometry import LIMIT
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

COUNT = 4096
KERNEL = """
cuda_tile.module @m {
  entry @k(%X: tile<ptr<TYPE>>, %Y: tile<ptr<TYPE>>) {
    %t0 = make_token : token
    %i = iota : tile<COUNTxi32>
    %x1 = reshape %X : tile<ptr<TYPE>> -> tile<1xptr<TYPE>>
    %x2 = broadcast %x1 : tile<1xptr<TYPE>> -> tile<COUNTxptr<TYPE>>
    %x3 = offset %x2, %i : tile<COUNTxptr<TYPE>>, tile<COUNTxi32> -> tile<COUNTxptr<TYPE>>
    %v, %t1 = load_ptr_tko weak %x3 token = %t0
      : tile<COUNTxptr<TYPE>> -> tile<COUNTxTYPE>, token
    %r = NAME %v : tile<COUNTxTYPE>
    %y1 = reshape %Y : tile<ptr<TYPE>> -> tile<1xptr<TYPE>>
    %y2 = broadcast %y1 : tile<1xptr<TYPE>> -> tile<COUNTxptr<TYPE>>
    %y3 = offset %y2, %i : tile<COUNTxptr<TYPE>>, tile<COUNTxi32> -> tile<COUNTxptr<TYPE>>
    %t2 = store_ptr_tko weak %y3, %r token = %t0
      : tile<COUNTxptr<TYPE>>, tile<COUNTxTYPE> -> token
    return
  }
}
"""
FUNCTIONS = {"sin": math.sin, "cos": math.cos}


@cache
def ptx(name: str, type: str = "f32") -> str:
    """The kernel's PTX."""
    text = KERNEL.replace("COUNT", str(COUNT)).replace("TYPE", type).replace("NAME", name)
    options = CompileOptions(gpu_name="sm_90", emit="ptx", opt_level=3)
    return compile_module(text.encode(), options).output.decode()


def computed(name: str, values: np.ndarray, type: str = "f32") -> np.ndarray:
    """What the kernel makes of up to COUNT values."""
    padded = np.zeros(COUNT, values.dtype)
    padded[: len(values)] = values
    bits = padded.view(f"u{padded.itemsize}")
    result = np.zeros_like(bits)
    run_ptx(ptx(name, type), [bits, result], (1, 1, 1), kernel="k")
    return result.view(values.dtype)[: len(values)]


def ulps(name: str, values: np.ndarray) -> np.ndarray:
    """Errors in units in the last place; Python's sine reduces its argument exactly."""
    found = computed(name, values).astype(np.float64)
    exact = np.array([FUNCTIONS[name](float(value)) for value in values])
    return np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [1.0, 100.0, LIMIT])
def test_results_are_within_two_units_in_the_last_place(name: str, size: float) -> None:
    values = np.random.default_rng(1).uniform(-size, size, COUNT).astype(np.float32)
    assert ulps(name, values).max() <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_multiples_of_a_quarter_turn_are_as_exact(name: str) -> None:
    """Where the reduced argument nearly vanishes; up to the limit."""
    counts = np.r_[1:2048, 65000:67048]
    values = (counts * (math.pi / 2)).astype(np.float32)
    assert ulps(name, values).max() <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_arguments_are_reduced_by_all_digits(name: str) -> None:
    values = np.exp(np.random.default_rng(2).uniform(11, 88, 256)).astype(np.float32)
    values[:2] = np.float32(LIMIT), np.nextafter(np.float32(LIMIT), np.float32(np.inf))
    assert ulps(name, values).max() <= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_large_neighbour_changes_no_result(name: str) -> None:
    values = np.random.default_rng(3).uniform(-100, 100, COUNT).astype(np.float32)
    alone = computed(name, values)
    beside = values.copy()
    beside[::5] = 1e20
    mixed = computed(name, beside)
    is_same = np.arange(COUNT) % 5 != 0
    np.testing.assert_array_equal(mixed[is_same], alone[is_same])
    assert not np.array_equal(mixed, alone)


@pytest.mark.parametrize("type", [np.float32, np.float16], ids=str)
def test_zeros_keep_their_sign_and_what_is_not_finite_becomes_nan(type: type) -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], type)
    name = "f32" if type is np.float32 else "f16"
    sines, cosines = computed("sin", values, name), computed("cos", values, name)
    np.testing.assert_array_equal(np.signbit(sines[:2]), [False, True])
    np.testing.assert_array_equal(sines[:2], 0)
    np.testing.assert_array_equal(cosines[:2], 1)
    assert np.isnan(sines[2:]).all() and np.isnan(cosines[2:]).all()


def test_f16_needs_no_other_way_for_large_arguments() -> None:
    """All finite ones are below the limit; those of f32 are not."""
    assert "local" not in ptx("sin", "f16") and "bra" not in ptx("sin", "f16")
    assert "local" in ptx("sin")


WHOLE = f"""
target triple = "{TRIPLE}"
target datalayout = "{DATA_LAYOUT}"
declare float @__nv_NAMEf(float)
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
  %v = load float, ptr addrspace(1) %x, align 4
  %r = call float @__nv_NAMEf(float %v)
  store float %r, ptr addrspace(1) %y, align 4
  ret void
}}
"""
"""One element by the whole function of libdevice."""


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_f32_has_the_bits_of_libdevice(name: str) -> None:
    """Of small arguments, of large ones, and of small ones beside large ones."""
    values = np.random.default_rng(4).uniform(-200, 200, COUNT).astype(np.float32)
    values[::512], values[1::512] = 3e6, np.nextafter(np.float32(LIMIT), np.float32(0))
    together = computed(name, values).view("u4")
    options = CompileOptions(gpu_name="sm_90", opt_level=3)
    text = llvm_ir_to_ptx(WHOLE.replace("NAME", name), get_target("sm_90"), options)
    for place in (*range(0, COUNT, 193), 512, 513, 1024, 1025):
        bits, result = values[place : place + 1].view("u4").copy(), np.zeros(1, "u4")
        run_ptx(text, [bits, result], (1, 1, 1), (1, 1, 1), kernel="k")
        assert result[0] == together[place], values[place]


def test_f16_is_rounded_once() -> None:
    values = np.arange(0, 1 << 15, 8, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)][:COUNT]
    exact = np.sin(values.astype(np.float64))
    found = computed("sin", values, "f16").astype(np.float64)
    bound = 0.51 * np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    assert (np.abs(found - exact) <= bound).all()
