"""Conversions between all element types, and reinterpretations."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    FloatTF32Type,
    IntegerType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

from tests.kernels.kernel_builder import (
    NO_OVERFLOW,
    SIGNED,
    UNIT,
    UNSIGNED,
    Kernel,
    evaluate,
    rounding,
)
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import RoundingMode
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType, PointerType, TileType
from tileiras.interpreter.formats import float_format_of, format_of, from_bits, to_bits
from tileiras.interpreter.rounding import round_to

i4 = IntegerType(4)
E4M3, E5M2, E8M0 = Float8E4M3FNType(), Float8E5M2Type(), Float8E8M0FNUType()
F4, TF32, E5M3 = Float4E2M1FNType(), FloatTF32Type(), Float8E5M3FNUType()
TOWARD_ZERO = rounding("nearest_int_to_zero")


def test_integer_widening_extends_by_signedness():
    values = [-128, -1, 0, 127]
    assert evaluate(ct.ExtIOp, [(i8, values)], i32, signedness=SIGNED).tolist() == values
    unsigned = evaluate(ct.ExtIOp, [(i8, values)], i32, signedness=UNSIGNED)
    assert unsigned.tolist() == [128, 255, 0, 127]
    assert evaluate(ct.ExtIOp, [(i1, [0, 1])], i16, signedness=SIGNED).tolist() == [0, -1]
    assert evaluate(ct.ExtIOp, [(i1, [0, 1])], i16, signedness=UNSIGNED).tolist() == [0, 1]


def test_truncation_keeps_low_bits():
    values = [0x1FF, -1, 0x80, 1 << 20]
    assert evaluate(ct.TruncIOp, [(i32, values)], i8, overflow=NO_OVERFLOW).tolist() == [
        -1,
        -1,
        -128,
        0,
    ]
    bits = evaluate(ct.TruncIOp, [(i32, [2, 3])], i1, overflow=NO_OVERFLOW)
    assert bits.tolist() == [False, True]


@pytest.mark.parametrize("signedness", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("type_", [f16, bf16, f32, f64, E4M3, E5M2], ids=str)
def test_int_to_float_rounds_once(type_, signedness):
    """64-bit integers do not fit float64: rounding them twice would go wrong here."""
    values = [0, 1, -1, 2**62 + 2**38 + 1, 2**24 + 1, -(2**63), 2**63 - 1, 3]
    result = evaluate(
        ct.IToFOp, [(i64, values)], type_, signedness=signedness, rounding_mode=rounding()
    )
    fmt = float_format_of(type_)
    for value, got in zip(values, result.astype(float).tolist()):
        value = value if signedness is SIGNED else value % 2**64
        bits = abs(value).bit_length()
        step = 2 ** max(bits - fmt.precision, 0)
        whole, rest = divmod(abs(value), step)
        whole += rest * 2 > step or (rest * 2 == step and whole % 2 == 1)
        exact = float(math.copysign(whole * step, value))
        if abs(exact) > fmt.max_finite:
            assert math.isnan(got) if not fmt.has_inf else got == math.copysign(math.inf, value)
        else:
            assert got == exact


@pytest.mark.parametrize("width", [1, 8, 16, 32, 64])
def test_float_to_int_truncates_and_saturates(width):
    source = [1.9, -1.9, 0.0, 1e30, -1e30, math.nan, math.inf, 100.5]
    for signedness in (SIGNED, UNSIGNED):
        is_signed = signedness is SIGNED
        low = -(1 << (width - 1)) if is_signed else 0
        high = (1 << (width - 1 if is_signed else width)) - 1
        result = evaluate(
            ct.FToIOp,
            [(f32, source)],
            IntegerType(width),
            signedness=signedness,
            rounding_mode=TOWARD_ZERO,
            saturating=UNIT,
        )
        for value, got in zip(source, result.tolist()):
            value = 0 if math.isnan(value) else min(max(value, -1e38), 1e38)
            expected = min(max(int(value), low), high)
            if width == 1:
                assert got == (expected != 0)
            else:
                assert got % 2**width == expected % 2**width


@pytest.mark.parametrize("mode", ["nearest_even", "zero", "negative_inf", "positive_inf"])
@pytest.mark.parametrize("type_", [f16, bf16, TF32], ids=str)
def test_float_narrowing_lands_on_the_right_neighbour(type_, mode):
    rng = np.random.default_rng(7)
    source = (rng.normal(size=64) * 2.0 ** rng.integers(-8, 8, 64)).astype(np.float32)
    result = evaluate(ct.FToFOp, [(f32, source)], type_, rounding_mode=rounding(mode))
    fmt = float_format_of(type_)
    for value, got in zip(source.tolist(), result.astype(float).tolist()):
        step = 2.0 ** (math.floor(math.log2(abs(value))) - fmt.precision + 1)
        scaled = value / step
        expected = {
            "nearest_even": round(scaled),
            "zero": math.trunc(scaled),
            "negative_inf": math.floor(scaled),
            "positive_inf": math.ceil(scaled),
        }[mode]
        assert got == expected * step


def test_tf32_ties_go_to_even_or_away():
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11)], np.float32)
    ties = np.concatenate((ties, [np.float32(1.0)]))
    even = evaluate(ct.FToFOp, [(f32, ties)], TF32, rounding_mode=rounding())
    away = evaluate(ct.FToFOp, [(f32, ties)], TF32, rounding_mode=rounding("nearest_away"))
    assert even.tolist() == [1.0, 1 + 2**-9, -1.0, 1.0]
    assert away.tolist() == [1 + 2**-10, 1 + 2**-9, -(1 + 2**-10), 1.0]


@pytest.mark.parametrize(
    "type_, dtype, top",
    [
        (E4M3, ml_dtypes.float8_e4m3fn, 448.0),
        (E5M2, ml_dtypes.float8_e5m2, 57344.0),
        (F4, ml_dtypes.float4_e2m1fn, 6.0),
    ],
    ids=["f8E4M3FN", "f8E5M2", "f4E2M1FN"],
)
def test_small_formats_round_to_even_and_saturate(type_, dtype, top):
    source = np.concatenate(
        (np.linspace(-1.2 * top, 1.2 * top, 60), [0.0, -0.0, 1e9, -1e9])
    ).astype(np.float32)
    result = evaluate(ct.FToFOp, [(f32, source)], type_, rounding_mode=rounding())
    expected = np.clip(source, -top, top).astype(dtype)
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("type_", [E4M3, E5M2, E8M0, E5M3, f16, bf16], ids=str)
def test_every_pattern_of_a_small_format_survives_widening_and_back(type_):
    fmt = float_format_of(type_)
    patterns = np.arange(1 << fmt.bits, dtype=fmt.storage)
    values = from_bits(patterns, fmt)
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    is_number = np.isfinite(wide)
    back = round_to(wide[is_number], fmt, RoundingMode.NEAREST_EVEN)
    np.testing.assert_array_equal(to_bits(back, fmt), patterns[is_number])


def test_e5m3_values():
    fmt = float_format_of(E5M3)
    patterns = np.array([0, 1, 0x78, 0x79, 0xFE, 0xFF], np.uint8)
    values = from_bits(patterns, fmt)
    np.testing.assert_array_equal(values, [0, 2.0**-17, 1.0, 1.125, 114688.0, np.nan])
    assert list(to_bits(values, fmt)) == list(patterns)


def test_e8m0_rounds_to_powers_of_two():
    source = np.array([1.0, 1.4, 1.6, 3.0], np.float32)
    up = evaluate(ct.FToFOp, [(f32, source)], E8M0, rounding_mode=rounding("positive_inf"))
    down = evaluate(ct.FToFOp, [(f32, source)], E8M0, rounding_mode=rounding("zero"))
    assert up.astype(float).tolist() == [1.0, 2.0, 2.0, 4.0]
    assert down.astype(float).tolist() == [1.0, 1.0, 1.0, 2.0]


def test_widening_is_exact():
    source = np.array([1.5, -0.0, 2.0**-24, 65504.0], np.float16)
    for type_ in (f32, f64):
        result = evaluate(ct.FToFOp, [(f16, source)], type_, rounding_mode=rounding("zero"))
        np.testing.assert_array_equal(result, source.astype(float))
        assert np.signbit(result[1])


def test_bitcast_keeps_bits():
    source = np.array([1.0, -2.5, np.inf, 0.0], np.float32)
    assert evaluate(ct.BitcastOp, [(f32, source)], i32).tolist() == source.view(np.int32).tolist()
    half = evaluate(ct.BitcastOp, [(i16, [0x3C00, -1, 0, 0x7C00])], f16)
    np.testing.assert_array_equal(half, [1.0, np.nan, 0.0, np.inf])
    byte = evaluate(ct.BitcastOp, [(i8, [0x38, 0x7E])], E4M3)
    assert byte.astype(float).tolist() == [1.0, 448.0]


def test_pointers_convert_to_integers_and_back():
    kernel = Kernel(PointerType(f32))
    number = kernel.add(ct.PtrToIntOp, [kernel.args[0]], TileType(i64))
    four = kernel.constant(i64, 4)
    moved = kernel.add(ct.AddIOp, [number, four], TileType(i64), overflow=NO_OVERFLOW)
    as_int = kernel.add(ct.IntToPtrOp, [moved], TileType(PointerType(i32)))
    pointer = kernel.add(ct.PtrToPtrOp, [as_int], TileType(PointerType(f32)))
    kernel.store(pointer, kernel.constant(f32, 3.0, (2,)))
    array = np.zeros(4, np.float32)
    kernel.run(array)
    assert array.tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize(
    "type_, values, raw",
    [
        (i32, [1, -1], [1, 0, 0, 0, 255, 255, 255, 255]),
        (f16, [1.0, -2.0], [0, 0x3C, 0, 0xC0]),
        (i1, [1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0], [0xF9, 0x02]),
        (F4, [0.5, 6.0, -1.0, 0.0], [0x71, 0x0A]),
        (TF32, [1.0, 2.0], [0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]),
    ],
    ids=str,
)
def test_pack_lays_out_bytes_and_unpack_reads_them(type_, values, raw):
    packed = evaluate(ct.PackOp, [(type_, values)], i8, (len(raw),))
    assert packed.view(np.uint8).tolist() == raw
    unpacked = evaluate(
        ct.UnpackOp, [(i8, np.array(raw, np.uint8).view(np.int8))], type_, (len(values),)
    )
    fmt = format_of(type_)
    np.testing.assert_array_equal(unpacked, np.asarray(values).astype(fmt.dtype))


def test_i4_tiles_come_from_bytes_and_go_back():
    kernel = Kernel(PointerType(i8), PointerType(i8))
    source = kernel.load(kernel.args[0], (4,))
    nibbles = kernel.add(ct.UnpackOp, [source], TileType(i4, (8,)))
    wide = kernel.add(ct.ExtIOp, [nibbles], TileType(i8, (8,)), signedness=SIGNED)
    again = kernel.add(ct.TruncIOp, [wide], TileType(i4, (8,)), overflow=NO_OVERFLOW)
    kernel.store(kernel.args[1], wide)
    kernel.store(kernel.args[0], kernel.add(ct.PackOp, [again], TileType(i8, (4,))))
    data, out = np.array([0x21, 0xF8, 0x7F, 0x00], np.uint8), np.zeros(8, np.int8)
    kernel.run(data, out)
    assert out.tolist() == [1, 2, -8, -1, -1, 7, 0, 0]
    assert data.tolist() == [0x21, 0xF8, 0x7F, 0x00]
