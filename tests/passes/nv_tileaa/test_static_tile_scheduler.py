"""Kernels with one tile a block whose tile blocks divide the work: one for each SM."""

from __future__ import annotations

import re
from dataclasses import replace
from operator import add, floordiv, mul, sub

import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

from tests.kernels.gather import experts
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tests.kernels.tiles_per_cta import placed
from tileiras.codegen.atoms.store_pieces import Held, stored_layout
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import DELAY_TMA_STORE_WAIT, PREFER_TMA, CompileOptions
from tileiras.passes.nv_tileaa.static_tile_scheduler import with_static_tile_scheduler
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

LARGE = ProductKernel("f16", (128, 256, 64), result="f16")
READ = ProductKernel("f8E4M3FN", (128, 256, 128), result="f16")
"""Threads read B, and hold pairs of columns of the result."""
DIVIDED = replace(LARGE, tile=(256, 256, 64))
"""A cluster of two CTAs divides each tile; the interpreter's GPU has room for two of them."""
ONE_CTA = "optimization_hints=<sm_90 = {num_cta_in_cga = 1}>"


def clustered(text: str) -> ModuleOp:
    """The kernel behind `form-clusters`."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "form-clusters":
            return module
    raise AssertionError("the pass did not run")


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))


def has_static_tile_scheduler(text: str) -> bool:
    """Whether the tile blocks of the kernel divide the work."""
    return kernel_of(clustered(text)).static_tile_scheduler is not None


@pytest.mark.parametrize(
    ("kernel", "extents", "blocks"),
    [
        (LARGE, (640, 500, 96), (5, 2)),
        (LARGE, (128, 256, 64), (1, 1)),
        (LARGE, (384, 768, 1), (3, 3)),
        (READ, (384, 500, 160), (3, 2)),
        (DIVIDED, (700, 500, 96), (3, 2)),
        (replace(DIVIDED, form="batched", cluster=1), (500, 300, 64), (2, 2)),
        (replace(READ, tile=(256, 256, 128), whole=True), (512, 768, 256), (2, 3)),
    ],
)
def test_every_tile_is_computed(
    kernel: ProductKernel, extents: tuple[int, int, int], blocks: tuple[int, int]
):
    module = parse_text(aligned_result(kernel), "kernel.mlir")
    stages = {"form-clusters", "convert-tileaa-to-tileas"}
    for name, _ in passes(module, (), "sm_90"):
        if name not in stages:
            continue
        assert kernel_of(module).static_tile_scheduler is not None
        case = dense_case(kernel, extents, *blocks)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert not case.difference(arguments[2])


TWO_TILES = ProductKernel("f16", (128, 128, 64), form="numbered", result="f16")
"""Tile blocks compute two at once, and one at the end."""


@pytest.mark.parametrize("order", ["rows", "columns", "diagonal"])
@pytest.mark.parametrize("tiles", [1, 4, 5, 6, 9, 10, 11, 15, 16, 20, 23])
def test_two_tiles_at_once_and_one_at_the_end(tiles: int, order: Order):
    """The interpreter's GPU has 5 multiprocessors: rounds of ten tiles, up to five at the end."""
    kernel = replace(TWO_TILES, order=order)
    module = parse_text(aligned_result(kernel), "kernel.mlir")
    case = dense_case(kernel, (128, 128 * tiles - 24, 96), tiles)
    if order == "columns":
        case = dense_case(kernel, (128 * tiles - 24, 128, 96), tiles)
    stages = {"form-clusters", "tileas-optimize-alloc-tensor"}
    for name, _ in passes(module, (), "sm_90"):
        if name in stages:
            assert kernel_of(module).static_tile_scheduler is not None
            arguments = case.arguments()
            run_entry(module, "product", arguments, case.grid)
            assert not case.difference(arguments[2]), name


def test_pairs_of_columns_leave_by_tma_as_they_lie():
    func = placed(aligned_result(READ))
    assert func.static_tile_scheduler is not None
    [staged] = [op for op in func.walk() if isinstance(op, ts.StageForTmaStoreOp)]
    [stored] = [op for op in func.walk() if isinstance(op, ts.StoreStageOp)]
    assert stored.transposed is not None
    layout = layout_of(staged.value.type)
    assert layout == stored_layout(READ.tile[:2], 2, Held.PAIRS)
    assert not any(isinstance(op, tas.ConvertLayoutOp) for op in func.walk())


