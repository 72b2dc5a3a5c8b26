"""Which kernels get a TMA producer and wgmma consumers, and what becomes of them."""

from __future__ import annotations

import re

import pytest

from tests.kernels.attention import attention
from tests.kernels.compilations import compiled
from tests.kernels.gather import gathered_right
from tests.kernels.gemm import gemm, with_ctas
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import FEW_ROWS
from tests.kernels.split_gemm import split_gemm
from tests.kernels.stage_comparison import compare_entry
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind


@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [
        (128, 256, 64),
        (128, 128, 64),
        (64, 256, 64),
        (256, 128, 64),
        (128, 128, 128),
        (64, 64, 64),
        (256, 256, 64),
        (128, 512, 64),
    ],
)
def test_specialises_products_of_whole_warpgroups(rows, columns, depth):
    text = compiled(gemm(rows, columns, depth))
    assert "nv_tileas.async.pipeline.agent_switch" in text
    # Tile blocks whose neighbours' sums find room have a loop for two of them beside their own.
    loops = 2 if max(rows, columns) <= 128 else 1
    assert text.count("nv_tileas.async.tiled_tma_load") == (2 if loops == 1 else 5)
    assert text.count('nv_tileas.wgmma_dot"') + 2 * text.count('nv_tileas.wgmma_dots"') == (
        1 if loops == 1 else 3
    )


@pytest.mark.parametrize("kernel", FEW_ROWS, ids=lambda kernel: kernel.name)
def test_products_of_few_rows_are_computed_transposed(kernel: ProductKernel):
    text = compiled(kernel.text().encode())
    assert "nv_tileas.async.pipeline.agent_switch" in text
    products = re.findall(r"nv_tileas\.wgmma_dots?\"\([^)]*\) <\{([^}]*)", text)
    assert products
    assert all("transposed" in line or "rhs" in line for line in products)


@pytest.mark.parametrize(
    ("element", "is_transposed"), [("f16", True), ("f32", True), ("i8", True), ("f8E4M3FN", False)]
)
def test_tall_products_are_computed_transposed(element: str, is_transposed: bool):
    """Operands that instructions can read either way round; not where sums are added in parts."""
    kernel = ProductKernel(element, (256, 128, 32 if element == "f32" else 128), b="transposed")
    products = re.findall(
        r"nv_tileas\.wgmma_dot\"\([^)]*\) <\{([^}]*)", compiled(kernel.text().encode())
    )
    assert products
    assert all(("transposed" in line) == is_transposed for line in products)


def test_leaves_the_last_product_unfinished_within_the_loop():
    text = compiled(gemm(128, 128, 64))
    assert "pending = #builtin.int<1>" in text
    assert "nv_tileas.dot_wait" in text


def test_builds_descriptors_before_the_loop_even_of_views_made_in_it():
    source = gemm(128, 128, 64).decode()
    [view] = re.findall(r"\n *%pb = .*", source)
    in_loop = source.replace(view, "").replace("      %b, %kb", view + "\n      %b, %kb")
    text = compiled(in_loop.encode())
    producer = text[text.index("nv_tileas.async.pipeline.agent_switch") :]
    assert producer.count("nv_tileas.make_tiled_tma_desc") == 2
    assert producer.rindex("nv_tileas.make_tiled_tma_desc") < producer.index("nv_tileaa.for")


MAP_IN_LOOP = (
    b"%b, %kb = load_view_tko weak %pb[%k, %by]",
    b"""%tk = make_tensor_view %B1, shape = [%K1, %k], strides = [%N1, 1]
        : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
      %pk = make_partition_view %tk
        : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
      %b, %kb = load_view_tko weak %pk[%k, %by]""",
)
"""A view whose size depends on the iteration: its tensor map would be made in the loop."""


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        (gemm(32, 32, 64), {}),
        (gemm(128, 128, 64, stores=True), {}),
        (split_gemm("acquire"), {}),
        (split_gemm("grid"), {}),
        (gemm(128, 128, 64), {"opt_level": 0}),
        (gemm(128, 128, 64), {"disabled_features": ("wgmma", "mma-sync")}),
        (gemm(128, 128, 64), {"disabled_features": ("tma",)}),
        (gemm(128, 128, 64), {"gpu_name": "sm_80"}),
    ],
    ids=[
        "few_rows",
        "loads_after_stores",
        "loads_after_an_acquire",
        "loads_after_another_grid",
        "O0",
        "no_tensor_cores",
        "no_tma",
        "sm_80",
    ],
)
def test_keeps_other_kernels_together(source, changes):
    assert "agent_switch" not in compiled(source, **changes)


def test_threads_copy_where_the_tensor_map_would_be_made_in_the_loop():
    source = gemm(128, 128, 64).replace(*MAP_IN_LOOP)
    assert compare_entry(read_source(source), "gemm", "gemm").kind == "same"
    text = compiled(source)
    assert "nv_tileas.async.tiled_load" in text and text.count("nv_tileas.make_tiled_tma_desc") == 1


