"""The consumers' threads fetch the first tiles while the producer makes tensor maps."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.gemm import gemm, persistent
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.codegen.atoms.tma_boxes import thread_rows
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.planning.schedule import prologue as prologue_fill

SHAPES = ((64, 384), (384, 128))
ONE_LOOP = ((1, 1), (2, 2))
"""Or one of two: for the tile block alone, and with its neighbour."""


def placed(source: bytes) -> ModuleOp:
    """A kernel of a tile a block after its layouts have been chosen for sm_90.

    Of tile blocks that draw tiles from a queue nobody fetches the first one early.
    """
    module = parse_text(source.decode(), "kernel.mlir")
    for _ in passes(module, (), "sm_90", exact=True, left_out=("tileas-dynamic-persistent",)):
        pass
    return module


def starts(module: ModuleOp) -> tuple[int, int]:
    """How often the consumers fetch tiles, and the producer passes over some."""
    operations = list(module.walk())
    return (
        sum(isinstance(op, pl.PrologueFillOp) for op in operations),
        sum(isinstance(op, pl.ProducerSkipOp) for op in operations),
    )


@pytest.fixture
def any_size(monkeypatch):
    """Small products are filled by the prologue, too."""
    monkeypatch.setattr(prologue_fill, "LEAST_ELEMENTS", 0)


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (64, 128, 64), (64, 256, 64)])
def test_a_loop_that_comes_once_has_a_prologue_fill(tile):
    assert starts(placed(gemm(*tile))) in ONE_LOOP


@pytest.mark.parametrize(("step", "has_start"), [(64, True), (32, True), (36, False)])
def test_tiles_start_with_a_chunk(step: int, has_start: bool):
    """TMA takes tiles from any element on, but threads copy 16 bytes at once."""
    text = ProductKernel("f16", (128, 256, 64)).text()
    view = re.compile(r"partition_view<(tile=\(128x64\))")
    text = view.sub(rf"strided_view<\1, traversal_strides=[128, {step}]", text)
    text = text.replace("%pA = make_partition_view", "%pA = make_strided_view")
    module = placed(text.encode())
    assert any(isinstance(op, pl.TmaLoadOp) for op in module.walk())
    assert (starts(module) != (0, 0)) == has_start


def test_shared_copies_have_none():
    clustered = replace(ProductKernel("f16", (128, 256, 64)), cluster=2)
    assert starts(placed(clustered.text().encode())) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "tile", "expected"),
    [
        ("full", (128, 128), 2),
        ("causal", (128, 128), 2),
        # A tile of keys comes in parts of 128.
        ("full", (64, 256), 2),
        # Two tile blocks are one of 128 rows.
        ("full", (64, 64), 2),
        # Two CTAs on an SM start beside each other's work.
        ("causal", (64, 64), 0),
    ],
)
def test_attention_starts_with_the_operands_of_its_first_product(kind, tile, expected):
    module = placed(softmax_attention(kind, *tile, 128))
    assert starts(module) == (expected, expected)


@pytest.mark.parametrize("iterations", [0, 1, 2, 3])
@pytest.mark.parametrize("tile", [(64, 256), (128, 128)])
def test_attention_is_right_after_any_number_of_iterations(tile, iterations):
    source = softmax_attention("full", *tile, 128)
    module, length = placed(source), iterations * tile[1]
    assert starts(module) != (0, 0)
    wanted = run_attention(parse_text(source.decode(), "kernel.mlir"), tile[0], length, 128)
    found = run_attention(module, tile[0], length, 128)
    # Parts of a tile of keys are added up in another order.
    close = np.allclose(
        found.view(np.float16), wanted.view(np.float16), rtol=1e-3, atol=1e-4, equal_nan=True
    )
    assert close if tile == (64, 256) else np.array_equal(wanted, found)


@pytest.mark.parametrize("tiles", [1, 2, 3])
def test_causal_attention_starts_in_a_branch(tiles: int):
    """The first tile block has nothing but its masked tile, which comes to the same stages."""
    source = softmax_attention("causal", 128, 128, 128)
    module = placed(source)
    inner = [op for op in module.walk() if isinstance(op, pl.PrologueFillOp)]
    assert any(isinstance(op.parent_op(), aa.IfOp) for op in inner)
    wanted = run_attention(parse_text(source.decode(), "kernel.mlir"), 128, 128 * tiles, 128)
    assert np.array_equal(wanted, run_attention(module, 128, 128 * tiles, 128))


def in_branch(source: bytes, is_taken: bool) -> bytes:
    """A kernel whose loop, behind a first product, stands in one of the branches of an if."""
    text = source.decode()
    start, end = text.index("%sums_0, %top_0"), text.index("%ob = broadcast")
    loop = text[start:end]
    load = loop[loop.index("%k3_0") : loop.index("%x_0 = ")].replace("_0", "_P")
    load = load.replace("%j_P", "%c0")
    sums = loop[loop.index("%y_0 = reduce") : loop.index("%lo_0")].replace("_0", "_P")
    loop = load + sums.replace("%w_P", "%p_P") + loop.replace("%l_0 = %zr", "%l_0 = %y1_P")
    rows = text[text.index("%zr = ") :].split(" : ")[1].split()[0]
    wide = text[text.index("%zo = ") :].split(" : ")[1].split()[0]
    branches = [
        f"{loop} yield %sums_0, %acc_0 : {rows}, {wide}",
        f"yield %zr, %zo : {rows}, {wide}",
    ]
    compare = "greater_than" if is_taken else "less_than_or_equal"
    taken, other = branches if is_taken else reversed(branches)
    branch = f"""%is = cmpi {compare} %heads, %c0, signed : tile<i32> -> tile<i1>
    %sums, %acc = if %is -> ({rows}, {wide}) {{ {taken} }} else {{ {other} }}
    """
    tail = text[end:].replace("%sums_0", "%sums").replace("%acc_0", "%acc")
    return (text[:start] + branch + tail).encode()


@pytest.mark.parametrize(("is_taken", "expected"), [(True, 2), (False, 0)])
def test_first_product_in_either_branch_is_right(is_taken, expected):
    source = in_branch(softmax_attention("full", 128, 128, 128), is_taken)
    module = placed(source)
    assert starts(module) == (expected, expected)
    wanted = run_attention(parse_text(source.decode(), "kernel.mlir"), 128, 256, 128)
    assert np.array_equal(wanted, run_attention(module, 128, 256, 128))


def counted(first: int, second: int) -> str:
    """A product whose loop counts its iterations; a second loop goes on where that says."""
    text, sum_type = gemm(64, 128, first).decode(), "tile<64x128xf32>"
    view = "partition_view<tile=(%s), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>"
    left, right = view % f"64x{second}", view % f"{second}x128"
    for old, new in (
        ("%acc, %tl = for", "%acc, %tl, %n = for"),
        (
            "%t = %t0) -> (" + sum_type + ", token)",
            f"%t = %t0, %n0 = %c0) -> ({sum_type}, token, I)",
        ),
        (
            f"continue %d, %t : {sum_type}, token",
            f"""%n1 = addi %n0, %c1 : I
      continue %d, %t, %n1 : {sum_type}, token, I""",
        ),
        (
            "%h = ftof %acc",
            f"""%pa2 = make_partition_view %ta : {left}
    %pb2 = make_partition_view %tb : {right}
    %c2 = constant <i32: 2> : I
    %sum = for %k2 in (%c0 to %c2, step %c1) : I iter_values(%e0 = %acc) -> ({sum_type}) {{
      %at = addi %k2, %n : I
      %a2, %ka2 = load_view_tko weak %pa2[%bx, %at] token = %t0
        : {left}, I -> tile<64x{second}xf16>, token
      %b2, %kb2 = load_view_tko weak %pb2[%at, %by] token = %t0
        : {right}, I -> tile<{second}x128xf16>, token
      %d2 = mmaf %a2, %b2, %e0
        : tile<64x{second}xf16>, tile<{second}x128xf16>, {sum_type}
      continue %d2 : {sum_type}
    }}
    %h = ftof %sum""",
        ),
    ):
        text = text.replace(old, new)
    return re.sub(r"\bI\b", "tile<i32>", text)


def nested(first: int, second: int) -> str:
    """The second loop in the first one."""
    text = counted(first, second)
    start, end = text.index("%sum = for"), text.index("%h = ftof")
    views, inner = text.index("%pa2 ="), text[start:end]
    defined = text[views:start]
    text = text[:views] + text[end:].replace("%sum ", "%acc ")
    inner = inner.replace("%e0 = %acc", "%e0 = %d").replace("%k2, %n :", "%k2, %k :")
    text = text.replace("%acc, %tl, %n = for", defined + "%acc, %tl, %n = for")
    return text.replace("%n1 = addi", inner + "%n1 = addi").replace(
        "continue %d,", "continue %sum,"
    )


@pytest.mark.parametrize("text_of", [counted, nested])
@pytest.mark.usefixtures("any_size")
def test_producer_passes_over_nothing_else(text_of):
    random = np.random.default_rng(0)
    left, right = (random.integers(-2, 3, shape).astype(np.float16) for shape in SHAPES)
    wanted, result = np.zeros((2, 64, 128), np.float16)
    source = text_of(128, 64)
    module = placed(source.encode())
    assert starts(module) == (0, 0)
    sizes = [np.int32(size) for size in (64, 128, 384)]
    for kernel, made in ((parse_text(source, "kernel.mlir"), wanted), (module, result)):
        run_entry(kernel, "gemm", [left, right, made, *sizes], (1, 1, 1))
    assert np.array_equal(wanted, result)


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
    assert starts(module) in ONE_LOOP
    run_entry(module, "gemm", [left, right, result, *sizes], (2, 2, 1))
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


@pytest.mark.parametrize("depth", [0, 16, 64, 128, 208, 400])
@pytest.mark.parametrize("rows", [80, 272, 720])
def test_a_loop_over_tiles_starts_with_the_first_one(depth: int, rows: int):
    """Stages without a tile of a short first one belong to the next; there may be none."""
    columns = 528
    random = np.random.default_rng(depth)
    left = random.integers(-2, 3, (rows, depth)).astype(np.float16)
    right = random.integers(-2, 3, (depth, columns)).astype(np.float16)
    result = np.full((rows, columns), 7, np.float16)
    sizes = [np.int32(size) for size in (rows, columns, depth)]
    module = placed(persistent(128, 256, 64))
    assert starts(module) == (1, 1)
    run_entry(module, "gemm", [left, right, result, *sizes], (2, 3, 1))
    wanted = left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(result.astype(np.float32), wanted)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "kernel",
    [
        ProductKernel("f16", (64, 128, 64)),
        ProductKernel("bf16", (64, 128, 64), a="column", b="transposed"),
        ProductKernel("f8E4M3FN", (64, 64, 128), b="transposed"),
        ProductKernel("i8", (64, 64, 128), b="transposed"),
    ],
    ids=lambda kernel: kernel.name,
)
@pytest.mark.usefixtures("any_size")
def test_every_placement_of_operands_is_right(kernel: ProductKernel, seed: int):
    case = make_case(kernel, seed)
    module = placed(kernel.text().encode())
    assert starts(module) in ONE_LOOP
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])


def test_rows_are_divided_among_threads_or_not_copied():
    module = placed(gemm(128, 256, 64))
    start = next(op for op in module.walk() if isinstance(op, pl.PrologueFillOp))
    left, right = (view.type for view in start.views)
    assert isinstance(left, aa.TiledViewType)
    assert isinstance(right, aa.TiledViewType)
    assert thread_rows(left, 1, 256) == (0, 128)
    assert thread_rows(right, 1, 256) == (0, 64)
    assert thread_rows(right, 1, 1024) is None