@pytest.mark.parametrize("kernel", [READ, replace(READ, tile=(256, 128, 128))])
def test_products_whose_operands_threads_read_spill_nothing(kernel: ProductKernel):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(aligned_result(kernel).encode(), options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("C75" in note for note in notes), notes


def test_what_all_tiles_have_alike_stands_before_the_loop():
    func = kernel_of(clustered(aligned_result(LARGE)))
    [loop] = [op for op in func.body.block.ops if isinstance(op, aa.ForOp)]
    inside = [op for op in loop.walk() if isinstance(op, aa.MakeMemRefOp)]
    assert not inside
    assert sum(isinstance(op, aa.TiledStoreOp) for op in loop.walk()) == 1
    assert isinstance(loop.step.owner, aa.GetNumProgramsOp)


def quotients(text: str) -> int:
    """Divisions of a tile's number by sizes of the grid."""
    func = kernel_of(clustered(text))
    sizes = [op.result for op in func.walk() if isinstance(op, aa.GetGridSizeOp)]
    divisions = [op for op in func.walk() if isinstance(op, aa.DivIOp)]
    return sum(op.operands[1] in sizes for op in divisions)


def test_one_axis_needs_no_division():
    text = aligned_result(LARGE)
    assert quotients(text) == 2
    second = re.search(r"(%\w+), (%\w+), (%\w+) = get_tile_block_id", text)
    assert second is not None
    row, column, _ = second.groups()
    assert quotients(re.sub(rf"{column}\b(?!,| =)", row, text)) == 0


@pytest.mark.parametrize(
    "kernel",
    [
        ProductKernel("f16", (64, 256, 64), form="numbered"),
        ProductKernel("f16", (256, 128, 64)),
        ProductKernel("f16", (64, 128, 64)),
        ProductKernel("f32", (128, 128, 32)),
        ProductKernel("i8", (128, 128, 128), b="transposed", result="i32"),
        ProductKernel("f32", (128, 256, 32), form="numbered", order="rows"),
        replace(LARGE, form="split"),
        replace(LARGE, form="persistent"),
        replace(LARGE, is_aligned=False),
    ],
    ids=lambda kernel: kernel.name,
)
def test_other_kernels_stay(kernel: ProductKernel):
    assert not has_static_tile_scheduler(aligned_result(kernel))


def test_hints_and_switches_keep_one_tile_a_block():
    text = aligned_result(LARGE)
    before = passes_between("check-target", "form-clusters")
    assert "static_tile_scheduler" in run_passes(text.encode(), *before)
    start = text.index("(", text.index("entry @product"))
    end = text.index(") {", start)
    assert not has_static_tile_scheduler(f"{text[: end + 1]} {ONE_CTA}{text[end + 1 :]}")
    for switch in (PREFER_TMA, DELAY_TMA_STORE_WAIT):
        found = run_passes(text.encode(), *before, **{switch: "0"})
        assert "static_tile_scheduler" not in found


@pytest.mark.parametrize(
    ("source", "name", "text"),
    [
        (aligned_result(READ).encode(), "Cluster", "two tile blocks are a cluster of two CTAs"),
        (experts(loop="storing"), "StaticPersistent", "tile blocks go through the grid"),
    ],
    ids=["clusters", "gathered rows"],
)
def test_a_remark_says_what_became_of_tile_blocks(source: bytes, name: str, text: str):
    """A schedule without clusters is told as that."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileas")
    compile_module(source, options, remarks=remarks)
    [remark] = [r for r in remarks.remarks if r.name in ("Cluster", "StaticPersistent")]
    assert remark.name == name
    assert remark.message.startswith(text)
    assert "by a static tile scheduler" in remark.message


@pytest.mark.parametrize(
    ("kind", "element", "is_scheduled"),
    [("full", "f8E4M3FN", True), ("causal", "f8E4M3FN", False), ("full", "f16", False)],
)
def test_warps_that_transpose_values_begin_the_next_block(
    kind: str, element: str, is_scheduled: bool
):
    """Warps that transpose values begin the next block early, under a static schedule."""
    func = kernel_of(clustered(softmax_attention(kind, 128, 128, 128, element=element).decode()))
    assert (func.static_tile_scheduler is not None) == is_scheduled
    assert func.tile_queue is None


def places_of(func: aa.FuncOp, sizes: tuple[int, ...], number: int) -> list[int]:
    """The numbers of the tile block along the axes, for the iteration with a number."""
    values: dict[SSAValue, int] = {}
    for op in func.body.block.ops:
        if isinstance(op, aa.GetGridSizeOp):
            values[op.result] = sizes[op.axis.value.data]
        elif isinstance(op, aa.ForOp):
            values[op.body.block.args[0]] = number
            for inner in op.body.block.ops:
                evaluate(inner, values)
                if isinstance(inner, aa.TiledStoreOp):
                    return [values[index] for index in inner.indices]
        else:
            evaluate(op, values)
    raise AssertionError("nothing is stored")


def evaluate(op: Operation, values: dict[SSAValue, int]) -> None:
    """What arithmetic on known numbers makes."""
    known = [values.get(operand) for operand in op.operands]
    match op, known:
        case aa.ConstantOp(), _ if isinstance(op.result.type, IntegerType):
            values[op.result] = int.from_bytes(op.value.raw.data, "little")
        case aa.AddIOp() | aa.SubIOp() | aa.MulIOp() | aa.DivIOp(), [int(first), int(second)]:
            names = {"addi": add, "subi": sub, "muli": mul, "divi": floordiv}
            values[op.results[0]] = names[op.name.rpartition(".")[2]](first, second)
        case aa.CmpIOp(), [int(first), int(second)]:
            values[op.results[0]] = int(first < second)
        case aa.SelectOp(), [int(condition), int(first), int(second)]:
            values[op.results[0]] = first if condition else second
        case _:
            return


@pytest.mark.parametrize("sizes", [(3, 4, 2), (2, 5, 1), (1, 1, 3), (4, 3, 2)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tiles_that_follow_each_other_are_neighbours_along_an_axis(
    sizes: tuple[int, int, int], axis: int
):
    module = parse_text(aligned_result(replace(LARGE, form="batched")), "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == "convert-cudatile-to-tileaa":
            break
    looped = with_static_tile_scheduler(kernel_of(module), pair_axis=axis)
    assert looped is not None
    # The store's indices are the batch (z), the row (x) and the column (y).
    found = [
        tuple(places_of(looped, sizes, number)[at] for at in (1, 2, 0))
        for number in range(sizes[0] * sizes[1] * sizes[2])
    ]
    assert len(set(found)) == len(found)
    assert all(0 <= place < size for places in found for place, size in zip(places, sizes))
    if axis and not sizes[axis] % 2:
        for first, second in zip(found[::2], found[1::2], strict=True):
            assert second == tuple(n + (at == axis) for at, n in enumerate(first))
