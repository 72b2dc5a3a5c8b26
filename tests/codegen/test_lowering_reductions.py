"""Reductions and scans: the compiled program, simulated, agrees with the interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, f32, i1, i32

from tests.kernels.combining import (
    IDENTITY,
    NO_OVERFLOW,
    Body,
    BodyMaker,
    combining_kernel,
    integer_sum,
    matrix_product,
    numbers,
)
from tests.kernels.kernel_builder import SIGNED, Kernel, rounding
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    ComparisonPredicate,
    ComparisonPredicateAttr,
)
from tileiras.dialects.cuda_tile.types import PointerType, TileType

INT, BOOL, FLOAT = TileType(i32), TileType(i1), TileType(f32)


def check(
    shape: Sequence[int],
    dim: int,
    inputs: Sequence[np.ndarray],
    types: Sequence[Any],
    body: BodyMaker,
    reverse: bool | None = None,
    arch: str = "sm_90",
    identities: Sequence[Any] = (),
) -> str:
    """Compares simulation and interpreter; returns the text of the lowered module."""
    kernel = combining_kernel(shape, dim, types, body, reverse, identities)
    kept = [s for d, s in enumerate(shape) if reverse is not None or d != dim]
    wanted = [np.zeros(kept, data.dtype) for data in inputs]
    kernel.run(*[data.copy() for data in inputs], *wanted)
    module = lower_to_llvm(kernel.module, arch)
    found = [np.full(kept, -1, data.dtype) for data in inputs]
    run_lowered(module, [*[data.copy() for data in inputs], *found])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return str(module)


def integer_max(kernel: Kernel) -> Body:
    """The larger of signed integers."""
    return lambda a, b: [kernel.add(ct.MaxIOp, [a, b], INT, signedness=SIGNED)]


def float_max(kernel: Kernel) -> Body:
    """The larger of floats."""
    return lambda a, b: [kernel.add(ct.MaxFOp, [a, b], FLOAT)]


def last(kernel: Kernel) -> Body:
    """The element with the highest coordinate."""
    return lambda later, earlier: [later]


def conditional_sum(kernel: Kernel) -> Body:
    """Keeps what is below a captured bound of 100, by a nested if."""
    bound = kernel.constant(i32, 100)

    def body(later: Any, earlier: Any) -> Sequence[Any]:
        total = kernel.add(ct.AddIOp, [later, earlier], INT, overflow=NO_OVERFLOW)
        is_small = kernel.add(
            ct.CmpIOp,
            [total, bound],
            BOOL,
            comparison_predicate=ComparisonPredicateAttr(ComparisonPredicate.LESS_THAN),
            signedness=SIGNED,
        )
        yes = kernel.region([], lambda: kernel.add(ct.YieldOp, [[total]]))
        no = kernel.region([], lambda: kernel.add(ct.YieldOp, [[bound]]))
        chosen = kernel.add(ct.IfOp, [is_small], [[INT]], [yes, no])
        return [chosen[0] if isinstance(chosen, list) else chosen]

    return body


SHAPES = [
    *(((size,), 0) for size in (1, 2, 16, 32, 128, 512, 2048)),
    *(((16, 64), dim) for dim in (0, 1)),
    *(((4, 8, 16), dim) for dim in (0, 1, 2)),
    *(((64, 64), dim) for dim in (0, 1)),
    *(((128, 2), dim) for dim in (0, 1)),
    *(((2, 1024), dim) for dim in (0, 1)),
    ((32, 1), 1),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_order_is_kept_in_a_reduction(shape, dim):
    data = [numbers(shape, 1), numbers(shape, 2)]
    check(shape, dim, data, [i32, i32], matrix_product)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_sum_of_integers(shape, dim, arch):
    check(shape, dim, [numbers(shape)], [i32], integer_sum, arch=arch)


def test_order_is_kept_in_a_tile_larger_than_shared_memory():
    data = [numbers((65536,), 1), numbers((65536,), 2)]
    one_and_zero = [IntegerAttr(1, i32), IntegerAttr(0, i32)]
    check((65536,), 0, data, [i32, i32], matrix_product, identities=one_and_zero)


@pytest.mark.parametrize(
    ("shape", "dim", "body", "operands"),
    [((64, 8, 32), 1, integer_sum, 1), ((16, 32, 64), 1, matrix_product, 2)],
)
def test_no_thread_gathers_what_all_warps_have_of_many_rows(shape, dim, body, operands):
    """No read of shared memory brings more than a thread's part of an operand."""
    data = [numbers(shape, seed) for seed in range(operands)]
    text = check(shape, dim, data, [i32] * operands, body)
    first, *others = [
        int(count) for count in re.findall(r"nvvm\.guarded_load.*-> vector<(\d+)x", text)
    ]
    assert others and max(others) <= first


