"""The consumers' threads fetch the first tiles while the producer makes tensor maps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.gpu.product_text import ProductKernel
from tests.gpu.random_products import make_case
from tests.interpreter.stage_comparison import passes
from tests.passes.nv_tileas.gemm import gemm, persistent
from tests.passes.nv_tileas.softmax_attention import run_attention, softmax_attention
from tileiras.codegen.atoms.tma_boxes import thread_rows
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper import head_start


def placed(source: bytes) -> ModuleOp:
    """A kernel after its layouts have been chosen for sm_90."""
    module = parse_text(source.decode(), "kernel.mlir")
    for _ in passes(module, (), "sm_90"):
        pass
    return module


def starts(module: ModuleOp) -> tuple[int, int]:
    """How often the consumers fetch tiles, and the producer passes over some."""
    operations = list(module.walk())
    return (
        sum(isinstance(op, pl.HeadStartOp) for op in operations),
        sum(isinstance(op, pl.ProducerSkipOp) for op in operations),
    )


@pytest.fixture
def any_size(monkeypatch):
    """Small products have a head start, too."""
    monkeypatch.setattr(head_start, "LEAST_ELEMENTS", 0)


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64)])
def test_a_loop_that_comes_once_has_a_head_start(tile):
    assert starts(placed(gemm(*tile))) == (1, 1)


@pytest.mark.parametrize("tile", [(64, 128, 64), (128, 128, 64), (64, 256, 64)])
def test_small_products_have_none(tile):
    assert starts(placed(gemm(*tile))) == (0, 0)


def test_loops_within_loops_and_shared_copies_have_none():
    assert starts(placed(persistent(128, 256, 64))) == (0, 0)
    paired = replace(ProductKernel("f16", (128, 256, 64)), cluster=2)
    assert starts(placed(paired.text().encode())) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "tile", "expected"),
    [
        ("full", (128, 128), 2),
        ("causal", (128, 128), 2),
        # Not rotated: keys and values of the first iteration, and the queries.
        ("full", (64, 256), 3),
        # Two CTAs on an SM start beside each other's work.
        ("full", (64, 64), 0),
    ],
)
def test_attention_starts_with_the_operands_of_its_first_product(kind, tile, expected):
    module = placed(softmax_attention(kind, *tile, 128))
    assert starts(module) == (expected, expected)


@pytest.mark.parametrize("iterations", [0, 1, 2, 3])
@pytest.mark.parametrize("tile", [(64, 256), (128, 64)])
def test_attention_is_right_after_any_number_of_iterations(tile, iterations):
    source = softmax_attention("full", *tile, 128)
    module, length = placed(source), iterations * tile[1]
    assert starts(module) != (0, 0)
    wanted = run_attention(parse_text(source.decode(), "kernel.mlir"), tile[0], length, 128)
    assert np.array_equal(wanted, run_attention(module, tile[0], length, 128))


def test_threads_wait_for_nobody_before_their_first_copy():
    options = replace(with_environment(CompileOptions(gpu_name="sm_90")), emit="ptx")
    ptx = compile_module(gemm(128, 256, 64), options).output.decode()
    before = ptx[ptx.index("mbarrier.init") : ptx.index("cp.async.cg")]
    assert "bar.sync \t1, 256;" in before
    assert "bar.arrive \t8, 384;" in before
    assert "atom." not in before
    assert "cp.async.mbarrier.arrive.shared::cta" in ptx
    assert "fence.proxy.async" in ptx
    assert "prefetch.tensormap" in ptx


@pytest.mark.parametrize("depth", [16, 64, 128, 208, 256, 272, 320, 528])
@pytest.mark.usefixtures("any_size")
def test_any_number_of_iterations_is_right(depth: int):
    rows, columns = 80, 144
    random = np.random.default_rng(depth)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = np.full((rows, columns), 7, np.float16)
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    module = placed(gemm(64, 128, 64))
    assert starts(module) == (1, 1)
    run_entry(module, "gemm", [left, right, result, *sizes], (2, 2, 1))
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "kernel",
    [
        ProductKernel("f16", (64, 128, 64)),
        ProductKernel("bf16", (64, 128, 64), a="column", b="turned"),
        ProductKernel("f8E4M3FN", (64, 64, 128), b="turned"),
        ProductKernel("i8", (64, 64, 128), b="turned"),
    ],
    ids=lambda kernel: kernel.name,
)
@pytest.mark.usefixtures("any_size")
def test_every_placement_of_operands_is_right(kernel: ProductKernel, seed: int):
    case = make_case(kernel, seed)
    module = placed(kernel.text().encode())
    assert starts(module) == (1, 1)
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])


def test_rows_are_divided_among_threads_or_not_copied():
    module = placed(gemm(128, 256, 64))
    start = next(op for op in module.walk() if isinstance(op, pl.HeadStartOp))
    left, right = (view.type for view in start.views)
    assert isinstance(left, aa.TiledViewType)
    assert isinstance(right, aa.TiledViewType)
    assert thread_rows(left, 1, 256) == (0, 128)
    assert thread_rows(right, 1, 256) == (0, 64)
    assert thread_rows(right, 1, 1024) is None
