"""Products whose left operand lies in rows anywhere: gathered by cp.async, multiplied by wgmma."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from tests.kernels.gather import experts, experts_case, gathered_right, right_case
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.stage_comparison import passes
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.lowering.gathers import chunk_offsets, panel_layout
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions
from tileiras.planning.operands.gather import chunk_layout, gathered_axis


def compiled(source: bytes, emit: str = "nv_tileas", **changes: object) -> str:
    """The text of a stage for sm_90."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    return compile_module(source, replace(options, **changes)).output.decode()


def converted(source: bytes) -> ModuleOp:
    """The module at the nv_tileas stage."""
    module = read_source(source)
    for _ in passes(module, (), "sm_90"):
        pass
    return module


IN_TWO_TILES = {"computed": 2, "carried": 4}
"""Gathers of a kernel of two tiles, whose loop serves one alone, too: where experts differ the
tiles are computed in passes, or, with pointers that the loop hands on, in a loop of their own.
"""


def gathers_in(module: ModuleOp) -> list[pl.GatherLoadOp]:
    """The gathers of a module."""
    return [op for op in module.walk() if isinstance(op, pl.GatherLoadOp)]


@pytest.mark.parametrize("loop", ["computed", "carried"])
@pytest.mark.parametrize("blocks", [4, 5])
def test_two_tiles_gather_their_own_rows(monkeypatch: pytest.MonkeyPatch, blocks: int, loop: str):
    """Neighbours of the same expert and of others; the last one may be alone."""
    set_multiprocessors(monkeypatch, 1)
    module = converted(experts(loop=loop))
    assert len(gathers_in(module)) == IN_TWO_TILES[loop]
    case = experts_case(128, 128, 144, 160, blocks=blocks)
    case.arguments[4][1] = case.arguments[4][0]
    wanted = case.wanted.copy()
    for row, token in enumerate(case.arguments[3][128:256], 128):
        if token < 40:
            weights = case.arguments[1][case.arguments[4][1]].astype(np.float32)
            wanted[row] = case.arguments[0].reshape(40, 144)[token].astype(np.float32) @ weights
    run_entry(module, "experts", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], wanted)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "loop", "size", "width"),
    [
        (128, 128, 64, "computed", 144, 160),
        (128, 64, 64, "carried", 144, 64),
        (64, 64, 128, "computed", 80, 80),
        (64, 64, 64, "carried", 64, 64),
        (32, 64, 64, "carried", 80, 80),
        (16, 128, 64, "computed", 144, 160),
    ],
)
def test_multiplies_rows_from_anywhere(rows, columns, depth, loop, size, width):
    """Several experts, masked rows whose addresses are out of reach, ragged depth and columns."""
    case = experts_case(rows, columns, size, width)
    module = converted(experts(rows, columns, depth, loop))
    assert len(gathers_in(module)) in (1, 2, 3, 4)
    run_entry(module, "experts", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


def test_the_order_of_the_producer_is_no_matter_of_results():
    """Neither in shared memory nor in what comes out; only how long it takes."""
    first = passes_between("check-target", "convert-tileaa-to-tileas")
    module = read_source(run_passes(experts(), *first).encode())
    case = experts_case(128, 128, 144, 160)
    run_entry(module, "experts", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


@pytest.mark.parametrize("align", [8, 4])
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "loop"),
    [(128, 128, 64, "computed"), (64, 64, 128, "carried"), (256, 64, 64, "computed")],
)
def test_gathers_shorter_chunks(rows, columns, depth, loop, align):
    case = experts_case(rows, columns, 144, 160, align=align)
    module = converted(experts(rows, columns, depth, loop, align))
    assert {gather.vector.data for gather in gathers_in(module)} == {align // 2}
    run_entry(module, "experts", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_gathers_right_operands_too(is_transposed):
    """Both ways round: rows of the depth, or columns that are transposed before the product."""
    case = right_case(is_transposed)
    module = converted(gathered_right(is_transposed))
    assert sum(isinstance(op, pl.GatherLoadOp) for op in module.walk()) == 1
    run_entry(module, "right", case.arguments, case.grid)
    np.testing.assert_array_equal(case.arguments[case.output], case.wanted)


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        (experts(align=2), {}),
        (experts(padding="1.0"), {}),
        (experts(padding="-0.0"), {}),
        (experts(loop="storing", ordered=True), {}),
        (experts(overwrites=True), {}),
        (experts(rows=32, columns=32), {}),
        (experts(), {"disabled_features": ("cp-async",)}),
        (experts(), {"disabled_features": ("tma",)}),
        (experts(), {"gpu_name": "sm_80"}),
    ],
    ids=[
        "unaligned",
        "padding",
        "negative_zero",
        "after_stores",
        "indices_overwritten",
        "few_rows",
        "no_cp_async",
        "no_tma",
        "sm_80",
    ],
)
def test_does_not_gather(source, changes):
    assert "gather_load" not in compiled(source, **changes)