def test_last_element_is_the_result():
    check((256,), 0, [numbers((256,))], [i32], last)


def test_body_with_nested_if_and_captured_value():
    data = np.abs(numbers((4, 64))) % 7
    check((4, 64), 1, [data], [i32], conditional_sum)


def test_float_maximum():
    data = np.random.default_rng(3).standard_normal((8, 128)).astype(np.float32)
    check((8, 128), 1, [data], [f32], float_max)


def test_warp_wide_integer_reduction_takes_one_instruction():
    text = check((32,), 0, [numbers((32,))], [i32], integer_max)
    assert "nvvm.redux" in text and "nvvm.shfl" not in text


def test_float_sum_takes_shuffles():
    data = np.arange(32, dtype=np.float32)

    def float_sum(kernel: Kernel) -> Body:
        return lambda a, b: [kernel.add(ct.AddFOp, [a, b], FLOAT, rounding_mode=rounding())]

    text = check((32,), 0, [data], [f32], float_sum)
    assert text.count("nvvm.shfl") == 5 and "nvvm.barrier" not in text


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_order_is_kept_in_a_scan(shape, dim, reverse):
    data = [numbers(shape, 1), numbers(shape, 2)]
    check(shape, dim, data, [i32, i32], matrix_product, reverse)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_running_maximum(arch):
    check((8, 256), 1, [numbers((8, 256))], [i32], integer_max, False, arch)


def test_scratch_memory_is_reused_only_behind_a_barrier():
    """The second iteration of a loop writes what threads of the first may still be reading."""
    shape = (1024,)
    kernel = Kernel(PointerType(i32), PointerType(i32))
    tile = kernel.load(kernel.args[0], shape)
    zero, one, three = (kernel.constant(i32, value) for value in (0, 1, 3))

    def body(counter: Any, total: Any) -> None:
        spread = kernel.add(ct.ReshapeOp, [total], TileType(i32, (1,)))
        spread = kernel.add(ct.BroadcastOp, [spread], TileType(i32, shape))
        moved = kernel.add(ct.XOrIOp, [tile, spread], TileType(i32, shape))
        fill = integer_sum(kernel)
        region = kernel.region(
            [INT, INT], lambda *pair: kernel.add(ct.YieldOp, [list(fill(*pair))])
        )
        result = kernel.add(
            ct.ReduceOp,
            [[moved]],
            [[INT]],
            [region],
            dim=IntegerAttr(0, i32),
            identities=ArrayAttr([IDENTITY[i32]]),
        )
        kernel.add(ct.ContinueOp, [[result]])

    loop = kernel.region([INT, INT], body)
    total = kernel.add(ct.ForOp, [zero, three, one, [zero]], [[INT]], [loop])
    kernel.store(kernel.args[1], total)
    data, wanted, found = numbers(shape), np.zeros((), np.int32), np.zeros((), np.int32)
    kernel.run(data.copy(), wanted)
    run_lowered(lower_to_llvm(kernel.module), [data, found])
    assert found == wanted
