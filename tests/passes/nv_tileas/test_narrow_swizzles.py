"""Operands with short rows: which swizzle they get, and whole kernels at nv_tileas."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr
from xdsl.rewriter import Rewriter

from tests.kernels.gather import experts, experts_case
from tests.kernels.gemm import gemm
from tests.kernels.product_text import Form, ProductKernel
from tests.kernels.random_products import NARROW_KERNELS, aligned_result, dense_case, make_case
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.codegen.atoms.shared_operands import widest_swizzle
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import InterpreterError, run_entry
from tileiras.options import PREFER_TMA, CompileOptions

RESULT = 2


def compiled(source: bytes, emit: str, **changes: object) -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    return compile_module(source, replace(options, **changes)).output.decode()


def test_widest_swizzle():
    wanted = {512: 128, 128: 128, 96: 32, 64: 64, 32: 32, 16: None, 0: None, 192: 64}
    assert {extent: widest_swizzle(extent) for extent in wanted} == wanted


@pytest.mark.parametrize("kernel", NARROW_KERNELS, ids=lambda kernel: kernel.name)
def test_products_are_exact_after_every_pass(kernel: ProductKernel):
    """Two tiles and a ragged edge along each dim, from places that do not begin a tile."""
    module = read_source(kernel.text().encode())
    made = [make_case(kernel, seed, tiles=1) for seed in range(2)]
    for _ in passes(module, (), "sm_90", exact=True):
        pass
    assert any(isinstance(op, wg.WgmmaDotOp) for op in module.walk())
    for case in made:
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert case.difference(arguments[RESULT]) == ""


@pytest.mark.parametrize(
    ("tile", "swizzles"),
    [
        ((128, 128, 64), {128}),
        ((128, 128, 32), {64, 128}),
        ((128, 128, 16), {32, 128}),
        ((128, 32, 64), {128, 64}),
        ((128, 16, 64), {128, 32}),
        ((128, 16, 32), {64, 32}),
    ],
)
def test_each_operand_has_its_own_swizzle(tile: tuple[int, int, int], swizzles: set[int]):
    """A is K-major, B is not: rows of A are K long, rows of B N long."""
    text = compiled(gemm(*tile), "nv_tileas")
    maps = set(re.findall(r"make_tiled_tma_desc.*swizzle = #builtin.int<(\d+)>", text))
    assert {int(found) for found in maps} == swizzles


def test_text_at_nv_tileas_is_read_back():
    text = compiled(gemm(128, 32, 32), "nv_tileas")
    assert compiled(text.encode(), "nv_tileas") == text


@pytest.mark.parametrize(("rows", "columns"), [(128, 64), (64, 32), (64, 8)])
def test_stages_begin_where_patterns_do(rows: int, columns: int):
    """A small tile in front of another one takes more of the stage than it has bytes."""
    kernel = ProductKernel("f16", (rows, columns, 16), a="column", b="column")
    module = read_source(kernel.text().encode())
    for _ in passes(module, (), "sm_90", exact=True):
        pass
    pipelines = [op for op in module.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert pipelines and all(pipeline.stage_bytes.data % 1024 == 0 for pipeline in pipelines)
    loads = [op for op in module.walk() if isinstance(op, pl.TmaLoadOp)]
    assert loads and all(load.offset.data % 1024 == 0 for load in loads)
    brought = sum(2 * 16 * extent for extent in (rows, columns))
    acquired = [op.bytes.data for op in module.walk() if isinstance(op, pl.ProducerAcquireOp)]
    assert brought in acquired


@pytest.mark.parametrize("depth", [32, 16])
def test_gathers_short_rows(depth: int):
    case = experts_case(128, 64, 80, 80)
    module = read_source(experts(128, 64, depth))
    for _ in passes(module, (), "sm_90", exact=True):
        pass
    gathers = [op for op in module.walk() if isinstance(op, pl.GatherLoadOp)]
    assert {gather.swizzle.data for gather in gathers} == {2 * depth}
    run_entry(module, "experts", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


def test_short_stages_make_a_longer_pipeline():
    def stages(source: bytes) -> list[int]:
        text = compiled(source, "nv_tileas")
        return [int(count) for count in re.findall(r"stages = #builtin.int<(\d+)>", text)]

    assert max(stages(gemm(64, 64, 64))) <= 8
    assert 8 < max(stages(gemm(64, 64, 16))) <= 16


@pytest.mark.parametrize(
    ("columns", "result", "spans"), [(32, "f16", 64), (16, "f16", 32), (8, "f32", 32)]
)
@pytest.mark.parametrize("form", ["persistent", "plain"])
def test_short_rows_leave_by_tma(columns: int, result: str, spans: int, form: Form):
    kernel = ProductKernel("f16", (128, columns, 64), b="column", result=result, form=form)
    text = aligned_result(kernel).encode()
    found = compiled(text, "nv_tileas", knobs={PREFER_TMA: "1"})
    stores = found.count('"nv_tileas.async.tiled_tma_store"') + found.count(
        '"nv_tileas.async.pipeline.store_stage"'
    )
    assert stores and f"swizzle = #builtin.int<{spans}>" in found[: found.index("agent_switch")]


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "depth"),
    [("full", 128, 64, 32), ("causal", 64, 64, 32), ("full", 64, 32, 64), ("full", 64, 64, 16)],
)
def test_attention_of_short_heads_is_the_same(kind: str, rows: int, columns: int, depth: int):
    source, length = softmax_attention(kind, rows, columns, depth), 3 * columns
    module = read_source(source)
    for _ in passes(module, (), "sm_90", exact=True):
        pass
    assert any(isinstance(op, wg.WgmmaDotOp) for op in module.walk())
    blocks = () if kind == "full" else (-(-length // rows),)
    wanted = run_attention(read_source(source), rows, length, depth, 1, blocks)
    assert np.array_equal(wanted, run_attention(module, rows, length, depth, 1, blocks))


def test_no_product_reads_rows_that_a_reshape_cuts():
    """TMA brings 128 columns as two panels of 64; as rows of 64 they would lie elsewhere."""
    text = gemm(128, 128, 64).decode().replace("tile=(128x64)", "tile=(64x128)")
    text = text.replace("%a, %ka = load", "%wide, %ka = load")
    text = text.replace(
        "tile<i32> -> tile<128x64xf16>, token\n",
        "tile<i32> -> tile<64x128xf16>, token\n"
        "      %a = reshape %wide : tile<64x128xf16> -> tile<128x64xf16>\n",
    )
    assert "reshape" in text
    assert "wgmma_dot" not in compiled(text.encode(), "nv_tileas")


def test_a_smem_transposed_tile_is_multiplied_before_the_next_is_written():
    """K of 8 bits is contiguous in neither operand: threads read one and transpose the other."""
    kernel = ProductKernel("i8", (128, 128, 128), a="column")
    text = compiled(kernel.text().encode(), "nv_tileas")
    order = ("consumer_wait", "smem_transpose", "wgmma_dot", "consumer_release")
    places = [text.index(f'.{name}"') for name in order]
    assert places == sorted(places)
    assert 'fragments = "both"' in text
    module = read_source(text.encode())
    [product] = [op for op in module.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert product.pending is not None and product.pending.data == 0
    product.properties["pending"] = IntAttr(1)
    [release] = [op for op in module.walk() if isinstance(op, pl.ConsumerReleaseOp)]
    release.properties["keep"] = IntAttr(1)
    case = make_case(kernel, 3)
    with pytest.raises(InterpreterError, match="overwritten while a product reads it"):
        run_entry(module, "product", case.arguments(), case.grid)


@pytest.mark.parametrize("tile", [(64, 64, 32), (64, 128, 16)])
def test_words_are_transposed_beside_a_product_that_is_finished_then(tile: tuple[int, int, int]):
    """Of two copies: else warps that run ahead would write over what others still multiply by."""
    kernel = ProductKernel("f32", tile, a="column")
    text = compiled(kernel.text().encode(), "nv_tileas")
    order = ("consumer_wait", "smem_transpose", "wgmma_dot", "consumer_release")
    places = [text.index(f'.{name}"') for name in order]
    assert places == sorted(places)
    module = read_source(text.encode())
    [turn] = [op for op in module.walk() if isinstance(op, wg.SmemTransposeOp)]
    [product] = [op for op in module.walk() if isinstance(op, wg.WgmmaDotOp)]
    assert turn.running is not None and product.acc is turn.finished
    case = dense_case(kernel, (*tile[:2], 3 * tile[2]), 1)
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])
    product.operands[2] = turn.running
    alone = wg.SmemTransposeOp.create(operands=[turn.tile], result_types=[turn.result.type])
    Rewriter.replace_op(turn, alone, [alone.result, None])
    with pytest.raises(InterpreterError, match="overwritten while a product reads it"):
        run_entry(module, "product", case.arguments(), case.grid)
