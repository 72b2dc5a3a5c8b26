"""Atomics: simulation agrees with the interpreter, PTX is accepted by ptxas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, NoneAttr, bf16, f16, f32, f64, i1, i32, i64

from tests.kernels.kernel_builder import DEVICE, NO_OVERFLOW, RELAXED, Kernel, flags
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.thread_programs import OPTIONS
from tests.kernels.view_kernels import tensor_view
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    DivByAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
)
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)
from tileiras.interpreter.formats import format_of

MODES = [
    *((mode, type_) for mode in ("and", "or", "xor", "add", "max", "min") for type_ in (i32, i64)),
    *((mode, type_) for mode in ("umax", "umin") for type_ in (i32, i64)),
    *(("addf", type_) for type_ in (f16, bf16, f32, f64)),
    *(("xchg", type_) for type_ in (i32, f32, i64, f64)),
]


def rmw_kernel(
    type_: Any,
    shape: Sequence[int],
    mode: str,
    *,
    masked: bool = False,
    used: bool = True,
    ordering: MemoryOrdering = MemoryOrdering.RELAXED,
) -> Kernel:
    """`kernel(memory, arguments, mask, old)`: one read-modify-write of a tile."""
    kernel = Kernel(PointerType(type_), PointerType(type_), PointerType(i1), PointerType(type_))
    memory, arguments, mask, old = kernel.args
    value = kernel.load(arguments, shape)
    guard = [kernel.load(mask, shape)] if masked else []
    address = kernel.addresses(memory, shape)
    result = kernel.add(
        ct.AtomicRMWTkoOp,
        [address, value, guard, []],
        [TileType(type_, shape), TOKEN],
        memory_ordering_semantics=MemoryOrderingAttr(ordering),
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(AtomicRMWMode(mode)),
    )[0]
    if used:
        kernel.store(old, result)
    return kernel


def random_bits(type_: Any, shape: Sequence[int], seed: int) -> np.ndarray:
    """Elements as memory holds them; floats are small numbers."""
    generator = np.random.default_rng(seed)
    fmt = format_of(type_)
    if type_ in (f16, bf16, f32, f64):
        values = generator.integers(-8, 8, shape).astype(fmt.dtype)
        return np.asarray(values).view(fmt.storage)
    return generator.integers(0, 2**32, shape, dtype=np.uint64).astype(fmt.storage)


def check(kernel: Kernel, arrays: Sequence[np.ndarray], arch: str = "sm_90") -> str:
    """Runs interpreter and simulation; compares all memory."""
    wanted = [np.array(array) for array in arrays]
    kernel.run(*wanted)
    module = lower_to_llvm(kernel.module, arch)
    found = [np.array(array) for array in arrays]
    run_lowered(module, found)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    text = print_module(module, get_target(arch), OPTIONS)
    ptx = llvm_ir_to_ptx(text, get_target(arch), OPTIONS)
    ptx_to_cubin(ptx, get_target(arch), OPTIONS)
    return ptx


def operands(type_: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """Memory, arguments, mask, and where old values go."""
    mask = np.random.default_rng(5).integers(0, 2, shape).astype(np.uint8)
    memory, arguments = (random_bits(type_, shape, seed) for seed in (1, 2))
    return [memory, arguments, mask, np.zeros_like(memory)]


@pytest.mark.parametrize(("mode", "type_"), MODES)
def test_every_mode_of_a_tile(mode, type_):
    check(rmw_kernel(type_, (64,), mode), operands(type_, (64,)))


@pytest.mark.parametrize("shape", [(), (1,), (8,), (1024,), (16, 32)])
@pytest.mark.parametrize("masked", [False, True])
def test_shapes_and_masks(shape, masked):
    check(rmw_kernel(i32, shape, "add", masked=masked), operands(i32, shape))


@pytest.mark.parametrize("ordering", ["relaxed", "acquire", "release", "acq_rel"])
def test_orderings(ordering):
    kernel = rmw_kernel(i32, (), "add", ordering=MemoryOrdering(ordering))
    ptx = check(kernel, operands(i32, ()))
    assert f"atom.{ordering}.gpu.global.add.u32" in ptx


def test_unused_result_of_a_relaxed_atomic_is_a_red():
    ptx = check(rmw_kernel(f32, (128,), "addf", used=False, masked=True), operands(f32, (128,)))
    assert "red.relaxed.gpu.global.add.f32" in ptx and "atom." not in ptx


@pytest.mark.parametrize("used", [True, False])
def test_addition_of_bf16_is_a_compare_and_swap_loop_before_hopper(used: bool):
    kernel = rmw_kernel(bf16, (4,), "addf", used=used)
    kernel.add(ct.ReturnOp, [[]])
    text = str(lower_to_llvm(kernel.module, "sm_89"))
    assert "fma.rn.bf16 sum, found, one" in text
    assert ".gpu.global.cas.b16 old, [" in text
    assert "add.noftz.bf16" not in text
    if used:
        assert "mov.b16 $0, old" in text
    else:
        assert "mov.b16 $0" not in text


def test_tile_block_scope():
    kernel = Kernel(PointerType(i32))
    one = kernel.constant(i32, 1)
    kernel.add(
        ct.AtomicRMWTkoOp,
        [kernel.args[0], one, [], []],
        [TileType(i32), TOKEN],
        memory_ordering_semantics=RELAXED,
        memory_scope=MemoryScopeAttr(MemoryScope.TL_BLK),
        mode=AtomicRMWModeAttr(AtomicRMWMode.ADD),
    )
    assert "red.relaxed.cta.global.add.u32" in check(kernel, [np.zeros(1, np.int32)])


@pytest.mark.parametrize("type_", [i32, i64, f32, f64])
@pytest.mark.parametrize("shape", [(), (64,), (512,)])
@pytest.mark.parametrize("masked", [False, True])
def test_compare_and_swap(type_, shape, masked):
    pointer = PointerType(type_)
    kernel = Kernel(pointer, pointer, pointer, PointerType(i1), pointer)
    memory, expected, new, mask, old = kernel.args
    guard = [kernel.load(mask, shape)] if masked else []
    result = kernel.add(
        ct.AtomicCASTkoOp,
        [
            kernel.addresses(memory, shape),
            kernel.load(expected, shape),
            kernel.load(new, shape),
            guard,
            [],
        ],
        [TileType(type_, shape), TOKEN],
        memory_ordering_semantics=MemoryOrderingAttr(MemoryOrdering.ACQ_REL),
        memory_scope=DEVICE,
    )[0]
    kernel.store(old, result)
    before, arguments, on, room = operands(type_, shape)
    matching = np.where(np.random.default_rng(9).integers(0, 2, shape) == 1, before, arguments)
    check(kernel, [before, np.asarray(matching, before.dtype), arguments, on, room])


def test_every_element_counts_once():
    """All elements of a tile that lies in every thread several times go to one address."""
    kernel = Kernel(PointerType(i32))
    shape = (16,)
    zero = kernel.constant(i32, 0, shape)
    one = kernel.add(ct.ReshapeOp, [kernel.args[0]], TileType(PointerType(i32), (1,)))
    many = kernel.add(ct.BroadcastOp, [one], TileType(PointerType(i32), shape))
    address = kernel.add(ct.OffsetOp, [many, zero], TileType(PointerType(i32), shape))
    kernel.add(
        ct.AtomicRMWTkoOp,
        [address, kernel.constant(i32, 1, shape), [], []],
        [TileType(i32, shape), TOKEN],
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(AtomicRMWMode.ADD),
    )
    counter = np.zeros(1, np.int32)
    kernel.add(ct.ReturnOp, [[]])
    run_lowered(lower_to_llvm(kernel.module), [counter])
    assert counter[0] == 16


def test_all_threads_learn_the_old_value():
    """A tile of one element decides which way all threads of a tile block go."""
    kernel = Kernel(PointerType(i32), PointerType(i32))
    old = kernel.add(
        ct.AtomicRMWTkoOp,
        [kernel.addresses(kernel.args[0], (1,)), kernel.constant(i32, 1, (1,)), [], []],
        [TileType(i32, (1,)), TOKEN],
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(AtomicRMWMode.ADD),
    )[0]
    scalar = kernel.add(ct.ReshapeOp, [old], TileType(i32))
    is_odd = kernel.add(ct.TruncIOp, [scalar], TileType(i1), overflow=NO_OVERFLOW)
    yes = kernel.region([], lambda: _store_and_yield(kernel, 7))
    no = kernel.region([], lambda: _store_and_yield(kernel, 9))
    kernel.add(ct.IfOp, [is_odd], [[]], [yes, no])
    check(kernel, [np.array([5], np.int32), np.zeros(1024, np.int32)])


def _store_and_yield(kernel: Kernel, value: int) -> None:
    """Fills the second argument."""
    kernel.store(kernel.args[1], kernel.constant(i32, value, (1024,)))
    kernel.add(ct.YieldOp, [[]])


@pytest.mark.parametrize(("type_", "mode"), [(f32, "addf"), (f16, "addf"), (i32, "max")])
@pytest.mark.parametrize("index", [(0, 0), (1, 1), (2, 0)])
def test_reduction_into_a_view_stops_at_its_bounds(type_, mode, index):
    kernel = Kernel(PointerType(type_), PointerType(type_))
    memory, arguments = kernel.args
    view = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, memory, TensorViewType(type_, (20, 24), (24, 1)))],
        PartitionViewType((8, 16), TensorViewType(type_, (20, 24), (24, 1)), (0, 1)),
    )
    kernel.add(
        ct.AtomicRedViewTkoOp,
        [view, [kernel.constant(i32, i) for i in index], kernel.load(arguments, (8, 16)), []],
        TOKEN,
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(AtomicRMWMode(mode)),
        inbounds=flags([0, 0]),
    )
    check(kernel, [random_bits(type_, (20, 24), 1), random_bits(type_, (8, 16), 2)])


@pytest.mark.parametrize(
    ("type_", "mode", "arch", "instruction"),
    [
        (f32, "addf", "sm_90", "red.relaxed.gpu.global.add.v4.f32"),
        (f16, "addf", "sm_90", "red.relaxed.gpu.global.add.noftz.v4.f16x2"),
        (bf16, "addf", "sm_90", "red.relaxed.gpu.global.add.noftz.v4.bf16x2"),
        (f32, "addf", "sm_80", "red.relaxed.gpu.global.add.f32"),
        (i32, "add", "sm_90", "red.relaxed.gpu.global.add.u32"),
        (f64, "addf", "sm_90", "red.relaxed.gpu.global.add.f64"),
    ],
)
@pytest.mark.parametrize("index", [(0, 0), (2, 1)])
def test_reduction_of_neighbours_is_one_instruction(type_, mode, arch, instruction, index):
    sizes, tile = (80, 96), (32, 64)
    kernel = Kernel(PointerType(type_), PointerType(type_))
    promise = DivByAttr(IntAttr(16), NoneAttr(), NoneAttr())
    memory, arguments = (
        kernel.add(ct.AssumeOp, [pointer], pointer.type, predicate=promise)
        for pointer in kernel.args
    )
    tensor = TensorViewType(type_, sizes, (sizes[1], 1))
    view = kernel.add(
        ct.MakePartitionViewOp,
        [tensor_view(kernel, memory, tensor)],
        PartitionViewType(tile, tensor, (0, 1)),
    )
    kernel.add(
        ct.AtomicRedViewTkoOp,
        [view, [kernel.constant(i32, i) for i in index], kernel.load(arguments, tile), []],
        TOKEN,
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(AtomicRMWMode(mode)),
        inbounds=flags([0, 0]),
    )
    ptx = check(kernel, [random_bits(type_, sizes, 1), random_bits(type_, tile, 2)], arch)
    assert f"{instruction} [" in ptx
