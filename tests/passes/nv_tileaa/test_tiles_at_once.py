"""Which kernels compute several neighbouring tile blocks at once, and what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.scaled_products import ScaledGemm, gemm, gemm_arguments
from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import get_target, records
from tileiras.dialects import nv_tileaa as aa
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text

PASS = "tileas-dynamic-persistent"
SM_100 = "sm_100"
DENSE = ProductKernel("f16", (512, 128, 64), whole=True, result="f16", cluster=4)
SCALED = ScaledGemm("f4E2M1FN", "f8E4M3FN", 16, (512, 128, 256), (512, 1024, 512), ctas=4)


def text_of(kernel: ProductKernel) -> str:
    """A kernel whose result is aligned, with hints for the target."""
    return aligned_result(kernel).replace("sm_90", SM_100)


def kernel_behind(text: str, target: str = SM_100) -> aa.FuncOp:
    """The only kernel, behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), target):
        if name == PASS:
            return next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    raise AssertionError("the pass did not run")


def count(text: str, target: str = SM_100) -> int:
    """How many tile blocks are computed at once."""
    func = kernel_behind(text, target)
    products = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    number = 1 if func.tiles_at_once is None else func.tiles_at_once.data
    assert len(products) == number
    return number


def few_multiprocessors(patch: pytest.MonkeyPatch, number: int) -> None:
    """Kernels are told of a GPU with so many SMs."""
    target = get_target(SM_100)
    few = replace(target, performance=replace(target.performance, multiprocessors=number))
    patch.setitem(records._BY_NAME, SM_100, few)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("multiprocessors", [4, 148])
@pytest.mark.parametrize("grid", [(1, 5), (2, 3)])
def test_every_tile_is_computed_once(
    multiprocessors: int, grid: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In groups where the grid is large for the GPU, one by one where it is not."""
    few_multiprocessors(monkeypatch, multiprocessors)
    module = parse_text(text_of(DENSE), "kernel.mlir")
    m, n, k = DENSE.tile
    for name, _ in passes(module, (), SM_100):
        if name not in (PASS, "tileas-plan-cta"):
            continue
        case = dense_case(DENSE, (grid[0] * m, grid[1] * n, 2 * k), *grid)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert not case.difference(arguments[2])


def test_products_with_scales_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    few_multiprocessors(monkeypatch, 4)
    module = parse_text(gemm(SCALED), "kernel.mlir")
    for name, _ in passes(module, (), SM_100):
        if name == PASS:
            given, wanted = gemm_arguments(SCALED)
            run_entry(module, "k", given, SCALED.grid)
            np.testing.assert_allclose(given[-1], wanted, rtol=1e-5)
            return


def test_as_many_as_copies_ask_for() -> None:
    """Dense products of 128x128 are fast enough with one common operand for two; with scales the
    tensor core is so fast that it takes three, for which there is just room.
    """
    assert count(text_of(DENSE)) == 2
    assert count(gemm(SCALED)) == 3
    assert count(gemm(replace(SCALED, ctas=8, tile=(512, 256, 256))), "sm_103") == 3


def test_none_where_products_take_longer() -> None:
    assert count(text_of(replace(DENSE, tile=(512, 256, 64)))) == 1
    assert count(gemm(replace(SCALED, ctas=8, tile=(512, 256, 256)))) == 1


def test_none_where_there_is_no_room() -> None:
    """Two sums of 256 columns leave none for scales."""
    assert count(gemm(replace(SCALED, tile=(512, 256, 256))), "sm_103") == 1


def test_none_of_a_cluster_whose_ctas_have_tile_blocks_of_their_own() -> None:
    assert count(text_of(replace(DENSE, tile=(128, 256, 64), cluster=2))) == 1


def test_none_whose_copies_threads_make() -> None:
    assert count(gemm(replace(SCALED, scale="f8E8M0FNU", block=32))) == 1


def test_with_scales_the_left_operand_is_the_common_one() -> None:
    """That the tensor core keeps, though the right one has more bytes for a CTA here."""
    wide = replace(SCALED, ctas=8, tile=(256, 512, 256))
    func = kernel_behind(gemm(wide), "sm_103")
    products = [op for op in func.walk() if isinstance(op, aa.DotScaledOp)]
    assert len({op.lhs for op in products}) == 1 and len({op.rhs for op in products}) == 3


def test_none_with_scales_where_ctas_multiply_by_themselves() -> None:
    assert count(gemm(replace(SCALED, tile=(128, 512, 256)))) == 1


def test_dense_products_have_either_operand_in_common() -> None:
    func = kernel_behind(text_of(replace(DENSE, element="f8E4M3FN", tile=(128, 512, 128))))
    products = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    assert len({op.lhs for op in products}) == 2 and len({op.rhs for op in products}) == 1


def test_the_common_operand_is_loaded_once() -> None:
    func = kernel_behind(text_of(DENSE))
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp)]
    inner = loops[-1]
    loads = [op for op in inner.body.block.ops if isinstance(op, aa.TiledLoadOp)]
    assert len(loads) == 3
    first, second = [op for op in inner.body.block.ops if isinstance(op, aa.DotOp)]
    assert first.lhs is second.lhs and first.condition is None and second.condition is not None


def test_tile_blocks_behind_the_last_group_leave_at_once() -> None:
    func = kernel_behind(text_of(DENSE))
    branch = next(op for op in func.body.block.ops if isinstance(op, aa.IfOp))
    assert isinstance(branch.then_region.block.last_op, aa.ReturnOp)
    before = list(func.body.block.ops)[: list(func.body.block.ops).index(branch)]
    assert not any(isinstance(op, aa.MakeMemRefOp) for op in before)
