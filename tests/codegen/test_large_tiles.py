"""Tiles computed part by part: the same results as whole, with limits made small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, ModuleOp, f32, i32, i64

from tests.kernels.combining import IDENTITY
from tests.kernels.kernel_builder import Kernel, rounding
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.passes.nv_tileaa import slicing

Fill = Callable[[Kernel, Any], Any]
ADD = {"rounding_mode": rounding()}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Tiles of more than 512 words are split into parts of at most 128."""
    monkeypatch.setattr(slicing, "MAX_WORDS", 512)
    monkeypatch.setattr(slicing, "PART_WORDS", 128)


def reduced(
    kernel: Kernel, tile: Any, shape: Sequence[int], dim: int, op: Any, element: Any
) -> Any:
    """A reduction by addition or maximum."""
    scalar = TileType(element)
    properties = ADD if op is ct.AddFOp else {}

    def body(a: Any, b: Any) -> None:
        kernel.add(ct.YieldOp, [[kernel.add(op, [a, b], scalar, **properties)]])

    left = [size for axis, size in enumerate(shape) if axis != dim]
    result = kernel.add(
        ct.ReduceOp,
        [[tile]],
        [[TileType(element, left)]],
        [kernel.region([scalar, scalar], body)],
        dim=IntegerAttr(dim, i32),
        identities=ArrayAttr([IDENTITY[element]]),
    )
    return result[0] if isinstance(result, list) else result


def pointer_kernel(shape: Sequence[int], fill: Fill, element: Any = f32) -> Kernel:
    """Loads a tile, fills in what is computed, stores that."""
    kernel = Kernel(PointerType(element), PointerType(element))
    kernel.store(kernel.args[1], fill(kernel, kernel.load(kernel.args[0], shape)))
    kernel.add(ct.ReturnOp, [[]])
    return kernel


def loops(module: ModuleOp) -> int:
    """Backward branches of a lowered module."""
    count = 0
    for op in module.walk():
        if op.name == "llvm.func":
            blocks = list(op.regions[0].blocks)
            place = {block: index for index, block in enumerate(blocks)}
            for block in blocks:
                last = block.last_op
                assert last is not None
                count += sum(place[target] <= place[block] for target in last.successors)
    return count


def check(kernel: Kernel, data: np.ndarray, shape: Sequence[int], expected_loops: int) -> None:
    """Interpreter and simulation agree, and the kernel has so many loops."""
    wanted = np.zeros(shape, data.dtype)
    kernel.run(data.copy(), wanted)
    module = lower_to_llvm(kernel.module)
    found = np.full(shape, -1, data.dtype)
    run_lowered(module, [data.copy(), found])
    np.testing.assert_array_equal(found, wanted)
    assert loops(module) == expected_loops


def numbers(*shape: int) -> np.ndarray:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(7).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "expected_loops"), [((2048,), 1), ((32, 64), 1), ((8, 8, 32), 1), ((2, 1024), 2)]
)
def test_elementwise_chain(shape, expected_loops):
    def fill(kernel, tile):
        double = kernel.add(ct.AddFOp, [tile, tile], TileType(f32, shape), **ADD)
        limit = kernel.constant(f32, 3.0, shape)
        return kernel.add(ct.MaxFOp, [double, limit], TileType(f32, shape))

    check(pointer_kernel(shape, fill), numbers(*shape), shape, expected_loops)


def test_tile_that_fits_stays_whole():
    check(pointer_kernel((512,), lambda kernel, tile: tile), numbers(512), (512,), 0)


@pytest.mark.parametrize(("dim", "count"), [(0, 1), (1, 1)])
def test_reduction_within_a_part(dim, count):
    shape = (64, 64)
    kernel = pointer_kernel(
        shape, lambda kernel, tile: reduced(kernel, tile, shape, dim, ct.AddFOp, f32)
    )
    check(kernel, numbers(*shape), (64,), count)


def test_reduction_across_parts():
    kernel = pointer_kernel(
        (4096,),
        lambda kernel, tile: kernel.add(
            ct.ReshapeOp, [reduced(kernel, tile, (4096,), 0, ct.AddFOp, f32)], TileType(f32, (1,))
        ),
    )
    check(kernel, numbers(4096), (1,), 1)


def test_rows_of_a_softmax_are_read_again_for_each_pass():
    shape = (1, 4096)

    def fill(kernel, tile):
        type_ = TileType(f32, shape)
        top = reduced(kernel, tile, shape, 1, ct.MaxFOp, f32)
        top = kernel.add(ct.ReshapeOp, [top], TileType(f32, (1, 1)))
        top = kernel.add(ct.BroadcastOp, [top], type_)
        moved = kernel.add(ct.SubFOp, [tile, top], type_, **ADD)
        total = reduced(kernel, moved, shape, 1, ct.AddFOp, f32)
        total = kernel.add(ct.ReshapeOp, [total], TileType(f32, (1, 1)))
        total = kernel.add(ct.BroadcastOp, [total], type_)
        return kernel.add(ct.SubFOp, [moved, total], type_, **ADD)

    check(pointer_kernel(shape, fill), numbers(*shape), shape, 3)


def test_cut_that_only_one_side_can_make_is_not_made():
    permutation = DenseArrayBase.from_list(i32, [1, 0])

    def fill(kernel, tile):
        return kernel.add(ct.PermuteOp, [tile], TileType(f32, (32, 64)), permutation=permutation)

    check(pointer_kernel((64, 32), fill), numbers(64, 32), (32, 64), 0)


