"""Long products on the GPU of operands that TMA cannot bring: every alignment, pipelines that
wrap.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.kernels.product_text import ProductKernel, products_in_turn  # noqa: E402
from tests.kernels.random_products import Placement, ProductCase, dense_case  # noqa: E402

from .launch import compile_for_this_gpu, launch_cubin  # noqa: E402

pytestmark = pytest.mark.gpu

KERNELS = (
    ProductKernel("f16", (128, 128, 64), is_aligned=False),
    ProductKernel("f16", (128, 256, 64), is_aligned=False),
    ProductKernel("f16", (256, 128, 64), b="transposed", is_aligned=False),
    ProductKernel("f16", (64, 256, 64), a="column", b="transposed", is_aligned=False),
    ProductKernel("bf16", (64, 256, 64), form="persistent", is_aligned=False),
    ProductKernel("f32", (128, 128, 32), is_aligned=False),
    ProductKernel("f32", (128, 128, 32), b="transposed", is_aligned=False),
    ProductKernel("i8", (128, 128, 128), b="transposed", is_aligned=False),
    ProductKernel("f8E4M3FN", (128, 128, 128), is_aligned=False),
)
SHAPES = ((256, 512, 1024), (257, 131, 1027), (130, 514, 2050), (131, 260, 900))


MIXED = (
    ProductKernel("f16", (128, 128, 64)),
    ProductKernel("f16", (128, 256, 64), b="transposed", form="persistent"),
    ProductKernel("f32", (128, 128, 32)),
)


@cache
def cubin_of(kernel: ProductKernel, unknown: str = "") -> bytes:
    """A kernel, compiled once; of the operand `unknown` it does not know how it is aligned."""
    text = kernel.text()
    for value in ("1", "s0", "s1", "s2"):
        for known in (16, kernel.unit):
            place = f"%{unknown}{value}k = assume div_by<"
            text = text.replace(f"{place}{known}>", f"{place}1>") if unknown else text
    return compile_for_this_gpu(text.encode())


def placed(rows: int, columns: int, major: str, aligned_to: int, first: int) -> Placement:
    """Rows (or columns) apart by an odd multiple of so many elements."""
    is_by_column = major in ("column", "transposed", "permuted")
    inner = rows if is_by_column else columns
    far = (-(-inner // aligned_to) | 1) * aligned_to
    strides = (0, 1, far) if is_by_column else (0, far, 1)
    return Placement((1, rows, columns), first, strides)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("a_unit", "b_unit"), [(8, 8), (4, 4), (2, 2), (1, 1), (4, 2), (1, 8)])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_long_products_are_exact(
    kernel: ProductKernel, a_unit: int, b_unit: int, shape: tuple[int, int, int]
) -> None:
    """Starts and pitches are multiples of so many bytes (or elements), and of no more."""
    m, n, k = shape
    size = 16 // replace(kernel, chunk=16).unit
    units = [max(1, unit // size) for unit in (a_unit, b_unit)]
    rows, columns = (-(-x // y) for x, y in zip((m, n), kernel.tile[:2], strict=True))
    case = ProductCase(
        kernel,
        0,
        shape,
        placed(m, k, kernel.a, units[0], 3 * units[0]),
        placed(k, n, kernel.b, units[1], units[1]),
        placed(m, n, "row", 1, 5),
        (rows, columns, 1) if kernel.form != "persistent" else (3, 1, 1),
    )
    arguments = case.arguments()
    launch_cubin(cubin_of(kernel), "product", arguments, case.grid)
    assert case.difference(arguments[2]) == ""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("unit", [4, 2, 1])
@pytest.mark.parametrize("unknown", ["A", "B"])
@pytest.mark.parametrize("kernel", MIXED, ids=lambda kernel: kernel.name)
def test_one_operand_comes_by_tma(
    kernel: ProductKernel, unknown: str, unit: int, shape: tuple[int, int, int]
) -> None:
    """Stages that a thread announces bytes of, and that others copy into."""
    m, n, k = shape
    units = {"A": kernel.unit, "B": kernel.unit} | {unknown: unit}
    rows, columns = (-(-x // y) for x, y in zip((m, n), kernel.tile[:2], strict=True))
    case = ProductCase(
        kernel,
        1,
        shape,
        placed(m, k, kernel.a, units["A"], units["A"]),
        placed(k, n, kernel.b, units["B"], 3 * units["B"]),
        placed(m, n, "row", 1, 3),
        (rows, columns, 1) if kernel.form != "persistent" else (5, 1, 1),
    )
    arguments = case.arguments()
    launch_cubin(cubin_of(kernel, unknown), "product", arguments, case.grid)
    assert case.difference(arguments[2]) == ""


def test_stages_of_tensor_maps_are_given_back() -> None:
    """One product by TMA with a prologue fill, one that the whole warpgroup copies for.

    More CTAs than an SM has stages for, several times: one that kept a stage would hang the last.
    """
    by_tma = ProductKernel("f16", (128, 128, 64))
    copied = ProductKernel("f16", (128, 64, 64), chunk=4)
    cubin = compile_for_this_gpu(products_in_turn(by_tma, copied))
    case = dense_case(by_tma, (32 * 128, 32 * 128, 192), 32, 32)
    for _ in range(3):
        arguments = case.arguments()
        launch_cubin(cubin, "product", arguments, case.grid)
        assert not case.difference(arguments[2])


def test_transposed_tiles_of_two_sizes_have_room() -> None:
    kernels = [ProductKernel("i8", (128, n, k), a="column") for n, k in ((64, 32), (128, 128))]
    cubin = compile_for_this_gpu(products_in_turn(*kernels))
    case = dense_case(kernels[0], (512, 256, 1024), 4, 4)
    arguments = case.arguments()
    launch_cubin(cubin, "product", arguments, case.grid)
    assert not case.difference(arguments[2])
