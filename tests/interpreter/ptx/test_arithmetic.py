"""Arithmetic, conversions and bit operations of the PTX machine against numpy and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from .small_kernels import elementwise

RNG = np.random.default_rng(0)


def random_floats(count: int) -> np.ndarray:
    """f32 of every magnitude, with zeros, infinities, NaN and subnormals."""
    bits = RNG.integers(0, 1 << 32, count, np.uint32)
    bits[:8] = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x007FFFFF, 0x3F800000]
    return bits.view(np.float32)


def exactly(value: Fraction, mode: str) -> float:
    """A fraction rounded to f32, with the rules of IEEE 754."""
    if value == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(value))), -126)
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > -126 and abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    scaled = value / unit
    match mode:
        case "rn":
            whole = round(scaled)
        case "rz":
            whole = math.trunc(scaled)
        case "rm":
            whole = math.floor(scaled)
        case _:
            whole = math.ceil(scaled)
    result = whole * unit
    limit = Fraction(2) ** 128
    if abs(result) >= limit:
        to_top = mode == "rz" or (mode == "rm" and result > 0) or (mode == "rp" and result < 0)
        top = float(np.finfo(np.float32).max)
        return math.copysign(top if to_top else math.inf, result)
    return float(result)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_rounds_once(mode: str) -> None:
    """`fma` of f32 in every rounding, against fractions."""
    a, b = (np.ldexp(RNG.standard_normal(400), RNG.integers(-20, 20, 400)) for _ in "ab")
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = (-(a.astype(np.float64) * b)).astype(np.float32)
    c[::3] = np.ldexp(RNG.standard_normal(len(c[::3])), RNG.integers(-60, 60, len(c[::3])))
    found = elementwise(f"fma.{mode}.f32", [a, b, c], np.float32, "rrrr")
    for x, y, z, result in zip(a, b, c, found):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert float(result) == exactly(exact, mode), (x, y, z)


@pytest.mark.parametrize("operation", ["add", "mul"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_add_and_mul_round_once(operation: str, mode: str) -> None:
    """`add` and `mul` of f32 in every rounding; infinities and NaN as numpy has them."""
    a, b = random_floats(500), random_floats(500)[::-1].copy()
    found = elementwise(f"{operation}.{mode}.f32", [a, b], np.float32)
    with np.errstate(all="ignore"):
        plain = a + b if operation == "add" else a * b
    for x, y, result, near in zip(a, b, found, plain):
        if not (np.isfinite(x) and np.isfinite(y)):
            assert result == near or (np.isnan(result) and np.isnan(near))
            continue
        one, other = Fraction(float(x)), Fraction(float(y))
        exact = one + other if operation == "add" else one * other
        assert float(result) == exactly(exact, mode), (x, y)


def test_ftz_flushes_operands_and_results() -> None:
    """Subnormals become zeros with `.ftz`, and stay without it."""
    a = np.array([1e-40, -1e-40, 1e-30, 1.0], np.float32)
    b = np.array([1.0, 1.0, 1e-10, 1.0], np.float32)
    assert elementwise("mul.ftz.f32", [a, b], np.float32).tolist() == [0, 0, 0, 1]
    assert elementwise("mul.f32", [a, b], np.float32)[0] != 0


def test_saturation_limits_to_one_and_turns_nan_to_zero() -> None:
    """`.sat` gives values from 0 to 1."""
    a = np.array([2.0, -1.0, 0.25, np.nan], np.float32)
    found = elementwise("add.sat.f32", [a, np.zeros(4, np.float32)], np.float32)
    assert found.tolist() == [1, 0, 0.25, 0]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_fma_is_correctly_rounded(name: str) -> None:
    """fma of f16 and bf16 rounds the exact result once."""
    dtype = np.float16 if name == "f16" else ml_dtypes.bfloat16
    arrays = [(RNG.standard_normal(600) * 4).astype(dtype) for _ in range(3)]
    bits = [array.view(np.uint16) for array in arrays]
    found = elementwise(f"fma.rn.{name}", bits, np.uint16, "hhhh").view(dtype)
    a, b, c = (array.astype(np.float64) for array in arrays)
    for x, y, z, result in zip(a, b, c, found):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        below, above = np.nextafter(result, dtype(-np.inf)), np.nextafter(result, dtype(np.inf))
        distance = abs(Fraction(float(result)) - exact)
        assert distance <= abs(Fraction(float(below)) - exact)
        assert distance <= abs(Fraction(float(above)) - exact)


SMALL = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
}


@pytest.mark.parametrize("name", SMALL)
def test_every_small_float_widens(name: str) -> None:
    """All codes of fp8 and fp6 convert to f16, two at a time."""
    codes = np.arange(256 if name[1] in "45" else 64, dtype=np.uint16)
    pairs = codes | codes[::-1] << 8
    found = elementwise(f"cvt.rn.f16x2.{name}x2", [pairs], np.uint32, "rh").view(np.float16)
    low, high = found[0::2], found[1::2]
    wanted = codes.astype(np.uint8).view(SMALL[name]).astype(np.float16)
    np.testing.assert_array_equal(low, wanted)
    np.testing.assert_array_equal(high, wanted[::-1])


@pytest.mark.parametrize("name", SMALL)
def test_every_half_narrows(name: str) -> None:
    """All f16 convert to fp8 and fp6, saturating; NaN stays NaN where the format has one."""
    codes = np.arange(1 << 16, dtype=np.uint32)
    found = elementwise(f"cvt.rn.satfinite.{name}x2.f16x2", [codes], np.uint16, "hr")
    values = codes.astype(np.uint16).view(np.float16).astype(np.float32)
    fmt = SMALL[name]
    top = float(ml_dtypes.finfo(fmt).max)
    with np.errstate(invalid="ignore"):
        wanted = np.clip(values, -top, top).astype(fmt)
    got = (found & 0xFF).astype(np.uint8).view(fmt)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(got.view(np.uint8)[number], wanted.view(np.uint8)[number])
    missing = found[~number] & 0xFF
    nan = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F}[name]
    assert (missing == nan).all()


def test_float_to_integer_saturates() -> None:
    """Values beyond the range become its ends, NaN becomes zero."""
    a = np.array([1e10, -1e10, np.nan, 2.5, 3.5, -2.5], np.float32)
    found = elementwise("cvt.rni.s32.f32", [a], np.int32, "rr")
    assert found.tolist() == [2**31 - 1, -(2**31), 0, 2, 4, -2]
    assert elementwise("cvt.rzi.u32.f32", [a], np.uint32, "rr")[1] == 0


def test_integers_convert_to_floats_in_the_rounding_asked_for() -> None:
    """64-bit integers between two f32 go up or down."""
    a = np.array([2**40 + 1, -(2**40) - 1, 2**62 + 2**38], np.int64)
    down = elementwise("cvt.rm.f32.s64", [a], np.float32, "rd")
    up = elementwise("cvt.rp.f32.s64", [a], np.float32, "rd")
    assert (down.astype(object) <= a).all() and (up.astype(object) >= a).all()
    assert (down < up).all()


def test_tf32_rounds_to_eleven_bits() -> None:
    """`cvt.rna.tf32` rounds ties away and clears the low bits."""
    a = np.array([1.0 + 2.0**-11, 1.0 + 2.0**-12, -1.0 - 2.0**-11], np.float32)
    found = elementwise("cvt.rna.tf32.f32", [a], np.uint32, "rr").view(np.float32)
    assert found.tolist() == [1 + 2.0**-10, 1, -1 - 2.0**-10]


INTEGERS = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: (a * b) >> 32,
    "and.b32": lambda a, b: a & b,
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "div.u32": lambda a, b: a // b if b else 0xFFFFFFFF,
    "rem.u32": lambda a, b: a % b if b else a,
    "min.u32": min,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operations(name: str) -> None:
    """Against Python's integers, modulo 2**32."""
    a = RNG.integers(0, 1 << 32, 300, np.uint32)
    b = RNG.integers(0, 1 << 32, 300, np.uint32)
    b[::2] %= 40
    found = elementwise(name, [a, b], np.uint32)
    wanted = [INTEGERS[name](int(x), int(y)) & 0xFFFFFFFF for x, y in zip(a, b)]
    assert found.tolist() == wanted


