"""The shape of specialised CTAs: how many share an SM, and how long their pipelines are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.kernels.gemm import aligned, gemm, with_ctas
from tests.kernels.scaled_products import ScaledGemm
from tests.kernels.scaled_products import gemm as scaled_gemm
from tests.kernels.scaled_runs import NV4, WHOLE
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, with_environment
from tileiras.errors import InternalError
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileas import pipeline_stages
from tileiras.planning.resources.cta import (
    PipelineRequirements,
    Requirements,
    choose_cta_config,
    cta_configs,
    stages_of_pipelines,
)

SM_90 = get_target("sm_90")


def requirements(registers: int, stage: int = 32768, **changes: object) -> Requirements:
    """A product of so many accumulators in one warpgroup, half as many in two."""
    counts = {1: registers, 2: registers // 2}
    pipelines = (PipelineRequirements(stage, 2),)
    values: dict[str, object] = {"elements": registers * 128, "at_work": {1: 0, 2: 0}, **changes}
    return Requirements(counts, counts, counts, pipelines=pipelines, **values)  # pyright: ignore


def busy(registers: int, stage: int = 32768, **changes: object) -> Requirements:
    """The same of a kernel that computes between its products."""
    return requirements(registers, stage, **{"at_work": {1: 16, 2: 8}, **changes})  # pyright: ignore


@pytest.mark.parametrize("shape", cta_configs(SM_90), ids=str)
def test_every_shape_fits_the_registers_of_each_part_of_an_sm(shape):
    warps = shape.ctas * (shape.consumer_warps + shape.producer_warps)
    if shape.producer_registers:
        # What is launched is even, and what consumers get is what producers give.
        registers = (
            shape.ctas
            * 32
            * (
                shape.consumer_warps * shape.consumer_registers
                + shape.producer_warps * shape.producer_registers
            )
        )
        assert registers <= SM_90.registers_per_sm
    else:
        busiest = -(-warps // SM_90.partitions)
        assert busiest * 32 * shape.registers * SM_90.partitions <= SM_90.registers_per_sm


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (busy(128), (1, 2)),
        (busy(32), (1, 2)),
        (busy(256, 49152), (2, 1)),
        (busy(128, is_persistent=True), (2, 1)),
        (busy(128, wanted_ctas=1), (2, 1)),
        (requirements(64, 16384, wanted_ctas=3), (1, 3)),
        (requirements(128, wanted_warpgroups=2, wanted_ctas=1), (2, 1)),
        (requirements(64, wanted_warpgroups=1, wanted_ctas=1), (1, 1)),
    ],
)
def test_small_tiles_share_an_sm_if_threads_compute_between_products(asked, expected):
    shape = choose_cta_config(asked, SM_90)
    assert shape is not None
    assert (shape.warpgroups, shape.ctas) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (requirements(128), (2, 1)),
        (requirements(32), (2, 1)),
        (requirements(256, 49152), (2, 1)),
        (requirements(128, is_persistent=True), (2, 1)),
        (requirements(128, wanted_ctas=2), (1, 2)),
        (requirements(32, wanted_ctas=2), (1, 2)),
    ],
)
def test_plain_products_have_an_sm_to_themselves_unless_hinted(asked, expected):
    shape = choose_cta_config(asked, SM_90)
    assert shape is not None
    assert (shape.warpgroups, shape.ctas) == expected


SCALED = scaled_gemm(ScaledGemm(*NV4, (128, 128, 128), WHOLE))
ADDING = scaled_gemm(ScaledGemm(*NV4, (128, 128, 128), WHOLE, adds=True))


@pytest.mark.parametrize(
    ("text", "target", "disabled", "expected"),
    [
        (SCALED, "sm_120", (), (1, 2)),
        (SCALED, "sm_121", (), (1, 2)),
        (gemm(128, 128, 32), "sm_120", (), (1, 2)),
        (gemm(128, 128, 64), "sm_90", ("wgmma",), (1, 2)),
        (ADDING, "sm_120", (), (2, 1)),
        (ADDING, "sm_121", (), (2, 1)),
    ],
    ids=["nvf4", "nvf4 sm_121", "f16", "sm_90", "adds", "adds sm_121"],
)
def test_eight_warps_where_four_have_no_room_for_what_follows_the_product(
    text, target, disabled, expected
):
    options = CompileOptions(
        gpu_name=target, emit="nv_tileas", disabled_features=disabled, print_generic=True
    )
    planned = compile_module(text if isinstance(text, bytes) else text.encode(), options)
    warpgroups, ctas = expected
    assert f"consumer_warps = #builtin.int<{4 * warpgroups}>" in planned.output.decode()
    assert f"ctas = #builtin.int<{ctas}>" in planned.output.decode()


@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(128, 128, 8), (128, 64, 8), (64, 128, 4), (64, 64, 4)]
)
def test_a_plain_product_is_planned_with_one_cta_per_sm(rows, columns, warps):
    text = built(gemm(rows, columns, 64), "nv_tileas").output.decode()
    assert "ctas = #builtin.int<1>" in text
    assert f"consumer_warps = #builtin.int<{warps}>" in text


def test_left_operands_take_the_place_of_what_they_are_made_of_where_nothing_else_fits():
    counts = {1: 256}
    asked = Requirements(
        {1: 128}, counts, counts, {1: 128}, (PipelineRequirements(65536, 1),), 16384, columns=256
    )
    assert choose_cta_config(asked, SM_90) is None
    shape = choose_cta_config(replace(asked, in_place={1: 193}), SM_90)
    assert shape is not None
    assert (shape.warpgroups, shape.ctas) == (1, 1)
    assert choose_cta_config(replace(asked, in_place={1: 201}), SM_90) is None


def test_a_first_spare_stage_may_take_all_memory():
    pipelines = (
        PipelineRequirements(64 * KIB, 1),
        PipelineRequirements(64 * KIB, 1),
        PipelineRequirements(16 * KIB, 1, False),
    )
    assert stages_of_pipelines(pipelines, 220 * KIB) == (2, 1, 1)


def test_no_shape_holds_too_many_accumulators_or_too_long_stages():
    assert choose_cta_config(requirements(512), SM_90) is None
    assert choose_cta_config(requirements(128, 120 * 1024), SM_90) is None


def test_pipelines_grow_in_turn_and_only_where_it_helps():
    pipelines = (
        PipelineRequirements(32, 1),
        PipelineRequirements(32, 1),
        PipelineRequirements(16, 1, may_grow=False),
    )
    assert stages_of_pipelines(pipelines, 16 + 3 * 32) == (2, 1, 1)
    assert stages_of_pipelines(pipelines, 16 + 4 * 32) == (2, 2, 1)
    assert stages_of_pipelines(pipelines, 16 + 32) is None


def test_what_does_not_come_does_not_count_against_what_may_be_on_its_way():
    assert stages_of_pipelines((PipelineRequirements(64 * KIB, 2),), 220 * KIB) == (2,)
    assert stages_of_pipelines(
        (PipelineRequirements(64 * KIB, 2, skipped_bytes=16 * KIB),), 220 * KIB
    ) == (3,)
    assert stages_of_pipelines(
        (PipelineRequirements(64 * KIB, 2, skipped_bytes=16 * KIB),), 190 * KIB
    ) == (2,)


def test_a_pipeline_of_long_latency_gets_stages_first():
    pipelines = (PipelineRequirements(32, 1), PipelineRequirements(32, 1, extra_stages=1))
    assert [stages_of_pipelines(pipelines, room * 32) for room in (2, 3, 4, 5)] == [
        (1, 1),
        (1, 2),
        (2, 2),
        (2, 3),
    ]


KIB = 1024


@pytest.mark.parametrize(
    ("stages_of", "stages"),
    [
        ((16,), (8,)),
        ((8,), (8,)),
        ((24,), (5,)),
        ((32,), (4,)),
        ((40,), (4,)),
        ((48,), (3,)),
        ((16, 16), (4, 4)),
        ((24, 16), (4, 4)),
        ((32, 32), (3, 2)),
    ],
)
def test_pipelines_are_short_where_much_would_be_on_its_way(stages_of, stages):
    pipelines = tuple(PipelineRequirements(size * KIB, 1) for size in stages_of)
    assert stages_of_pipelines(pipelines, SM_90.shared_memory_of_each(1)) == stages


def test_pipelines_that_threads_read_are_longer():
    kilobyte = 1024
    pipeline = PipelineRequirements(48 * kilobyte, 1, is_read=True)
    assert stages_of_pipelines([pipeline], 220 * kilobyte) == (4,)


def test_what_is_a_pipelines_own_in_any_case_may_all_be_on_its_way():
    pipeline = PipelineRequirements(20 * KIB, 2)
    assert stages_of_pipelines([pipeline], 200 * KIB) == (6,)
    assert stages_of_pipelines([pipeline], 200 * KIB, 200 * KIB) == (8,)
    assert stages_of_pipelines([pipeline], 200 * KIB, 144 * KIB) == (7,)
    assert stages_of_pipelines([pipeline], 100 * KIB, 200 * KIB) == (5,)


def test_pipelines_are_as_long_as_a_kernel_needs_them():
    pipelines = (PipelineRequirements(32 * KIB, 6),)
    assert stages_of_pipelines(pipelines, SM_90.shared_memory_of_each(1)) == (6,)


def built(source: bytes, emit: str = "cubin"):
    """A kernel for sm_90."""
    return compile_module(
        source, with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    )


@pytest.mark.parametrize(
    ("rows", "columns", "stages"), [(128, 128, 3), (64, 256, 2), (64, 128, 4), (64, 64, 6)]
)
def test_two_ctas_of_a_small_product_fit_an_sm(rows, columns, stages):
    source = with_ctas(gemm(rows, columns, 64), 2)
    artefacts = built(source)
    kernel = artefacts.kernels[0]
    assert "0 bytes spilled" in artefacts.notes[0]
    assert kernel.registers <= 168
    assert 2 * (kernel.shared_memory_bytes + 1024) <= SM_90.shared_memory_per_sm
    text = built(source, "nv_tileas").output.decode()
    assert "ctas = #builtin.int<2>" in text
    assert f'create_pipeline"() <{{stages = #builtin.int<{stages}>' in text


def test_stages_become_scratch_memory_after_the_last_product():
    source = aligned(gemm(128, 128, 64))
    text = built(source, "nv_tileas").output.decode()
    [free] = re.findall(r'"nv_tileas.async.pipeline.free_pipelines"\(%\w+\)', text)
    assert text.index("nv_tileas.dot_wait") < text.index(free) < text.index('convert_layout"(')
    ptx = built(source, "ptx").output.decode()
    assert not re.search(r"\.shared .* scratch\[", ptx)


def test_a_kernel_that_holds_more_stages_than_planned_gets_them_if_there_is_room(monkeypatch):
    source = with_ctas(gemm(64, 128, 64), 2)
    for held in (1, 4):
        holds(monkeypatch, held)
        text = built(source, "nv_tileas").output.decode()
        [stages] = re.findall(r"create_pipeline\"\(\) <\{stages = #builtin.int<(\d)>", text)
        assert int(stages) >= max(2, held)


def test_stages_that_do_not_fit_are_our_fault(monkeypatch):
    """As if the consumers' program held five stages of 24 KB, with two CTAs on an SM."""
    holds(monkeypatch, 5)
    message = "tileas-optimize-alloc-tensor: the least stages do not fit into .* shared memory"
    with pytest.raises(InternalError, match=message):
        built(with_ctas(gemm(64, 128, 64), 2), "nv_tileas")


def holds(monkeypatch, count):
    """As if the consumers' program held so many stages of each pipeline."""
    found = "most_held"
    monkeypatch.setattr(pipeline_stages, found, lambda body: dict.fromkeys(waited_for(body), count))


def waited_for(body):
    """The pipelines of the consumers' program."""
    ops = [inner for op in body.ops for inner in op.walk()]
    return [op.pipeline for op in ops if isinstance(op, pl.ConsumerWaitOp)]
