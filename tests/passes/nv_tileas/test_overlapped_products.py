"""Loops whose products feed each other: rotated, waited for late, and the same at every stage."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.compilations import compiled
from tests.kernels.gemm import gemm, with_ctas
from tests.kernels.softmax_attention import KINDS, run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import InterpreterError
from tileiras.options import DYNAMIC_PERSISTENT, CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind


def converted(source: bytes, **_: object):
    """The module after the last pass before threads."""
    module = read_source(source)
    for _name, _stage in passes(module, (), "sm_90", exact=True):
        pass
    return module


def overlapped_attention(kind: str, *sizes: int) -> bytes:
    """Attention that has an SM to itself: its loops are rotated, small as they may be."""
    return with_ctas(softmax_attention(kind, *sizes), 1)


def is_rotated(module, kind: str) -> bool:
    """Whether all loops are: each of their two products stands there twice."""
    products = sum(isinstance(op, wg.WgmmaDotOp) for op in module.walk())
    return products == 4 * len(KINDS[kind])


@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(("rows", "columns", "share"), [(128, 128, 1), (64, 128, 2)])
def test_full_attention_is_the_same_after_any_number_of_iterations(
    iterations, rows, columns, share
):
    source = overlapped_attention("full", rows, columns, 64, share)
    module, length = converted(source), iterations * columns
    assert is_rotated(module, "full")
    wanted = run_attention(read_source(source), rows, length, 64, share)
    assert np.array_equal(wanted, run_attention(module, rows, length, 64, share))


@pytest.mark.parametrize(("rows", "columns"), [(64, 128)])
def test_a_rotated_loop_costs_no_cta(rows, columns):
    source = softmax_attention("full", rows, columns, 64)
    module = converted(source)
    [switch] = [op for op in module.walk() if isinstance(op, pl.AgentSwitchOp)]
    assert switch.ctas.data == 2
    assert is_rotated(module, "full")
    wanted = run_attention(read_source(source), rows, 3 * columns, 64)
    assert np.array_equal(wanted, run_attention(module, rows, 3 * columns, 64))


@pytest.mark.parametrize("kind", ["causal", "masked"])
@pytest.mark.parametrize(("rows", "columns"), [(128, 64), (64, 128)])
def test_causal_attention_is_the_same_in_every_block_of_rows(kind, rows, columns):
    source = overlapped_attention(kind, rows, columns, 64, 2)
    module, length = converted(source), 3 * 128
    assert is_rotated(module, kind)
    blocks = [length // rows]
    wanted = run_attention(read_source(source), rows, length, 64, 2, blocks)
    assert np.array_equal(wanted, run_attention(module, rows, length, 64, 2, blocks))


def lines_of_loop(text: str) -> list[str]:
    """The operations of interest of the consumer's loop, in order."""
    consumer = text[text.index("nv_tileas.async.pipeline.consumer_wait") :]
    loop = consumer[consumer.index('"nv_tileaa.for"') :]
    loop = loop[: loop.index('"nv_tileaa.continue"')]
    return re.findall(r'"nv_tilea[as]\.(?:\w+\.)*(\w+)"', loop)


def test_both_products_are_issued_before_either_is_waited_for():
    names = lines_of_loop(compiled(softmax_attention("full", 128, 128, 128)))
    kept = ("wgmma_dot", "dot_wait", "consumer_wait", "consumer_release", "exp2", "fp_to_fp")
    assert [name for name in names if name in kept] == [
        *("consumer_wait", "wgmma_dot"),
        *("consumer_wait", "wgmma_dot"),
        *("dot_wait", "consumer_release"),
        *("exp2", "exp2"),
        # The probabilities take the registers that the product of the iteration before reads.
        *("dot_wait", "consumer_release", "fp_to_fp"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_waits_leave_later_products_running(kind):
    text = compiled(softmax_attention(kind, 128, 128, 128))
    pending = re.findall(r'dot_wait"\(.*?pending = #builtin.int<(\d)>', text)
    assert pending.count("1") == len(KINDS[kind])


def test_rotation_peels_half_an_iteration_off_each_end():
    grid = {DYNAMIC_PERSISTENT: "0"}
    text = compiled(softmax_attention("full", 128, 128, 128), knobs=grid)
    assert text.count("nv_tileas.wgmma_dot") == 4
    # Queries and the first keys are copied by the consumers' threads.
    assert text.count("nv_tileas.async.tiled_tma_load") == 3
    assert text.count("nv_tileas.async.pipeline.prologue_fill") == 2
    assert text.count("nv_tileas.make_tiled_tma_desc") == 2
    assert text.count("nv_tileas.async.pipeline.create_pipeline") == 3


def test_other_kernels_are_not_rotated():
    assert compiled(gemm(128, 256, 64)).count("nv_tileas.wgmma_dot") == 1
    assert "wgmma_dot" not in compiled(softmax_attention("full", 128, 128, 128), opt_level=0)


def told(source: bytes) -> list[str]:
    """What the pass says of a kernel."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    )
    found = compile_module(source, options, remarks=remarks).remarks.remarks
    return [f"{r.kind.value}: {r.message}" for r in found if r.name == "Overlap"]


def test_remarks_tell_of_the_schedule():
    [message] = told(softmax_attention("full", 128, 128, 128))
    assert re.match(r"passed: .*: \d+ of \d+ cycles, \d+ registers$", message)


def test_too_few_registers_keep_the_loop_as_it_is(monkeypatch):
    from tileiras.planning.schedule import overlap

    monkeypatch.setattr(overlap, "RESERVED_REGISTERS", 100)
    source = softmax_attention("full", 128, 128, 128)
    [message] = told(source)
    assert message.startswith("missed: ")
    assert compiled(source).count("nv_tileas.wgmma_dot") == 2


@pytest.mark.parametrize("change", ["wait_too_short", "read_too_early", "released_too_early"])
def test_the_interpreter_notices_a_product_that_is_not_finished(change):
    source = overlapped_attention("full", 128, 128, 64)
    module = converted(source)
    wanted = run_attention(read_source(source), 128, 512, 64)
    waits = [op for op in module.walk() if isinstance(op, wg.DotWaitOp)]
    short = next(op for op in waits if op.pending.data)
    match change:
        case "wait_too_short":
            short.properties["pending"] = type(short.pending)(2)
        case "read_too_early":
            short.result.replace_all_uses_with(short.acc)
        case _:
            release = short.next_op
            assert isinstance(release, pl.ConsumerReleaseOp)
            release.detach()
            short.parent_block().insert_op_before(release, short)
    try:
        found = run_attention(module, 128, 512, 64)
    except InterpreterError as error:
        assert change != "read_too_early", error
    else:
        assert change == "read_too_early"
        assert not np.array_equal(wanted, found)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(128, 128, 128), (64, 64, 128)])
def test_overlapped_attention_does_not_spill_nor_wait_in_between(rows, columns, depth):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    found = compile_module(overlapped_attention("causal", rows, columns, depth), options)
    assert "0 bytes spilled" in found.notes[0]
    assert not [note for note in found.notes if "C75" in note]


def test_tiles_of_64_rows_overlap_in_two_ctas():
    text = compiled(softmax_attention("full", 64, 128, 64))
    assert "ctas = #builtin.int<2>" in text
    assert 'create_pipeline"() <{stages = #builtin.int<' in text
    loop = text[text.index('"nv_tileaa.for"', text.index("consumer_wait")) :]
    first, second = (match.start() for match in list(re.finditer("nv_tileas.wgmma_dot", loop))[:2])
    assert "nv_tileaa.reduce" not in loop[first:second]
