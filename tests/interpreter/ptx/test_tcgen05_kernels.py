"""Products by tcgen05 on the PTX machine: values against float64, races, tensor memory freed."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.kernels.gather import experts, experts_case
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import dense_case, make_case
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

KERNELS = (
    ProductKernel("f16", (128, 128, 64), whole=True),
    ProductKernel("bf16", (128, 256, 64), whole=True),
    ProductKernel("f16", (256, 128, 64), whole=True),
    ProductKernel("f16", (64, 128, 64), whole=True),
    ProductKernel("f16", (128, 32, 32), whole=True),
    ProductKernel("bf16", (128, 128, 32), a="column", b="transposed", whole=True),
    ProductKernel("f16", (128, 128, 64), a="permuted", b="permuted", whole=True),
    ProductKernel("f32", (128, 128, 32), b="column", whole=True),
    ProductKernel("f8E4M3FN", (128, 128, 64), whole=True),
    ProductKernel("f8E5M2", (128, 64, 64), a="column", b="transposed", whole=True),
    ProductKernel("f16", (128, 128, 64), whole=True, chunk=4),
    ProductKernel("i8", (128, 128, 64), whole=True),
)
REPEATED = (
    ProductKernel("f16", (128, 128, 64), form="persistent", whole=True),
    ProductKernel("bf16", (128, 256, 32), form="persistent", whole=True),
    ProductKernel("i8", (128, 64, 64), form="persistent", a="column", whole=True),
)
"""Each block makes several tiles: products of one run while another is stored."""
OTHERS = (
    (ProductKernel("f16", (32, 128, 64), whole=True), "instructions for a product of 32x128x64"),
    (
        ProductKernel("f32", (128, 16, 32), whole=True),
        "K of an operand is not contiguous, and its rows are no multiples of 128 bytes",
    ),
)
"""Kernels that tcgen05 is not for, and why."""


@cache
def compiled(
    kernel: ProductKernel, target: str = "sm_100", disabled: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    """PTX of a kernel, and the remarks about tensor memory."""
    wanted = RemarkFilter(dict.fromkeys(RemarkKind, "all"))
    remarks = RemarkCollector(wanted)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target, disabled_features=disabled)
    text = compile_module(kernel.text().encode(), options, remarks=remarks).output.decode()
    return text, [remark.message for remark in remarks.remarks if remark.name == "TensorMemory"]


def many_steps(kernel: ProductKernel) -> tuple[int, int, int]:
    """Extents of two tiles whose products go round the pipeline more than once."""
    rows, columns, depth = kernel.tile
    return 2 * rows, columns, 11 * depth


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_tensor_core_computes_the_product(kernel: ProductKernel) -> None:
    text, remarks = compiled(kernel)
    assert "tcgen05.mma" in text and "mma.sync" not in text
    assert remarks == []
    case = dense_case(kernel, many_steps(kernel), 2, 1, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("seed", range(2))
def test_ragged_tiles_are_right(seed: int) -> None:
    text, _ = compiled(KERNELS[0])
    case = make_case(KERNELS[0], seed, tiles=3)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.name)
def test_sums_of_several_tiles_take_turns(kernel: ProductKernel) -> None:
    text, _ = compiled(kernel)
    rows, columns, depth = kernel.tile
    case = dense_case(kernel, (3 * rows, columns, 5 * depth), 1, 1, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""
    allocated = re.search(r"tcgen05\.alloc.*\], (\d+);", text)
    assert allocated is not None and int(allocated[1]) == max(32, 2 * columns)


def test_sum_without_products_is_zero() -> None:
    text, _ = compiled(KERNELS[0])
    case = dense_case(KERNELS[0], (128, 128, 64), 1, 1, 1)
    arguments = case.arguments()
    arguments[6] = np.int32(0)
    run_ptx(text, arguments, case.grid)
    assert not np.any(arguments[2][case.c.places])


@pytest.mark.parametrize("target", ["sm_103", "sm_110"])
def test_other_targets_compute_the_product(target: str) -> None:
    text, _ = compiled(KERNELS[0], target)
    assert f".target {target}a" in text and "tcgen05.mma" in text
    case = dense_case(KERNELS[0], (128, 128, 192), 1, 1, 1)
    arguments = case.arguments()
    run_ptx(text, arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize(("kernel", "reason"), OTHERS, ids=lambda item: str(item)[:40])
def test_remark_says_why_not(kernel: ProductKernel, reason: str) -> None:
    text, remarks = compiled(kernel)
    assert "mma.sync" in text and "tcgen05" not in text
    assert len(remarks) == 1 and remarks[0].startswith("no products by tcgen05: ")
    assert reason in remarks[0]


def test_bytes_are_not_for_sm_103() -> None:
    text, remarks = compiled(KERNELS[-1], "sm_103")
    assert "mma.sync" in text and "tcgen05" not in text
    assert remarks == ["no products by tcgen05: tcgen05 has no instructions for the element types"]


def test_disabled_feature_goes_back_to_mma_sync() -> None:
    text, remarks = compiled(KERNELS[0], disabled=("tcgen05",))
    assert "mma.sync" in text and "tcgen05" not in text
    assert "cp.async.bulk.tensor" in text and remarks == []


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_targets_without_tensor_memory_say_nothing(target: str) -> None:
    text, remarks = compiled(KERNELS[0], target)
    assert "tcgen05" not in text and remarks == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("tcgen05.dealloc", "not deallocated"),
        ("tcgen05.commit", "deadlock"),
    ],
)
def test_machine_finds_what_is_left_out(wrong: str, right: str) -> None:
    text, _ = compiled(KERNELS[0])
    lines = [line for line in text.split("\n") if wrong not in line]
    case = dense_case(KERNELS[0], (128, 128, 64), 1, 1, 1)
    with pytest.raises(PtxRuntimeError, match=right):
        run_ptx("\n".join(lines), case.arguments(), case.grid)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "loop", "align"),
    [(128, 64, 64, "computed", 16), (64, 64, 128, "carried", 8), (128, 128, 64, "computed", 4)],
)
def test_gathered_rows_are_multiplied(
    rows: int, columns: int, depth: int, loop: str, align: int
) -> None:
    source = experts(rows, columns, depth, loop, align).replace(
        b"%W1 = assume div_by<16>", b"%W1 = assume div_by<4>"
    )
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(source, options).output.decode()
    assert "tcgen05.mma" in text and "cp.async.mbarrier.arrive" in text
    # A warpgroup gives registers away as a whole, and there is a warp beside those.
    assert "setmaxnreg" not in text
    case = experts_case(rows, columns, 2 * depth + 16, columns + 16, blocks=1, align=align)
    run_ptx(text, case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[2], case.wanted)


def test_gathered_bytes_need_a_proxy_fence() -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(experts(128, 64, 64), options).output.decode()
    lines = [line for line in text.split("\n") if "fence.proxy.async" not in line]
    case = experts_case(128, 64, 80, 80, blocks=1)
    with pytest.raises(PtxRuntimeError, match=r"fence\.proxy\.async"):
        run_ptx("\n".join(lines), case.arguments, case.grid)


ROW_SUMS = """cuda_tile.module @m {
  entry @rows(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %n: tile<i32>) {
    %a0 = assume div_by<16>, %A : tile<ptr<f16>>
    %b0 = assume div_by<16>, %B : tile<ptr<f16>>
    %t = make_token : token
    %at = make_tensor_view %a0, shape = [256, 256], strides = [256, 1]
      : tensor_view<256x256xf16, strides=[256,1]>
    %bt = make_tensor_view %b0, shape = [256, COLUMNS], strides = [COLUMNS, 1]
      : tensor_view<256xCOLUMNSxf16, strides=[COLUMNS,1]>
    %ct = make_tensor_view %C, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
    %av = make_partition_view %at
      : partition_view<tile=(128x64), tensor_view<256x256xf16, strides=[256,1]>>
    %bv = make_partition_view %bt
      : partition_view<tile=(64xCOLUMNS), tensor_view<256xCOLUMNSxf16, strides=[COLUMNS,1]>>
    %cv = make_partition_view %ct : partition_view<tile=(128), tensor_view<256xf32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128xCOLUMNSxf32>
    %sum = for %k in (%c0 to %n, step %c1) : tile<i32>
        iter_values(%s = %zero) -> (tile<128xCOLUMNSxf32>) {
      %a, %ta = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=(128x64), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32>
        -> tile<128x64xf16>, token
      %b, %tb = load_view_tko weak %bv[%k, %c0] token = %t
        : partition_view<tile=(64xCOLUMNS), tensor_view<256xCOLUMNSxf16, strides=[COLUMNS,1]>>,
          tile<i32> -> tile<64xCOLUMNSxf16>, token
      %d = mmaf %a, %b, %s
        : tile<128x64xf16>, tile<64xCOLUMNSxf16>, tile<128xCOLUMNSxf32>
      continue %d : tile<128xCOLUMNSxf32>
    }
    %e = absf %sum : tile<128xCOLUMNSxf32>
    %r = reduce %e dim=1 identities=[0.0 : f32] : tile<128xCOLUMNSxf32> -> tile<128xf32>
      (%p: tile<f32>, %q: tile<f32>) {
        %o = addf %p, %q : tile<f32>
        yield %o : tile<f32>
      }
    %u = store_view_tko weak %r, %cv[%x] token = %t
      : tile<128xf32>, partition_view<tile=(128), tensor_view<256xf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
"""


@pytest.mark.parametrize("columns", [64, 256])
def test_rows_that_are_reduced_lie_in_one_thread(columns: int) -> None:
    source = ROW_SUMS.replace("COLUMNS", str(columns)).encode()
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(source, options).output.decode()
    assert "tcgen05.ld.sync.aligned.32x32b.x" in text and "16x256b" not in text
    rng = np.random.default_rng(columns)
    a = rng.integers(-2, 3, (256, 256)).astype(np.float16)
    b = rng.integers(-2, 3, (256, columns)).astype(np.float16)
    found = np.zeros(256, np.float32)
    run_ptx(text, [a, b, found, np.int32(4)], (2, 1, 1))
    exact = np.abs(a.astype(np.float64) @ b.astype(np.float64)).sum(axis=1)
    np.testing.assert_array_equal(found, exact.astype(np.float32))


def test_tiles_that_are_stored_lie_in_neighbouring_lanes() -> None:
    text, _ = compiled(KERNELS[0])
    assert "tcgen05.ld.sync.aligned.16x256b.x" in text and "32x32b" not in text
