"""The builder folds what it can prove, and nothing else."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64, i32, i64
from xdsl.ir import Block

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.float_bits import float_literal, float_to_bits
from tileiras.codegen.llvmir.folding import bits_of, constant_int
from tileiras.dialects.llvm.memory import GEPOp
from tileiras.dialects.llvm.types import pointer_type, vector_type
from tileiras.errors import InternalError


def _builder(*types: object) -> tuple[ThreadBuilder, list]:
    block = Block(arg_types=types)
    return ThreadBuilder(block), list(block.args)


def test_adding_zero_makes_no_op() -> None:
    b, (x,) = _builder(i32)
    assert b.add(x, b.i32(0)) is x
    assert b.add(b.i32(0), x) is x


def test_subtracting_from_zero_is_kept() -> None:
    b, (x,) = _builder(i32)
    assert b.sub(b.i32(0), x) is not x


def test_adding_float_zero_is_kept() -> None:
    b, (x,) = _builder(f32)
    assert b.fadd(x, b.const_float(f32, 0.0)) is not x


@pytest.mark.parametrize(
    ("method", "lhs", "rhs", "expected"),
    [
        ("add", 2**31 - 1, 1, -(2**31)),
        ("mul", -3, 5, -15),
        ("sdiv", -7, 2, -3),
        ("srem", -7, 2, -1),
        ("udiv", -1, 2, 2**31 - 1),
        ("urem", 7, 4, 3),
        ("shl", 1, 5, 32),
        ("lshr", -1, 28, 15),
        ("ashr", -16, 2, -4),
        ("xor", 6, 3, 5),
    ],
)
def test_integer_constants_fold_as_the_hardware_computes(
    method: str, lhs: int, rhs: int, expected: int
) -> None:
    b, _ = _builder()
    assert constant_int(getattr(b, method)(b.i32(lhs), b.i32(rhs))) == expected


@pytest.mark.parametrize("method", ["sdiv", "udiv", "srem", "urem"])
def test_division_by_zero_is_left_to_run_time(method: str) -> None:
    b, _ = _builder()
    assert constant_int(getattr(b, method)(b.i32(1), b.i32(0))) is None


def test_oversized_shift_is_left_to_run_time() -> None:
    b, _ = _builder()
    assert constant_int(b.shl(b.i32(1), b.i32(32))) is None


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_comparisons_fold_by_their_signedness(lhs: int, rhs: int) -> None:
    b, _ = _builder()
    x, y = b.i32(lhs), b.i32(rhs)
    assert bits_of(b.icmp("slt", x, y)) == (int(lhs < rhs),)
    assert bits_of(b.icmp("ult", x, y)) == (int(lhs % 2**32 < rhs % 2**32),)


def test_extract_looks_through_inserts_and_shuffles() -> None:
    b, (v, w, x) = _builder(vector_type(f32, 4), vector_type(f32, 4), f32)
    both = b.concat([v, b.insert(w, x, 1)])
    assert b.extract(both, 5) is x
    inner = b.extract(both, 6)
    assert inner.owner.operands[0] is w


def test_slice_of_concat_gives_the_piece_back() -> None:
    b, (v, w) = _builder(vector_type(f32, 4), vector_type(f32, 4))
    assert b.slice(b.concat([v, w]), 4, 4) is w


def test_identity_shuffle_makes_no_op_and_reversal_does() -> None:
    b, (v,) = _builder(vector_type(f32, 4))
    assert b.shuffle(v, None, [0, 1, 2, 3]) is v
    assert b.shuffle(v, None, [3, 2, 1, 0]) is not v


def test_concat_of_different_lengths_keeps_every_lane() -> None:
    b, _ = _builder()
    parts = [b.dense(i32, [1, 2, 3]), b.dense(i32, [4]), b.dense(i32, [5, 6])]
    assert bits_of(b.concat(parts)) == (1, 2, 3, 4, 5, 6)


def test_splat_of_constant_is_a_constant() -> None:
    b, _ = _builder()
    assert bits_of(b.splat(b.const_float(f32, 1.0), 8)) == (0x3F800000,)


def test_building_a_vector_from_its_own_lanes_makes_a_shuffle() -> None:
    b, (v,) = _builder(vector_type(f32, 4))
    assert b.build([b.extract(v, i) for i in range(4)]) is v


def test_constant_offsets_of_one_pointer_are_added() -> None:
    b, (p,) = _builder(pointer_type(1))
    twice = b.gep(b.gep(p, 16), 8)
    assert isinstance(twice.owner, GEPOp)
    assert twice.owner.base is p
    assert constant_int(twice.owner.offset) == 24
    assert b.gep(p, 0) is p


def test_select_with_constant_condition_takes_a_side() -> None:
    b, (x, y) = _builder(f32, f32)
    assert b.select(b.i1(True), x, y) is x
    assert b.select(b.i1(False), x, y) is y


def test_constant_branch_becomes_a_jump() -> None:
    from xdsl.ir import Region

    entry, first, second = Block(), Block(), Block()
    Region([entry, first, second])
    ThreadBuilder(entry).cond_br(ThreadBuilder(entry).i1(False), first, second)
    assert entry.last_op is not None and list(entry.last_op.successors) == [second]


def test_masked_load_that_never_happens_is_its_passthru() -> None:
    b, (p, x) = _builder(pointer_type(1), f32)
    assert b.masked_load(p, b.i1(False), f32, 4, x) is x


def test_lane_out_of_range_is_an_internal_error() -> None:
    b, (v,) = _builder(vector_type(f32, 4))
    with pytest.raises(InternalError, match="lane 4"):
        b.extract(v, 4)


def test_integer_constant_wraps_to_its_width() -> None:
    b, _ = _builder()
    assert bits_of(b.const_int(IntegerType(8), -1)) == (255,)
    assert bits_of(b.const_int(i64, -1)) == (2**64 - 1,)


# float constants


@given(st.floats(width=32))
def test_f32_constants_are_exact(value: float) -> None:
    expected = int.from_bytes(struct.pack("<f", value), "little")
    assert float_to_bits(f32, value) == expected


def _nearest_bf16(value: float) -> int:
    import ml_dtypes
    import numpy

    return int(numpy.array(value, dtype=ml_dtypes.bfloat16).view(numpy.uint16))


@given(st.floats(allow_nan=False, width=32))
def test_bf16_constants_round_to_nearest_even(value: float) -> None:
    assert float_to_bits(bf16, value) == _nearest_bf16(value)


def test_bf16_is_rounded_once_from_the_exact_value() -> None:
    tie = 1.0 + 2.0**-8
    assert float_to_bits(bf16, tie) == 0x3F80
    assert float_to_bits(bf16, tie + 2.0**-40) == 0x3F81


def test_overflowing_constants_become_infinite() -> None:
    assert float_to_bits(f16, 1e6) == 0x7C00
    assert float_to_bits(f32, -1e300) == 0xFF800000
    assert float_to_bits(bf16, 1e300) == 0x7F80


def test_float_spelling_is_bit_exact() -> None:
    assert float_literal(f16, 0x3C00) == "0xH3C00"
    assert float_literal(bf16, 0x8000) == "0xR8000"
    assert float_literal(f32, 0x3F800000) == "0x3FF0000000000000"
    assert float_literal(f32, 0x7FC00001) == "0x7FF8000020000000"
    assert float_literal(f64, float_to_bits(f64, math.pi)) == "0x400921FB54442D18"
