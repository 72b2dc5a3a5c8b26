"""Atomic operations and the multimem ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
)

from tests.kernels.kernel_builder import DEVICE, RELAXED, Kernel, flags
from tests.kernels.view_kernels import tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    MultimemReductionKind,
    MultimemReductionKindAttr,
)
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)

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