@pytest.mark.parametrize("rows", [128, 256])
def test_does_not_spill(rows):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    artefacts = compile_module(gemm(rows, 256, 64), options)
    assert artefacts.kernels[0].registers == 168
    assert "0 bytes spilled" in artefacts.notes[0]


@pytest.mark.parametrize(
    "source",
    [
        with_ctas(ProductKernel("f32", (128, 128, 32)).text().encode(), 2),
        with_ctas(ProductKernel("f8E4M3FN", (64, 128, 128)).text().encode(), 2),
        with_ctas(gathered_right(is_transposed=False), 3),
    ],
    ids=["tf32 fragments", "f8 fragments", "gathered"],
)
def test_hints_for_company_cost_no_spills(source):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(source, options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("C75" in note for note in notes)


OF_A_KERNEL = ("Warps", "Specialized", "PipelineStages", "TilesPerCTA")
"""Names of remarks about a kernel; the others are about single operations."""


def test_remarks_say_whether_a_kernel_is_specialised():
    def told(source: bytes) -> list[str]:
        wanted = dict.fromkeys(RemarkKind, "all")
        remarks = RemarkCollector(RemarkFilter(wanted))
        options = with_environment(
            CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
        )
        found = compile_module(source, options, remarks=remarks).remarks.remarks
        return [f"{one.kind.value}: {one.message}" for one in found if one.name in OF_A_KERNEL]

    assert told(gemm(128, 256, 64)) == [
        "analysis: 8 warps",
        "passed: 1 producer warp, 2 consumer warpgroups of 232 registers, 1 CTA per SM, "
        "pipelines: 3 stages of 49152 bytes",
    ]
    assert told(gemm(128, 128, 64)) == [
        "passed: two tiles at once: an operand that both read is loaded once",
        "analysis: 8 warps",
        "passed: 1 producer warp, 2 consumer warpgroups of 232 registers, 1 CTA per SM, "
        "pipelines: 3 stages of 49152 bytes, 4 stages of 32768 bytes",
    ]
    assert told(with_ctas(gemm(128, 128, 64), 2)) == [
        "analysis: 4 warps",
        "passed: 1 producer warp, 1 consumer warpgroup of 168 registers, 2 CTAs per SM, "
        "pipelines: 3 stages of 32768 bytes",
        "missed: 3 instead of 4 stages of 32768 bytes: a CTA has 115712 bytes of shared memory",
    ]
    missed = "missed: products without TMA and wgmma: all warps do the same"
    assert missed in told(gemm(32, 32, 64))


def test_a_remark_tells_of_spilled_registers():
    remarks = RemarkCollector(RemarkFilter({RemarkKind.MISSED: "memory"}))
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    found = compile_module(
        gemm(256, 256, 64, stores=True), options, remarks=remarks
    ).remarks.remarks
    assert [remark.name for remark in found].count("RegisterSpills") == 1


def test_a_lock_around_the_epilogue_does_not_keep_a_kernel_together():
    text = compiled(split_gemm())
    assert "nv_tileas.async.pipeline.agent_switch" in text
    # All threads wait for the one that took the lock, and it for all before it gives it back.
    consumer = text[text.index("nv_tileaa.atomic_cas") :]
    order = re.findall(r'"nv_tilea[as]\.(barrier|tiled_load|tiled_store|atomic_rmw)"', consumer)
    assert order == [
        "barrier",
        "tiled_load",
        "barrier",
        "tiled_store",
        "barrier",
        "atomic_rmw",
    ]


def test_a_product_under_a_lock_computes_the_same_at_every_stage():
    module = read_source(split_gemm())
    assert compare_entry(module, "split", "split").kind == "same"


@pytest.mark.parametrize("loops", [1, 2])
def test_attention_keeps_its_queries_and_shares_its_pipelines(loops):
    text = compiled(with_ctas(attention(loops, keys=128, depth=128), 1))
    # Keys, values, queries: however many loops there are.
    assert text.count("nv_tileas.async.pipeline.create_pipeline") == 3
    # Every product stands in its loop, and once more for the iteration that is peeled off. The
    # queries and the first keys are filled by the prologue.
    assert text.count("nv_tileas.async.pipeline.prologue_fill") == 2
    assert text.count("nv_tileas.async.tiled_tma_load") == 1 + 4 * loops - 2
    assert text.count("nv_tileas.wgmma_dot") == 4 * loops
    # The queries are handed back once, after the last loop.
    assert text.count("nv_tileas.async.pipeline.consumer_release") == 4 * loops + 1


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("loops", [1, 2])
def test_attention_computes_the_same_at_every_stage(loops, ctas):
    module = read_source(with_ctas(attention(loops), ctas))
    assert compare_entry(module, "attention", "attention").kind == "same"


@pytest.mark.parametrize("ctas", [1, 2])
def test_products_from_registers_do_not_spill(ctas):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    artefacts = compile_module(with_ctas(attention(), ctas), options)
    assert "0 bytes spilled" in artefacts.notes[0]
