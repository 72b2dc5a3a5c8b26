"""Reductions of what is scanned, too: the scan's totals agree with what the interpreter reduces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i1, i32

from tests.kernels.combining import (
    IDENTITY,
    BodyMaker,
    combining_kernel,
    integer_sum,
    matrix_product,
    numbers,
)
from tests.kernels.kernel_builder import Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType

SHAPES = [
    *(((size,), 0) for size in (1, 16, 32, 512, 2048)),
    *(((4, 8, 16), dim) for dim in (0, 1, 2)),
    *(((64, 64), dim) for dim in (0, 1)),
    *(((128, 2), dim) for dim in (0, 1)),
    *(((2, 1024), dim) for dim in (0, 1)),
]


def both_kernel(
    shape: Sequence[int], dim: int, operands: int, body: BodyMaker, reverse: bool, last: type
) -> Kernel:
    """Loads tiles of i32, scans and reduces them (`last` of the two), stores the results."""
    kernel = Kernel(*[PointerType(i32)] * (3 * operands))
    loaded = [kernel.load(arg, shape) for arg in kernel.args[:operands]]
    fill = body(kernel)
    left = [size for number, size in enumerate(shape) if number != dim]
    made: dict[type, Any] = {}
    for cls in (ct.ScanOp, ct.ReduceOp) if last is ct.ReduceOp else (ct.ReduceOp, ct.ScanOp):
        is_scan = cls is ct.ScanOp
        properties: dict[str, Any] = {
            "dim": IntegerAttr(dim, i32),
            "identities": ArrayAttr([IDENTITY[i32]] * operands),
        }
        if is_scan:
            properties["reverse"] = IntegerAttr(int(reverse), i1)
        region = kernel.region(
            [TileType(i32)] * (2 * operands),
            lambda *values: kernel.add(ct.YieldOp, [list(fill(*values))]),
        )
        types = [TileType(i32, list(shape) if is_scan else left)] * operands
        found = kernel.add(cls, [loaded], [types], [region], **properties)
        made[cls] = found if isinstance(found, list) else [found]
    results = [*made[ct.ScanOp], *made[ct.ReduceOp]]
    for pointer, result in zip(kernel.args[operands:], results, strict=True):
        kernel.store(pointer, result)
    return kernel


def check(kernel: Kernel, shape: Sequence[int], dim: int, operands: int) -> str:
    """Compares simulation and interpreter; the lowered program."""
    data = [numbers(shape, seed) for seed in range(operands)]
    left = [size for number, size in enumerate(shape) if number != dim]
    shapes = [shape] * operands + [left] * operands
    wanted = [np.zeros(each, np.int32) for each in shapes]
    kernel.run(*[each.copy() for each in data], *wanted)
    module = lower_to_llvm(kernel.module, "sm_90")
    found = [np.full(each, -1, np.int32) for each in shapes]
    run_lowered(module, [*[each.copy() for each in data], *found])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return str(module)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("last", [ct.ReduceOp, ct.ScanOp])
def test_the_last_prefix_is_the_total(shape, dim, last):
    kernel = both_kernel(shape, dim, 2, matrix_product, False, last)
    check(kernel, shape, dim, 2)


@pytest.mark.parametrize(("shape", "dim"), [((64, 64), 0), ((64, 64), 1), ((2048,), 0)])
@pytest.mark.parametrize("body", [integer_sum, matrix_product])
def test_a_reverse_scan_has_a_total_where_the_order_does_not_matter(shape, dim, body):
    operands = 1 if body is integer_sum else 2
    kernel = both_kernel(shape, dim, operands, body, True, ct.ReduceOp)
    check(kernel, shape, dim, operands)


def test_a_total_takes_one_shuffle_more():
    both = both_kernel((32,), 0, 1, integer_sum, False, ct.ReduceOp)
    alone = combining_kernel((32,), 0, [i32], integer_sum, False)
    alone.run(numbers((32,)), np.zeros(32, np.int32))
    shuffles = str(lower_to_llvm(alone.module, "sm_90")).count("nvvm.shfl")
    assert check(both, (32,), 0, 1).count("nvvm.shfl") == shuffles + 1
