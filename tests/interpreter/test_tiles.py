"""Operations that move elements: shapes, slices, constants, indices, matrix products."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    FloatTF32Type,
    IntegerAttr,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
)

from tests.kernels.kernel_builder import SIGNED, UNSIGNED, Kernel, evaluate, held
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import BoundedAttr, IntAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter import InterpreterError
from tileiras.interpreter.formats import format_of


def numbers(*shape: int) -> np.ndarray:
    """0, 1, 2... in a shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_reshape_is_row_major_and_broadcast_repeats():
    source = numbers(2, 4)
    np.testing.assert_array_equal(
        evaluate(ct.ReshapeOp, [(f32, source)], f32, (4, 1, 2)), source.reshape(4, 1, 2)
    )
    column = numbers(4, 1)
    np.testing.assert_array_equal(
        evaluate(ct.BroadcastOp, [(f32, column)], f32, (4, 8)), np.repeat(column, 8, axis=1)
    )


def test_permute_takes_result_dims_from_source_dims():
    source = numbers(2, 4, 8)
    order = DenseArrayBase.from_list(i32, [2, 0, 1])
    result = evaluate(ct.PermuteOp, [(f32, source)], f32, (8, 2, 4), permutation=order)
    np.testing.assert_array_equal(result, np.transpose(source, (2, 0, 1)))


@pytest.mark.parametrize("dim", [0, 1])
def test_cat_joins_along_its_dim(dim):
    lhs, rhs = numbers(4, 4), -numbers(4, 4)
    result = evaluate(
        ct.CatOp,
        [(f32, lhs), (f32, rhs)],
        f32,
        np.concatenate((lhs, rhs), dim).shape,
        dim=IntegerAttr(dim, i32),
    )
    np.testing.assert_array_equal(result, np.concatenate((lhs, rhs), dim))


def slicing_kernel(row: int, column: int) -> Kernel:
    """Moves slice (row, column) of 2x2 slices of an 4x8 tile to slice (1, 0) of an 4x4 tile."""
    kernel = Kernel(PointerType(f32), PointerType(f32), PointerType(f32))
    tile = kernel.load(kernel.args[0], (4, 8))
    indices = [kernel.constant(i32, row), kernel.constant(i32, column)]
    part = kernel.add(ct.ExtractOp, [tile, indices], TileType(f32, (2, 4)))
    kernel.store(kernel.args[1], part)
    whole = kernel.load(kernel.args[2], (4, 4))
    place = [kernel.constant(i32, 1), kernel.constant(i32, 0)]
    result = kernel.add(ct.InsertOp, [part, whole, place], TileType(f32, (4, 4)))
    kernel.store(kernel.args[2], result)
    return kernel


def test_extract_and_insert_count_slices_not_elements():
    source, part, target = numbers(4, 8), np.zeros((2, 4), np.float32), -numbers(4, 4)
    expected = target.copy()
    expected[2:4, :] = source[2:4, 4:8]
    slicing_kernel(1, 1).run(source, part, target)
    np.testing.assert_array_equal(part, source[2:4, 4:8])
    np.testing.assert_array_equal(target, expected)


def test_slice_index_out_of_range_is_an_error():
    arrays = [numbers(4, 8), numbers(2, 4), numbers(4, 4)]
    with pytest.raises(InterpreterError, match="extract: slice index 2 is out of range"):
        slicing_kernel(2, 0).run(*arrays)


def test_constants_of_every_kind():
    kernel = Kernel(PointerType(f32), PointerType(i16))
    kernel.store(kernel.args[0], kernel.constant(f32, [[1.5, -2], [0.25, 8]], (2, 2)))
    kernel.store(kernel.args[1], kernel.constant(i16, -7, (4,)))
    floats, ints = np.zeros((2, 2), np.float32), np.zeros(4, np.int16)
    kernel.run(floats, ints)
    assert floats.tolist() == [[1.5, -2], [0.25, 8]]
    assert ints.tolist() == [-7] * 4


def test_tf32_constant_takes_three_bytes():
    type_ = FloatTF32Type()
    pattern = 0x3F800000 >> 13
    kernel = Kernel(PointerType(f32))
    raw = (pattern.to_bytes(3, "little")) * 2
    tile = kernel.add(
        ct.ConstantOp, (), TileType(type_, (2,)), value=DenseAttr(TileType(type_, (2,)), raw)
    )
    pointer = kernel.add(ct.PtrToPtrOp, [kernel.args[0]], TileType(PointerType(type_)))
    kernel.store(pointer, tile)
    out = np.zeros(2, np.float32)
    kernel.run(out)
    assert out.tolist() == [1.0, 1.0]


def test_iota_counts_and_assume_passes_through():
    kernel = Kernel(PointerType(i8))
    count = kernel.add(ct.IotaOp, [], TileType(i8, (256,)))
    bound = BoundedAttr(IntAttr(-128), IntAttr(127))
    same = kernel.add(ct.AssumeOp, [count], TileType(i8, (256,)), predicate=bound)
    kernel.store(kernel.args[0], same)
    out = np.zeros(256, np.uint8)
    kernel.run(out)
    assert out.tolist() == list(range(256))