def test_stores_that_do_not_come_before_are_no_hindrance():
    assert "gather_load" in compiled(experts(loop="storing"))


def test_producer_computes_pointers_without_moving_tiles():
    source = experts(256)
    one_tile = b") optimization_hints=<sm_90 = {num_cta_in_cga = 1}> {"
    text = compiled(source.replace(b") {", one_tile, 1))
    start = text.index("nv_tileas.async.pipeline.agent_switch")
    producer = text[start : text.index("}, {", start)]
    assert "convert_layout" not in producer
    # The rows' numbers are loaded once, before the loop, and nothing waits for them at once.
    loaded, maps = producer.rindex("nv_tileas.load"), producer.index("make_tiled_tma_desc")
    assert (
        loaded < maps < producer.index('"nv_tileaa.muli"', maps) < producer.index("nv_tileaa.for")
    )


@pytest.mark.parametrize("align", [16, 8, 4])
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 128, 64), (64, 64, 64)])
def test_does_not_spill(shape, align):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    artefacts = compile_module(experts(*shape, align=align), options)
    assert "0 bytes spilled" in artefacts.notes[0]


@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize(("axis", "bits"), [(1, 8), (0, 16), (1, 16), (1, 32)])
def test_panels_lie_as_tma_writes_them(axis, bits, swizzle):
    """wgmma reads only 16-bit operands the other way round."""
    operand = SharedOperand("k" if axis == 1 else "mn", 128, 256, bits, swizzle)
    assert panel_layout((128, 256), axis, bits, swizzle) == operand.layout(1)


@pytest.mark.parametrize("align", [16, 8, 4])
@pytest.mark.parametrize(("rows", "depth"), [(128, 64), (64, 128), (256, 64), (128, 32), (64, 16)])
def test_every_chunk_has_one_place(rows, depth, align):
    module = read_source(experts(rows, 64, depth, align=align))
    for _, stage in passes(module, (), "sm_90"):
        if stage == "nv_tileaa":
            gathers = [op for op in module.walk() if isinstance(op, aa.LoadOp)]
    gather, *_ = [op for op in gathers if op.mask is not None and gathered_axis(op) is not None]
    layout = chunk_layout(gather)
    swizzle = min(128, 2 * depth)
    terms = chunk_offsets(layout, 1, 16, swizzle)
    operand = SharedOperand("k", rows, depth, 16, swizzle).layout()
    seen = set()
    for lane in range(32):
        for warp in range(4):
            for register, offset in enumerate(terms.register):
                place = terms.base(lane, warp) ^ offset
                element = layout.apply(register=register, lane=lane, warp=warp)
                assert operand.apply(offset=place) == element
                seen.add(place)
    assert seen == set(range(0, rows * depth, align // 2))
    # Lanes that store at once reach different banks: 32 for words, half as many for two of them.
    together = min(32, 128 // align)
    banks = {terms.base(lane, 0) * 2 // align % (128 // align) for lane in range(together)}
    assert len(banks) == together


def test_one_thread_issues_tma_before_all_compute_addresses():
    text = compiled(experts(128, 128, 64, "computed"))
    order = ("producer_acquire", "tiled_tma_load", "gather_load", "producer_commit")
    places = [text.index(f'.{name}"') for name in order]
    assert places == sorted(places)


def test_consumers_compute_no_pointers_of_others():
    """Rows are gathered by the producer: nothing of them is left, nor handed on to a pass."""
    [switch] = [op for op in converted(experts()).walk() if isinstance(op, pl.AgentSwitchOp)]
    pointers = [
        [op for op in role.walk() if isinstance(op, aa.AddPtrOp) and is_tile(op.result)]
        for role in (switch.producer, switch.consumer)
    ]
    assert pointers[0]
    assert not pointers[1]
    [passes_of_loops] = [op for op in switch.consumer.block.ops if isinstance(op, aa.ForOp)]
    assert not any(map(is_tile, passes_of_loops.results))
    source = next(op for op in switch.producer.walk() if isinstance(op, aa.ForOp))
    assert any(map(is_tile, source.results))


def is_tile(value: SSAValue) -> bool:
    """Whether a value has rows and columns."""
    return isinstance(value.type, TensorType) and len(value.type.get_shape()) > 1
