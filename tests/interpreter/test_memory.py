"""Pointers, globals, allocas, printing; and accesses that are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    FloatTF32Type,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    f32,
    i1,
    i8,
    i32,
    i64,
)

from tests.kernels.kernel_builder import WEAK, Kernel
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    SymbolVisibility,
    SymbolVisibilityAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    PointerType,
    TileType,
)
from tileiras.interpreter import InterpreterError, SimulatedMemory


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