def test_block_id_and_grid_reach_every_block():
    kernel = Kernel(PointerType(i32))
    ids = kernel.add(ct.GetTileBlockIdOp, [], [TileType(i32)] * 3)
    sizes = kernel.add(ct.GetNumTileBlocksOp, [], [TileType(i32)] * 3)
    flat = ids[2]
    for part, size in ((ids[1], sizes[1]), (ids[0], sizes[0])):
        scaled = kernel.add(ct.MulIOp, [flat, size], TileType(i32), **OVERFLOW)
        flat = kernel.add(ct.AddIOp, [scaled, part], TileType(i32), **OVERFLOW)
    pointer = kernel.add(ct.OffsetOp, [kernel.args[0], flat], TileType(PointerType(i32)))
    kernel.store(pointer, flat)
    out = np.full(2 * 3 * 4, -1, np.int32)
    kernel.run(out, grid=(4, 3, 2))
    assert out.tolist() == list(range(24))


OVERFLOW = {"overflow": ct.arithmetic.IntegerOverflowAttr(ct.attributes.IntegerOverflow.NONE)}

FLOAT_PRODUCTS = [
    (f16, f16),
    (f16, f32),
    (bf16, f32),
    (f32, f32),
    (FloatTF32Type(), f32),
    (f64, f64),
    (Float8E4M3FNType(), f16),
    (Float8E4M3FNType(), f32),
    (Float8E5M2Type(), f32),
]


@pytest.mark.parametrize("types", FLOAT_PRODUCTS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
@pytest.mark.parametrize("batch", [(), (2,)], ids=["plain", "batched"])
def test_mmaf_rounds_the_sum_once(types, batch):
    operand, accumulator = types
    rng = np.random.default_rng(5)
    lhs = held(operand, rng.integers(-4, 5, (*batch, 8, 16)) / 2)
    rhs = held(operand, rng.integers(-4, 5, (*batch, 16, 4)) / 2)
    acc = held(accumulator, rng.normal(size=(*batch, 8, 4)))
    result = evaluate(
        ct.MmaFOp, [(operand, lhs), (operand, rhs), (accumulator, acc)], accumulator, acc.shape
    )
    exact = np.einsum(
        "...mk,...kn->...mn", lhs.astype(np.float64), rhs.astype(np.float64)
    ) + acc.astype(np.float64)
    np.testing.assert_array_equal(result, exact.astype(format_of(accumulator).dtype))


def test_mmai_reads_each_operand_by_its_signedness_and_wraps():
    rng = np.random.default_rng(6)
    lhs = rng.integers(-128, 128, (8, 16)).astype(np.int8)
    rhs = rng.integers(-128, 128, (16, 8)).astype(np.int8)
    acc = np.full((8, 8), 2**31 - 1, np.int32)
    result = evaluate(
        ct.MmaIOp,
        [(i8, lhs), (i8, rhs), (i32, acc)],
        i32,
        (8, 8),
        signedness_lhs=SIGNED,
        signedness_rhs=UNSIGNED,
    )
    exact = lhs.astype(np.int64) @ rhs.view(np.uint8).astype(np.int64) + 2**31 - 1
    np.testing.assert_array_equal(result, exact.astype(np.int32))


@pytest.mark.parametrize(
    "operand, scale, block",
    [
        (Float8E4M3FNType(), Float8E8M0FNUType(), 32),
        (Float4E2M1FNType(), Float8E4M3FNType(), 16),
    ],
    ids=["f8", "f4"],
)
def test_mmaf_scaled_applies_a_scale_per_block(operand, scale, block):
    rng = np.random.default_rng(8)
    lhs = held(operand, rng.integers(-3, 4, (4, 64)).astype(float))
    rhs = held(operand, rng.integers(-3, 4, (64, 8)).astype(float))
    scales = [1.0, 2.0, 4.0, 0.5]
    lhs_scale = held(scale, rng.choice(scales, (4, 64 // block)))
    rhs_scale = held(scale, rng.choice(scales, (64 // block, 8)))
    acc = np.ones((4, 8), np.float32)
    result = evaluate_with_views(lhs, rhs, acc, lhs_scale, rhs_scale, (operand, scale))
    expected = acc.astype(np.float64)
    for k in range(64):
        left = lhs[:, k].astype(float) * lhs_scale[:, k // block].astype(float)
        right = rhs[k].astype(float) * rhs_scale[k // block].astype(float)
        expected = expected + np.outer(left, right)
    np.testing.assert_array_equal(result, expected.astype(np.float32))


def evaluate_with_views(lhs, rhs, acc, lhs_scale, rhs_scale, types) -> np.ndarray:
    """mmaf_scaled on constants, because 4-bit elements have no pointers of their own."""
    operand, scale = types
    kernel = Kernel(PointerType(f32))
    tiles = [
        kernel.constant(type_, values, values.shape)
        for type_, values in zip(
            (operand, operand, f32, scale, scale),
            (
                lhs,
                rhs,
                acc,
                lhs_scale,
                rhs_scale,
            ),
        )
    ]
    result = kernel.add(ct.MmaFScaledOp, tiles, TileType(f32, acc.shape))
    kernel.store(kernel.args[0], result)
    out = np.zeros(acc.shape, np.float32)
    kernel.run(out)
    return out


def test_bfloat16_arrays_are_accepted_as_arguments():
    kernel = Kernel(PointerType(bf16))
    kernel.store(kernel.args[0], kernel.constant(bf16, 1.5, (4,)))
    out = np.zeros(4, ml_dtypes.bfloat16)
    kernel.run(out)
    assert out.astype(float).tolist() == [1.5] * 4
