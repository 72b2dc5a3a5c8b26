"""Division of many elements by few numbers, in the PTX machine, against numpy's.

`hard_pairs` gives the pairs of mantissas whose quotient is nearest to a midpoint of two floats, the
only ones for which the short division could round to the wrong side. It was tried with all of
them: 46.5 million pairs of all 2**23 divisors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

ROWS, COLUMNS = 64, 64
KERNEL = """
cuda_tile.module @m {
  entry @k(%X: tile<ptr<TYPE>>, %D: tile<ptr<TYPE>>, %Y: tile<ptr<TYPE>>) {
    %t0 = make_token : token
    %i = iota : tile<4096xi32>
    %i2 = reshape %i : tile<4096xi32> -> tile<64x64xi32>
    %x1 = reshape %X : tile<ptr<TYPE>> -> tile<1x1xptr<TYPE>>
    %x2 = broadcast %x1 : tile<1x1xptr<TYPE>> -> tile<64x64xptr<TYPE>>
    %x3 = offset %x2, %i2 : tile<64x64xptr<TYPE>>, tile<64x64xi32> -> tile<64x64xptr<TYPE>>
    %v, %t1 = load_ptr_tko weak %x3 token = %t0
      : tile<64x64xptr<TYPE>> -> tile<64x64xTYPE>, token
    DIVISORS
    %r = divf %v, %d ROUNDING : tile<64x64xTYPE>
    %y1 = reshape %Y : tile<ptr<TYPE>> -> tile<1x1xptr<TYPE>>
    %y2 = broadcast %y1 : tile<1x1xptr<TYPE>> -> tile<64x64xptr<TYPE>>
    %y3 = offset %y2, %i2 : tile<64x64xptr<TYPE>>, tile<64x64xi32> -> tile<64x64xptr<TYPE>>
    %t2 = store_ptr_tko weak %y3, %r token = %t0
      : tile<64x64xptr<TYPE>>, tile<64x64xTYPE> -> token
    return
  }
}
"""
ONE = """
    %d0, %t3 = load_ptr_tko weak %D token = %t0 : tile<ptr<TYPE>> -> tile<TYPE>, token
    %d1 = reshape %d0 : tile<TYPE> -> tile<1x1xTYPE>
    %d = broadcast %d1 : tile<1x1xTYPE> -> tile<64x64xTYPE>
"""
ONE_A_ROW = """
    %j = iota : tile<64xi32>
    %d0 = reshape %D : tile<ptr<TYPE>> -> tile<1xptr<TYPE>>
    %d1 = broadcast %d0 : tile<1xptr<TYPE>> -> tile<64xptr<TYPE>>
    %d2 = offset %d1, %j : tile<64xptr<TYPE>>, tile<64xi32> -> tile<64xptr<TYPE>>
    %d3, %t3 = load_ptr_tko weak %d2 token = %t0 : tile<64xptr<TYPE>> -> tile<64xTYPE>, token
    %d4 = reshape %d3 : tile<64xTYPE> -> tile<64x1xTYPE>
    %d = broadcast %d4 : tile<64x1xTYPE> -> tile<64x64xTYPE>
"""
ONE_AN_ELEMENT = """
    %d1 = reshape %D : tile<ptr<TYPE>> -> tile<1x1xptr<TYPE>>
    %d2 = broadcast %d1 : tile<1x1xptr<TYPE>> -> tile<64x64xptr<TYPE>>
    %d3 = offset %d2, %i2 : tile<64x64xptr<TYPE>>, tile<64x64xi32> -> tile<64x64xptr<TYPE>>
    %d, %t3 = load_ptr_tko weak %d3 token = %t0
      : tile<64x64xptr<TYPE>> -> tile<64x64xTYPE>, token
"""


@cache
def ptx(divisors: str, type: str = "f32", rounding: str = "") -> str:
    """The kernel's PTX."""
    text = KERNEL.replace("DIVISORS", divisors).replace("TYPE", type).replace("ROUNDING", rounding)
    options = CompileOptions(gpu_name="sm_90", emit="ptx", opt_level=3)
    return compile_module(text.encode(), options).output.decode()


