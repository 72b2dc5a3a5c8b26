"""Floats as text: exact for every bit pattern, and spelt as MLIR spells them."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
)

from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS
from tileiras.dialects.cuda_tile.text.floats import decode_float, float_text, parse_float

SMALL = [kind for kind, form in FLOAT_FORMATS.items() if form.bits <= 16]


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: FLOAT_FORMATS[kind].text)
def test_every_small_float_reads_back(kind: type) -> None:
    """All bit patterns of the types of at most 16 bits (every 7th of 16)."""
    bits = FLOAT_FORMATS[kind].bits
    for pattern in range(0, 1 << bits, 7 if bits == 16 else 1):
        assert parse_float(float_text(pattern, kind()), kind()) == pattern


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_f32_reads_back(bits: int) -> None:
    """Bit for bit, NaN payloads too."""
    assert parse_float(float_text(bits, Float32Type()), Float32Type()) == bits


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_f64_reads_back(bits: int) -> None:
    """Bit for bit, NaN payloads too."""
    assert parse_float(float_text(bits, Float64Type()), Float64Type()) == bits


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_decimal_rounds_as_python_does(number: float) -> None:
    """To nearest even, in f64 and f32."""
    text = f"{abs(number):.20f}"
    sign = "-" if math.copysign(1, number) < 0 else ""
    expected = struct.unpack("<Q", struct.pack("<d", float(sign + text)))[0]
    assert parse_float(sign + text, Float64Type()) == expected


@pytest.mark.parametrize(
    ("type", "bits", "text"),
    [
        (Float32Type(), 0x3F800000, "1.000000e+00"),
        (Float32Type(), 0x80000000, "-0.000000e+00"),
        (Float32Type(), 0x3EAAAAAB, "0.333333343"),
        (Float32Type(), 0x3FB8AA3B, "1.44269502"),
        (Float32Type(), 0x3727C5AC, "9.99999974E-6"),
        (Float32Type(), 0x00000001, "1.401300e-45"),
        (Float32Type(), 0x7F800000, "0x7F800000"),
        (Float32Type(), 0xFFC00001, "0xFFC00001"),
        (Float32Type(), 0x4CEB79A3, "0x4CEB79A3"),
        (Float64Type(), 0x7FF0000000000000, "0x7FF0000000000000"),
        (Float16Type(), 0x7BFF, "6.550400e+04"),
        (FloatTF32Type(), 0x1FC00, "1.000000e+00"),
        (Float8E4M3FNType(), 0x7E, "4.480000e+02"),
        (Float8E4M3FNType(), 0x7F, "0x7F"),
        (Float8E5M2Type(), 0x7C, "0x7C"),
        (Float8E8M0FNUType(), 0x7F, "1.000000e+00"),
        (Float8E8M0FNUType(), 0xFF, "0xFF"),
        (Float4E2M1FNType(), 0x7, "6.000000e+00"),
    ],
)
def test_spelling(type: object, bits: int, text: str) -> None:
    """As NVIDIA's disassembler prints the same bits."""
    assert float_text(bits, type) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (Float8E4M3FNType(), "1000.0"),
        (Float8E8M0FNUType(), "-1.0"),
        (Float8E8M0FNUType(), "0.0"),
        (Float4E2M1FNType(), "8.0"),
        (Float32Type(), "0x1FFFFFFFF"),
    ],
)
def test_refuses_what_the_type_cannot_hold(type: object, text: str) -> None:
    """Too large, negative or zero where there is no such value."""
    assert parse_float(text, type) is None  # type: ignore[arg-type]


def test_values_are_exact() -> None:
    """Subnormals, the smallest and the largest of some types."""
    forms = {form.text: form for form in FLOAT_FORMATS.values()}
    assert decode_float(0x01, forms["f8E5M2"])[1] == 2**-16  # type: ignore[comparison-overlap]
    assert decode_float(0x00, forms["f8E8M0FNU"])[1] == 2**-127  # type: ignore[comparison-overlap]
    assert decode_float(0xFE, forms["fnv8E5M3FNU"])[1] == 114688
    assert decode_float(0x7C00, forms["f16"]) == (False, None)