def test_signed_division_truncates() -> None:
    """-7 / 2 is -3, and the remainder has the dividend's sign."""
    a, b = np.array([-7, 7, -7, 7], np.int32), np.array([2, -2, -2, 2], np.int32)
    assert elementwise("div.s32", [a, b], np.int32).tolist() == [-3, -3, 3, 3]
    assert elementwise("rem.s32", [a, b], np.int32).tolist() == [-1, 1, -1, 1]


def test_high_product_of_64_bits() -> None:
    """`mul.hi.{s,u}64` against Python's integers."""
    a = RNG.integers(-(1 << 63), 1 << 63, 200, np.int64)
    b = RNG.integers(-(1 << 63), 1 << 63, 200, np.int64)
    found = elementwise("mul.hi.s64", [a, b], np.int64, "ddd")
    assert found.tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b)]


def test_permute_picks_bytes_and_spreads_signs() -> None:
    """`prmt` takes bytes 0 to 7; bit 3 of a selector spreads the sign."""
    a, b = np.array([0x03020180], np.uint32), np.array([0x07060584], np.uint32)
    for selector, wanted in ((0x7531, 0x07050301), (0x8888, 0xFFFFFFFF), (0x0123, 0x80010203)):
        found = elementwise("prmt.b32", [a, b, np.array([selector], np.uint32)], np.uint32, "rrrr")
        assert found[0] == wanted


def test_bit_fields() -> None:
    """`bfe`, `bfi`, `clz`, `popc`, `brev`, `bfind`."""
    a = np.array([0xABCD1234], np.uint32)
    start, size = np.array([8], np.uint32), np.array([12], np.uint32)
    assert elementwise("bfe.u32", [a, start, size], np.uint32, "rrrr")[0] == 0xD12
    assert elementwise("bfe.s32", [a, start, size], np.uint32, "rrrr")[0] == 0xFFFFFD12
    assert elementwise("clz.b32", [a >> 5], np.uint32, "rr")[0] == 5
    assert elementwise("popc.b32", [a], np.uint32, "rr")[0] == int(a[0]).bit_count()
    assert elementwise("brev.b32", [a], np.uint32, "rr")[0] == int(f"{0xABCD1234:032b}"[::-1], 2)
    assert elementwise("bfind.u32", [a], np.uint32, "rr")[0] == 31