def agrees(values: np.ndarray, divisors: np.ndarray) -> bool:
    """Whether the quotients of 64x64 numbers are numpy's, bit by bit but for a NaN's."""
    values = np.resize(values.astype(np.float32), (ROWS, COLUMNS))
    divisors = divisors.astype(np.float32)
    result = np.zeros_like(values)
    arguments = [values.view(np.uint32), divisors.view(np.uint32), result.view(np.uint32)]
    run_ptx(ptx(ONE if divisors.size == 1 else ONE_A_ROW), arguments, (1, 1, 1), kernel="k")
    with np.errstate(all="ignore"):
        expected = values / divisors.reshape(-1, 1)
    is_nan = np.isnan(expected)
    same = result.view(np.uint32) == expected.view(np.uint32)
    return bool((same | is_nan).all() and (np.isnan(result) == is_nan).all())


def hard_pairs(divisor: int) -> Iterator[int]:
    """The numbers of 24 bits whose quotient by one of 24 bits is nearest to a midpoint."""
    shift = (divisor & -divisor).bit_length() - 1
    odd = divisor >> shift
    for power in (24, 25):
        for distance in range(-8, 9):
            if not distance or distance % (1 << shift):
                continue
            found = (distance >> shift) * pow(2, -(power - shift), odd) % odd if odd > 1 else 0
            for value in range(found, 1 << 24, odd):
                quotient, rest = divmod((value << power) - distance, divisor)
                if value >> 23 and not rest and quotient & 1 and (value < divisor) == (power == 25):
                    yield value


def test_quotients_next_to_a_midpoint_are_rounded_to_the_right_side() -> None:
    generator = np.random.default_rng(1)
    divisors = generator.integers(1 << 23, 1 << 24, ROWS) | 1
    divisors[:16] = (1 << 24) - 1 - 2 * np.arange(16)
    divisors[16:24] = (1 << 23) + 1 + 2 * np.arange(8)
    pairs = [np.array(list(hard_pairs(int(divisor)))) for divisor in divisors]
    assert min(map(len, pairs)) > 0
    assert sum(map(len, pairs)) > 2 * ROWS
    values = np.stack([np.resize(row, COLUMNS) for row in pairs])
    assert agrees(values, divisors)


@pytest.mark.parametrize("divisor", [3.0, 1 / 3, 4096.7, 1e-9, 2.0**32, -7.0])
def test_quotients_are_those_of_ieee_754(divisor: float) -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(0, 1, 4096) * np.exp(generator.uniform(-20, 20, 4096))
    assert agrees(values, np.array([divisor]))


@pytest.mark.parametrize("divisor", [3.0, -3.0, 1e-30, 1e30, 1e-45, 0.0, -0.0, np.inf, np.nan])
def test_numbers_out_of_range_are_divided_as_well(divisor: float) -> None:
    tiny, large = np.float32(1e-45), np.finfo(np.float32).max
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, large, 1e-38, 1e-25, -1e25, 5e37]
    assert agrees(np.array(ends), np.array([divisor]))
    # Rows of zeros: nothing else is in the way of the thread that has them.
    assert agrees(np.array([0.0]), np.array([divisor]))
    assert agrees(np.array([-0.0]), np.array([divisor]))


def test_a_row_out_of_range_changes_no_other_row() -> None:
    values = np.random.default_rng(3).normal(0, 1, (ROWS, COLUMNS))
    divisors = np.random.default_rng(4).uniform(1, 1000, ROWS)
    values[3, 5], values[9] = np.inf, 1e-40
    divisors[7], divisors[11], divisors[40] = 0.0, 1e35, -2.5
    assert agrees(values, divisors)


def test_one_number_is_inverted_once_and_before_its_quotients() -> None:
    text = ptx(ONE)
    assert text.count("rcp.rn.f32") == 1
    assert text.index("rcp.rn.f32") < text.index("div.rn.f32")


def test_a_number_for_each_element_is_divided_by_as_it_is() -> None:
    text = ptx(ONE_AN_ELEMENT)
    assert "div.rn.f32" in text
    assert "rcp.rn.f32" not in text


@pytest.mark.parametrize(
    ("rounding", "instruction"),
    [
        ("rounding<approx>", "div.approx.f32"),
        ("rounding<full>", "div.full.f32"),
        ("rounding<zero>", "div.rz.f32"),
        ("flush_to_zero", "div.rn.ftz.f32"),
    ],
)
def test_other_divisions_keep_their_instruction(rounding: str, instruction: str) -> None:
    text = ptx(ONE, rounding=rounding)
    assert instruction in text
    assert "rcp.rn.f32" not in text


@pytest.mark.parametrize("type", ["f16", "f64"])
def test_other_types_keep_their_instruction(type: str) -> None:
    assert "rcp" not in ptx(ONE, type)
