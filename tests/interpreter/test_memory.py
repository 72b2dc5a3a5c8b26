"""Pointers, views, atomics, globals, printing; and accesses that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E8M0FNUType,
    FloatTF32Type,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MultimemReductionKind,
    MultimemReductionKindAttr,
    PaddingValue,
    PaddingValueAttr,
    SymbolVisibility,
    SymbolVisibilityAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from tileiras.interpreter import InterpreterError, SimulatedMemory

from .kernels import DEVICE, RELAXED, WEAK, Kernel, flags

INT = TileType(i32)
MAKE_VIEW = {
    PartitionViewType: ct.MakePartitionViewOp,
    StridedViewType: ct.MakeStridedViewOp,
    GatherScatterViewType: ct.MakeGatherScatterViewOp,
}


def tensor_view(kernel: Kernel, pointer: Any, type_: TensorViewType, sizes: Any = ()) -> Any:
    """A tensor view; dynamic sizes come first, dynamic strides after them."""
    count = type_.shape.count(DYNAMIC)
    return kernel.add(ct.MakeTensorViewOp, [pointer, sizes[:count], sizes[count:]], type_)


def load_view(kernel: Kernel, view: Any, index: Any, inbounds: Any = None) -> Any:
    """The tile that a view holds at an index."""
    return kernel.add(
        ct.LoadViewTkoOp,
        [view, index, []],
        [view.type.tile_type, TOKEN],
        memory_ordering_semantics=WEAK,
        inbounds=flags(inbounds or [0] * len(index)),
    )[0]


def store_view(kernel: Kernel, tile: Any, view: Any, index: Any) -> None:
    """Stores a tile through a view."""
    kernel.add(
        ct.StoreViewTkoOp,
        [tile, view, index, []],
        TOKEN,
        memory_ordering_semantics=WEAK,
        inbounds=flags([0] * len(index)),
    )


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


def test_gather_view_picks_rows_and_pads_missing_ones():
    data = np.arange(32, dtype=np.float32).reshape(8, 4)
    out = read_through(
        lambda t: GatherScatterViewType((4, 2), t, 0, PaddingValueAttr(PaddingValue.NEG_INF)),
        data,
        TensorViewType(f32, (8, 4), (4, 1)),
        [[6, 0, 6, 9], 1],
    )
    np.testing.assert_array_equal(out[:3], data[[6, 0, 6], 2:4])
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
    assert out.tolist() == [10, 12, 2, 3, 4, 3, 10, 2]


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


def test_booleans_are_bytes_and_nonzero_is_true():
    kernel = Kernel(PointerType(i1))
    kernel.store(kernel.args[0], kernel.load(kernel.args[0], (4,)))
    data = np.array([0, 1, 2, 255], np.uint8)
    kernel.run(data)
    assert data.tolist() == [0, 1, 1, 1]


def test_tf32_loads_cut_the_extra_bits():
    kernel = Kernel(PointerType(FloatTF32Type()))
    kernel.store(kernel.args[0], kernel.load(kernel.args[0], (2,)))
    data = np.array([1 + 2**-10 + 2**-12, -1.0], np.float32)
    kernel.run(data)
    assert data.tolist() == [1 + 2**-10, -1.0]


def masked_kernel(with_padding: bool) -> Kernel:
    """Loads under a mask, stores the result under the same mask plus everything elsewhere."""
    kernel = Kernel(PointerType(f32), PointerType(i1), PointerType(f32), PointerType(f32))
    mask = kernel.load(kernel.args[1], (4,))
    padding = [kernel.constant(f32, 9.0, (4,))] if with_padding else []
    tile = kernel.add(
        ct.LoadPtrTkoOp,
        [kernel.addresses(kernel.args[0], (4,)), [mask], padding, []],
        [TileType(f32, (4,)), TOKEN],
        memory_ordering_semantics=WEAK,
    )[0]
    kernel.store(kernel.args[2], tile)
    kernel.add(
        ct.StorePtrTkoOp,
        [kernel.addresses(kernel.args[3], (4,)), tile, [mask], []],
        TOKEN,
        memory_ordering_semantics=WEAK,
    )
    return kernel


@pytest.mark.parametrize("with_padding, other", [(True, 9.0), (False, 0.0)])
def test_masked_elements_are_neither_read_nor_written(with_padding, other):
    """The source is shorter than the tile: only the mask keeps the access in bounds."""
    source = np.array([1, 2], np.float32)
    everything, masked = np.zeros(4, np.float32), np.full(4, -1, np.float32)
    masked_kernel(with_padding).run(source, np.array([1, 1, 0, 0], np.uint8), everything, masked)
    assert everything.tolist() == [1, 2, other, other]
    assert masked.tolist() == [1, 2, -1, -1]


def test_access_out_of_bounds_names_op_place_and_allocation():
    kernel = Kernel(PointerType(f32))
    kernel.load(kernel.args[0], (8,))
    with pytest.raises(InterpreterError) as caught:
        kernel.run(np.zeros(6, np.float32))
    message = caught.value.render()
    assert message.startswith('loc("kernel.py":')
    assert "load_ptr_tko: access of 4 bytes at address" in message
    assert "is out of bounds: byte 24 of an allocation of 24 bytes" in message


def test_null_and_wild_pointers_are_out_of_bounds():
    for address in (0, 1 << 40, -8):
        kernel = Kernel(PointerType(f32))
        kernel.load(kernel.args[0], ())
        with pytest.raises(InterpreterError, match="out of bounds"):
            kernel.run(address, memory=memory_with_a_page())


def memory_with_a_page() -> SimulatedMemory:
    """A memory in which something is allocated."""
    memory = SimulatedMemory()
    memory.allocate(4096)
    return memory


def test_pointers_are_loaded_from_a_table_in_memory():
    memory = SimulatedMemory()
    inner = memory.upload(np.array([7.0, 8.0], np.float32))
    table = memory.upload(np.array([inner.address], np.int64))
    kernel = Kernel(PointerType(i64), PointerType(f32))
    number = kernel.load(kernel.args[0], ())
    pointer = kernel.add(ct.IntToPtrOp, [number], TileType(PointerType(f32)))
    kernel.store(kernel.args[1], kernel.load(pointer, (2,)))
    out = np.zeros(2, np.float32)
    kernel.run(table, out, memory=memory)
    assert out.tolist() == [7, 8]


def test_unaligned_access_works():
    kernel = Kernel(PointerType(i8))
    one = kernel.constant(i32, 1)
    moved = kernel.add(ct.OffsetOp, [kernel.args[0], one], kernel.args[0].type)
    wide = kernel.add(ct.PtrToPtrOp, [moved], TileType(PointerType(i32)))
    tile = kernel.load(wide, (2,))
    kernel.store(wide, kernel.add(ct.XOrIOp, [tile, kernel.constant(i32, -1, (2,))], tile.type))
    data = np.arange(12, dtype=np.uint8)
    kernel.run(data)
    assert data.tolist() == [0] + [255 - x for x in range(1, 9)] + [9, 10, 11]


def test_overlapping_and_strided_arguments_alias():
    base = np.arange(12, dtype=np.float32)
    kernel = Kernel(PointerType(f32), PointerType(f32))
    kernel.store(kernel.args[0], kernel.constant(f32, -1.0, (2,)))
    kernel.store(kernel.args[1], kernel.load(kernel.args[0], (4,)))
    kernel.run(base[2:8:3], base[5:])
    assert base.tolist() == [0, 1, -1, -1, 4, -1, -1, 4, 5, 9, 10, 11]


RMW = {
    AtomicRMWMode.AND: np.bitwise_and,
    AtomicRMWMode.OR: np.bitwise_or,
    AtomicRMWMode.XOR: np.bitwise_xor,
    AtomicRMWMode.ADD: np.add,
    AtomicRMWMode.MAX: np.maximum,
    AtomicRMWMode.MIN: np.minimum,
    AtomicRMWMode.UMAX: lambda a, b: np.maximum(a.view("u4"), b.view("u4")).view("i4"),
    AtomicRMWMode.UMIN: lambda a, b: np.minimum(a.view("u4"), b.view("u4")).view("i4"),
    AtomicRMWMode.XCHG: lambda a, b: b,
}


def rmw_kernel(type_: Any, mode: AtomicRMWMode, spread: bool = True) -> Kernel:
    """Atomics on four elements, or four times on the first one."""
    kernel = Kernel(PointerType(type_), PointerType(type_), PointerType(type_), PointerType(i1))
    if spread:
        pointers = kernel.addresses(kernel.args[0], (4,))
    else:
        one = kernel.add(ct.ReshapeOp, [kernel.args[0]], TileType(PointerType(type_), (1,)))
        pointers = kernel.add(ct.BroadcastOp, [one], TileType(PointerType(type_), (4,)))
    tile = TileType(type_, (4,))
    old, _ = kernel.add(
        ct.AtomicRMWTkoOp,
        [pointers, kernel.load(kernel.args[1], (4,)), [kernel.load(kernel.args[3], (4,))], []],
        [tile, TOKEN],
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(mode),
    )
    kernel.store(kernel.args[2], old)
    return kernel


@pytest.mark.parametrize("mode", RMW, ids=lambda mode: mode.value)
def test_atomic_rmw_returns_old_values_under_its_mask(mode):
    data = np.array([12, -7, 5, 100], np.int32)
    argument = np.array([10, 3, -1, 50], np.int32)
    mask = np.array([1, 1, 1, 0], np.uint8)
    before, old = data.copy(), np.zeros(4, np.int32)
    rmw_kernel(i32, mode).run(data, argument, old, mask)
    expected = np.where(mask, RMW[mode](before, argument), before)
    assert data.tolist() == expected.tolist()
    assert old[:3].tolist() == before[:3].tolist()


@pytest.mark.parametrize("type_, dtype", [(f16, np.float16), (f32, np.float32), (f64, np.float64)])
def test_atomics_on_one_address_act_in_order(type_, dtype):
    data, old = np.array([1], dtype), np.zeros(4, dtype)
    argument = np.array([1, 2, 3, 4], dtype)
    rmw_kernel(type_, AtomicRMWMode.ADDF, spread=False).run(
        data, argument, old, np.ones(4, np.uint8)
    )
    assert data.tolist() == [11]
    assert old.tolist() == [1, 2, 4, 7]


def test_compare_and_swap_swaps_equal_bits_only():
    kernel = Kernel(PointerType(i64), PointerType(i64))
    tile = TileType(i64, (4,))
    mask = kernel.constant(i1, [1, 1, 1, 0], (4,))
    old, _ = kernel.add(
        ct.AtomicCASTkoOp,
        [
            kernel.addresses(kernel.args[0], (4,)),
            kernel.constant(i64, 5, (4,)),
            kernel.constant(i64, 9, (4,)),
            [mask],
            [],
        ],
        [tile, TOKEN],
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
    )
    kernel.store(kernel.args[1], old)
    data, seen = np.array([5, 6, 5, 5]), np.zeros(4, np.int64)
    kernel.run(data, seen)
    assert data.tolist() == [9, 6, 9, 5]
    assert seen.tolist() == [5, 6, 5, 5]


def test_atomic_reduction_and_multimem_through_views():
    type_ = TensorViewType(f32, (6,), (1,))
    kernel = Kernel(PointerType(f32), PointerType(f32))
    view = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, kernel.args[0], type_)],
        PartitionViewType((4,), type_, (0,)),
    )
    one = kernel.constant(i32, 1)
    ten = kernel.constant(f32, 10.0, (4,))
    common = {"memory_ordering_semantics": RELAXED, "inbounds": flags([0])}
    add_float = AtomicRMWModeAttr(AtomicRMWMode.ADDF)
    kernel.add(
        ct.AtomicRedViewTkoOp,
        [view, [one], ten, []],
        TOKEN,
        memory_scope=DEVICE,
        mode=add_float,
        **common,
    )
    plus = MultimemReductionKindAttr(MultimemReductionKind.ADD)
    kernel.add(
        ct.MultimemReduceViewTkoOp,
        [view, ten, [one], []],
        TOKEN,
        memory_scope=DEVICE,
        reduction=plus,
        **common,
    )
    tile, _ = kernel.add(
        ct.MultimemLoadReduceViewTkoOp,
        [view, [one], []],
        [TileType(f32, (4,)), TOKEN],
        reduction=plus,
        **common,
    )
    kernel.store(kernel.args[1], tile)
    zero = kernel.constant(i32, 0)
    kernel.add(ct.MultimemStoreViewTkoOp, [view, ten, [zero], []], TOKEN, **common)
    data, out = np.arange(6, dtype=np.float32), np.zeros(4, np.float32)
    kernel.run(data, out)
    assert out.tolist() == [24, 25, 0, 0]
    assert data.tolist() == [10, 10, 10, 10, 24, 25]


def test_globals_are_initialised_shared_and_writable():
    kernel = Kernel(PointerType(i32))
    initial = DenseAttr(TileType(i32, (2,)), np.array([3, 4], np.int32).tobytes())
    kernel.body.block.insert_op_before(
        ct.GlobalOp.build(
            properties={
                "sym_name": StringAttr("counter"),
                "value": initial,
                "alignment": IntegerAttr(64, i64),
                "symbol_visibility": SymbolVisibilityAttr(SymbolVisibility.PUBLIC),
            }
        ),
        kernel.entry,
    )
    pointer = kernel.add(
        ct.GetGlobalOp, [], TileType(PointerType(i32)), name=SymbolRefAttr("counter")
    )
    tile = kernel.load(pointer, (2,))
    doubled = kernel.add(
        ct.ShLIOp,
        [tile, kernel.constant(i32, 1, (2,))],
        tile.type,
        overflow=(ct.attributes.IntegerOverflowAttr(ct.attributes.IntegerOverflow.NONE)),
    )
    kernel.store(pointer, doubled)
    kernel.store(kernel.args[0], doubled)
    out = np.zeros(2, np.int32)
    kernel.run(out, grid=(3, 1, 1))
    assert out.tolist() == [24, 32]


def test_alloca_is_scratch_memory_of_its_block():
    kernel = Kernel(PointerType(f32))
    pointer = kernel.add(
        ct.AllocaOp,
        [],
        TileType(PointerType(f32)),
        num_elem=IntegerAttr(4, i64),
        alignment=IntegerAttr(16, i64),
    )
    kernel.store(pointer, kernel.constant(f32, [1, 2, 3, 4], (4,)))
    kernel.store(kernel.args[0], kernel.load(pointer, (4,)))
    out = np.zeros(4, np.float32)
    kernel.run(out)
    assert out.tolist() == [1, 2, 3, 4]


def test_tokens_and_fences_order_nothing():
    kernel = Kernel(PointerType(f32))
    first = kernel.add(ct.MakeTokenOp, [], TOKEN)
    second = kernel.add(ct.GdcWaitTkoOp, [[first]], TOKEN)
    third = kernel.add(ct.GdcLaunchDependentsTkoOp, [[second]], TOKEN)
    joined = kernel.add(ct.JoinTokensOp, [[first, third]], TOKEN)
    fence = kernel.add(ct.MemoryFenceAliasTkoOp, [joined], TOKEN)
    kernel.add(
        ct.StorePtrTkoOp,
        [kernel.args[0], kernel.constant(f32, 2.0), [], [fence]],
        TOKEN,
        memory_ordering_semantics=WEAK,
    )
    out = np.zeros(1, np.float32)
    kernel.run(out)
    assert out[0] == 2


def test_print_formats_like_printf():
    kernel = Kernel(i32, f32)
    values = kernel.constant(i8, [-1, 2], (2,))
    kernel.add(
        ct.PrintTkoOp,
        [[kernel.args[0], kernel.args[1], values, kernel.args[0]], []],
        TOKEN,
        str=StringAttr("n=%05d x=%.2f%% v=%i u=%u\n"),
    )
    log = kernel.run(-42, 1.5)
    assert log.printed == ["n=-0042 x=1.50% v=[-1, 2] u=4294967254\n"]


def test_e8m0_padding_is_its_smallest_value():
    type_ = TensorViewType(Float8E8M0FNUType(), (2,), (1,))
    out = read_through(
        lambda t: PartitionViewType((4,), t, (0,)), np.array([127, 128], np.uint8), type_, [0]
    )
    assert out.tolist() == [127, 128, 0, 0]


@pytest.mark.parametrize(
    "args, message",
    [
        ((1,), "entry 'kernel' takes 2 arguments, got 1"),
        ((np.zeros(1, np.float32), 1), "argument 0 is memory, expected a 'i32'"),
    ],
)
def test_wrong_arguments_are_errors(args, message):
    with pytest.raises(InterpreterError, match=message):
        Kernel(i32, PointerType(f32)).run(*args)


def test_unknown_entry_lists_the_known_ones():
    kernel = Kernel(i32)
    kernel.entry.properties["sym_name"] = StringAttr("other")
    with pytest.raises(InterpreterError, match="no entry 'kernel', found: other"):
        kernel.run(1)


def test_writing_a_read_only_array_is_an_error_and_leaves_it():
    kernel = Kernel(PointerType(f32))
    kernel.store(kernel.args[0], kernel.constant(f32, 1.0))
    data = np.zeros(2, np.float32)
    data.flags.writeable = False
    with pytest.raises(InterpreterError, match="bytes of a read-only array were written"):
        kernel.run(data)
    assert data.tolist() == [0, 0]