def scanned(kernel: Kernel, tile: Any, shape: Sequence[int], dim: int) -> Any:
    """Running sums along a dim."""
    scalar = TileType(f32)

    def body(a: Any, b: Any) -> None:
        kernel.add(ct.YieldOp, [[kernel.add(ct.AddFOp, [a, b], scalar, **ADD)]])

    result = kernel.add(
        ct.ScanOp,
        [[tile]],
        [[TileType(f32, shape)]],
        [kernel.region([scalar, scalar], body)],
        dim=IntegerAttr(dim, i32),
        reverse=IntegerAttr(0, 1),
        identities=ArrayAttr([IDENTITY[f32]]),
    )
    return result[0] if isinstance(result, list) else result


@pytest.mark.parametrize(
    ("shape", "dim", "expected_loops"), [((1024,), 0, 0), ((32, 64), 1, 1), ((1, 1024), 1, 0)]
)
def test_scan_is_cut_across_its_dim_only(shape, dim, expected_loops):
    kernel = pointer_kernel(shape, lambda kernel, tile: scanned(kernel, tile, shape, dim))
    check(kernel, numbers(*shape), shape, expected_loops)


def test_concatenation_and_slice_are_cut_along_other_dims():
    shape = (64, 16)

    def fill(kernel, tile):
        type_ = TileType(f32, (64, 32))
        both = kernel.add(ct.CatOp, [tile, tile], type_, dim=IntegerAttr(1, i64))
        zero, one = kernel.constant(i32, 0), kernel.constant(i32, 1)
        return kernel.add(ct.ExtractOp, [both, [zero, one]], TileType(f32, shape))

    check(pointer_kernel(shape, fill), numbers(*shape), shape, 1)


VIEWS = """
cuda_tile.module @m {{
  entry @kernel(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ta = make_tensor_view %a, shape = [60, 70], strides = [70, 1]
        : tensor_view<60x70xf32, strides=[70,1]>
    %tb = make_tensor_view %b, shape = [60, 70], strides = [70, 1]
        : tensor_view<60x70xf32, strides=[70,1]>
    %va = make_partition_view %ta
        : partition_view<tile=(32x64), tensor_view<60x70xf32, strides=[70,1]>>
    %vb = make_partition_view %tb
        : partition_view<tile=(32x64), tensor_view<60x70xf32, strides=[70,1]>>
    %x, %tx = load_view_tko weak %va[%one, %zero] token = %t
        : partition_view<tile=(32x64), tensor_view<60x70xf32, strides=[70,1]>>, tile<i32>
          -> tile<32x64xf32>, token
    %y = addf %x, %x : tile<32x64xf32>
    %s = store_view_tko weak %y, %{target}[%one, %zero] token = %{order}
        : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<60x70xf32, strides=[70,1]>>,
          tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("target", "order", "expected_loops"),
    [("vb", "t", 1), ("va", "tx", 1), ("vb", "tx", 0)],
    ids=["unordered", "in_place", "ordered_elsewhere"],
)
def test_views_with_borders_and_token_order(target, order, expected_loops):
    check_text(VIEWS.format(target=target, order=order), expected_loops)


def check_text(text: str, expected_loops: int) -> None:
    """Runs a kernel from one 60x70 array to another."""
    data = np.random.default_rng(3).integers(-8, 9, (60, 70)).astype(np.float32)
    wanted = [data.copy(), np.zeros((60, 70), np.float32)]
    run_entry(parse_text(text, "kernel.mlir"), "kernel", wanted, (1, 1, 1))
    module = lower_to_llvm(parse_text(text, "kernel.mlir"))
    found = [data.copy(), np.zeros((60, 70), np.float32)]
    run_lowered(module, found)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    assert loops(module) == expected_loops


TRANSPOSE = """
cuda_tile.module @m {
  entry @kernel(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %ta = make_tensor_view %a, shape = [60, 70], strides = [70, 1]
        : tensor_view<60x70xf32, strides=[70,1]>
    %tb = make_tensor_view %b, shape = [70, 60], strides = [60, 1]
        : tensor_view<70x60xf32, strides=[60,1]>
    %va = make_partition_view %ta
        : partition_view<tile=(64x64), tensor_view<60x70xf32, strides=[70,1]>>
    %vb = make_partition_view %tb
        : partition_view<tile=(64x64), tensor_view<70x60xf32, strides=[60,1]>>
    %x, %tx = load_view_tko weak %va[%zero, %zero] token = %t
        : partition_view<tile=(64x64), tensor_view<60x70xf32, strides=[70,1]>>, tile<i32>
          -> tile<64x64xf32>, token
    %y = permute %x [1, 0] : tile<64x64xf32> -> tile<64x64xf32>
    %s = store_view_tko weak %y, %vb[%zero, %zero] token = %t
        : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<70x60xf32, strides=[60,1]>>,
          tile<i32> -> token
    return
  }
}
"""


def test_transpose():
    check_text(TRANSPOSE, 1)


def test_transpose_in_place_is_left_whole():
    text = TRANSPOSE.replace("%vb[", "%va[").replace(
        "token = %t\n        : tile", "token = %tx\n        : tile"
    )
    text = text.replace(
        "tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<70x60xf32, strides=[60,1]>>",
        "tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<60x70xf32, strides=[70,1]>>",
    )
    check_text(text, 0)
