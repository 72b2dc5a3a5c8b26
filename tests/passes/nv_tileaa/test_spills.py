"""Products that used to spill: sliced, cut or stepped so that registers hold them."""

from __future__ import annotations

import random

import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import ProductCase, place
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

SPLIT = ProductKernel("f16", (128, 256, 64), form="split", is_aligned=False)
PARTS = ProductKernel("bf16", (256, 256, 32), form="split", is_aligned=False)
WIDE = ProductKernel("f16", (64, 512, 64))
TALL = ProductKernel("f16", (512, 64, 64), b="transposed")
BYTES = ProductKernel("i8", (64, 512, 64), b="column")


def spilled(kernel: ProductKernel, gpu: str) -> str:
    """What ptxas says of a kernel."""
    options = with_environment(CompileOptions(gpu_name=gpu))
    return compile_module(kernel.text().encode(), options).notes[0]


def case_of(kernel: ProductKernel) -> ProductCase:
    """One ragged tile, two steps of K."""
    rng, (m, n, k) = random.Random(1), kernel.tile
    m, n, k = m - 3, n - 5, k + 9
    shapes = ((1, m, k), (1, k, n), (1, m, n))
    majors = (kernel.a, kernel.b, "row")
    placed = [
        place(rng, shape, major, kernel.unit, kernel.is_aligned)
        for shape, major in zip(shapes, majors, strict=True)
    ]
    return ProductCase(kernel, 1, (m, n, k), placed[0], placed[1], placed[2], (1, 1, 1))


def placed_module(kernel: ProductKernel, gpu: str):
    """The kernel of stage nv_tileas, having computed the same before and after."""
    module = read_source(kernel.text().encode())
    for name, _ in passes(module, (), gpu):
        if name == "convert-tileaa-to-tileas":
            break
    case = case_of(kernel)
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])
    return module


def shapes_of(module, op_type) -> list[tuple[int, ...]]:
    """Shapes of the results of all operations of a type."""
    return [op.result.type.get_shape() for op in module.walk() if isinstance(op, op_type)]


def test_all_warps_add_a_tile_slice_by_slice():
    module = placed_module(SPLIT, "sm_80")
    assert shapes_of(module, aa.ExtractOp) == [(32, 256)] * 4
    loads = [op for op in module.walk() if isinstance(op, tas.TiledLoadOp)]
    assert sum(op.is_apart is not None for op in loads) == 4


def test_sums_that_leave_room_stay_whole():
    roomy = ProductKernel("bf16", (64, 256, 64), form="split", is_aligned=False)
    assert shapes_of(placed_module(roomy, "sm_80"), aa.ExtractOp) == []


def test_parts_add_their_tiles_slice_by_slice():
    module = placed_module(PARTS, "sm_80")
    assert shapes_of(module, tas.MmaDotOp) == [(128, 256)]
    assert shapes_of(module, aa.ExtractOp) == [(32, 256)] * 4


@pytest.mark.parametrize(("kernel", "part"), [(WIDE, (64, 256)), (TALL, (256, 64))])
def test_long_products_are_cut_for_wgmma(kernel, part):
    module = placed_module(kernel, "sm_90")
    assert shapes_of(module, wg.WgmmaDotOp) == [part]


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_long_products_stay_whole_without_wgmma(gpu):
    assert shapes_of(placed_module(WIDE, gpu), tas.MmaDotOp) == [(64, 512)]


@pytest.mark.parametrize(
    ("kernel", "gpu"),
    [(SPLIT, "sm_90"), (PARTS, "sm_80"), (SPLIT, "sm_120"), (BYTES, "sm_90")],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_registers_hold_it(kernel, gpu):
    assert " 0 bytes spilled" in spilled(kernel, gpu)
