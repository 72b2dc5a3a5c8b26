"""Views: which elements an access moves, padding, what views tell of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E8M0FNUType,
    f16,
    f32,
    i32,
)

from tests.kernels.kernel_builder import Kernel
from tests.kernels.view_kernels import MAKE_VIEW, load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    PaddingValue,
    PaddingValueAttr,
)
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from tileiras.interpreter import InterpreterError

INT = TileType(i32)


def read_through(
    view_of: Any, data: np.ndarray, type_: TensorViewType, index: Any, inbounds: Any = None
) -> np.ndarray:
    """What a view of `data` loads at an index of Python integers or index arrays."""
    view_type = view_of(type_)
    kernel = Kernel(PointerType(type_.element_type), PointerType(type_.element_type))
    base = tensor_view(kernel, kernel.args[0], type_)
    view = kernel.add(MAKE_VIEW[type(view_type)], [base], view_type)
    position = [kernel.constant(i32, np.asarray(part), np.asarray(part).shape) for part in index]
    kernel.store(kernel.args[1], load_view(kernel, view, position, inbounds))
    out = np.zeros(view_type.tile_shape, data.dtype)
    kernel.run(data, out)
    return out


def test_partition_view_walks_tiles_and_copies_with_ragged_edges():
    """A 5x7 tensor copied tile by tile, sizes and strides known at run time."""
    type_ = TensorViewType(f32, (DYNAMIC, DYNAMIC), (DYNAMIC, 1))
    kernel = Kernel(PointerType(f32), PointerType(f32), i32, i32, i32, i32)
    source_type = PartitionViewType((4, 4), type_, (0, 1))
    args = kernel.args
    source = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, args[0], type_, [args[2], args[3], args[4]])],
        source_type,
    )
    target = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, args[1], type_, [args[2], args[3], args[5]])],
        source_type,
    )
    x, y, _ = kernel.add(ct.GetTileBlockIdOp, [], [INT] * 3)
    store_view(kernel, load_view(kernel, source, [y, x]), target, [y, x])
    data = np.arange(5 * 8, dtype=np.float32).reshape(5, 8)
    out = np.full((6, 9), -1, np.float32)
    kernel.run(data, out, 5, 7, 8, 9, grid=(2, 2, 1))
    np.testing.assert_array_equal(out[:5, :7], data[:, :7])
    assert (out[5:] == -1).all() and (out[:, 7:] == -1).all()


@pytest.mark.parametrize("padding", list(PaddingValue))
@pytest.mark.parametrize("type_, dtype", [(f32, np.float32), (f16, np.float16)], ids=["f32", "f16"])
def test_overhanging_load_reads_the_padding_value(padding, type_, dtype):
    expected = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}
    data = np.array([1, 2, 3], dtype)
    out = read_through(
        lambda t: PartitionViewType((4,), t, (0,), PaddingValueAttr(padding)),
        data,
        TensorViewType(type_, (3,), (1,)),
        [0],
    )
    np.testing.assert_array_equal(out, [1, 2, 3, expected[padding.value]])
    if padding is not PaddingValue.NAN:
        assert np.signbit(out[3]) == np.signbit(expected[padding.value])


def test_dim_map_transposes():
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    out = read_through(
        lambda t: PartitionViewType((4, 2), t, (1, 0)),
        data,
        TensorViewType(f32, (4, 8), (8, 1)),
        [1, 1],
    )
    np.testing.assert_array_equal(out, data[2:4, 4:8].T)


def test_strided_view_overlaps():
    data = np.arange(16, dtype=np.float32)
    out = read_through(
        lambda t: StridedViewType((4,), (3,), t, (0,)), data, TensorViewType(f32, (16,), (1,)), [2]
    )
    assert out.tolist() == [6, 7, 8, 9]


def test_gather_view_picks_rows_from_a_column_on_and_pads_missing_ones():
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    out = read_through(
        lambda t: GatherScatterViewType((4, 2), t, 0, PaddingValueAttr(PaddingValue.NEG_INF)),
        data,
        TensorViewType(f32, (8, 4), (4, 1)),
        [[6, 0, 6, 9], 1],
    )
    np.testing.assert_array_equal(out[:3], data[[6, 0, 6], 1:3])
    assert (out[3] == -np.inf).all()


def test_index_outside_the_space_reads_padding_only():
    data = np.ones(4, np.float32)
    for index in (-1, 1):
        out = read_through(
            lambda t: PartitionViewType((4,), t, (0,)),
            data,
            TensorViewType(f32, (4,), (1,)),
            [index],
        )
        assert out.tolist() == [0] * 4


def test_broken_inbounds_promise_is_an_error():
    with pytest.raises(InterpreterError, match="load_view_tko: index 0 leaves dim 0 of size 3"):
        read_through(
            lambda t: PartitionViewType((4,), t, (0,)),
            np.ones(3, np.float32),
            TensorViewType(f32, (3,), (1,)),
            [0],
            inbounds=[1],
        )


def test_views_tell_their_shapes():
    type_ = TensorViewType(f32, (DYNAMIC, 12), (12, 1))
    kernel = Kernel(PointerType(f32), i32, PointerType(i32))
    base = tensor_view(kernel, kernel.args[0], type_, [kernel.args[1]])
    views = [
        PartitionViewType((8, 4), type_, (1, 0)),
        StridedViewType((4, 4), (3, 5), type_, (0, 1)),
        GatherScatterViewType((4, 8), type_, 0),
    ]
    sizes = kernel.add(ct.GetTensorShapeOp, [base], [[INT, INT]])
    for view_type in views:
        view = kernel.add(MAKE_VIEW[type(view_type)], [base], view_type)
        sizes += kernel.add(ct.GetIndexSpaceShapeOp, [view], [[INT, INT]])
    for position, size in enumerate(sizes):
        offset = kernel.constant(i32, position)
        kernel.store(kernel.add(ct.OffsetOp, [kernel.args[2], offset], kernel.args[2].type), size)
    out = np.zeros(8, np.int32)
    kernel.run(np.zeros(1, np.float32), 10, out)
    assert out.tolist() == [10, 12, 2, 3, 4, 3, 10, 12]


def test_four_bit_elements_lie_two_in_a_byte():
    type_ = TensorViewType(Float4E2M1FNType(), (8,), (1,))
    kernel = Kernel(PointerType(Float4E2M1FNType()), PointerType(f32))
    view = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, kernel.args[0], type_)],
        PartitionViewType((4,), type_, (0,)),
    )
    zero, one = kernel.constant(i32, 0), kernel.constant(i32, 1)
    tile = load_view(kernel, view, [zero])
    wide = kernel.add(
        ct.FToFOp,
        [tile],
        TileType(f32, (4,)),
        rounding_mode=ct.attributes.RoundingModeAttr(ct.attributes.RoundingMode.NEAREST_EVEN),
    )
    kernel.store(kernel.args[1], wide)
    store_view(kernel, tile, view, [one])
    data, out = np.array([0x21, 0xF7, 0, 0], np.uint8), np.zeros(4, np.float32)
    kernel.run(data, out)
    assert out.tolist() == [0.5, 1.0, 6.0, -6.0]
    assert data.tolist() == [0x21, 0xF7, 0x21, 0xF7]


def test_e8m0_padding_is_its_smallest_value():
    type_ = TensorViewType(Float8E8M0FNUType(), (2,), (1,))
    out = read_through(
        lambda t: PartitionViewType((4,), t, (0,)), np.array([127, 128], np.uint8), type_, [0]
    )
    assert out.tolist() == [127, 128, 0, 0]
