"""The shape of specialised CTAs: how many share an SM, and how long their rings are."""

from __future__ import annotations

import re

import pytest

from tests.passes.nv_tileas.gemm import aligned, gemm
from tileiras.codegen.target import get_target
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper import slots
from tileiras.passes.nv_tileaa_to_nv_tileas.hopper.cta_shape import (
    PARTITIONS,
    Demand,
    RingDemand,
    choose_shape,
    cta_shapes,
    ring_stages,
)

SM_90 = get_target("sm_90")


def demand(registers: int, slot: int = 32768, **changes: object) -> Demand:
    """A product of so many accumulators in one warpgroup, half as many in two."""
    counts = {1: registers, 2: registers // 2}
    rings = (RingDemand(slot, 2),)
    values: dict[str, object] = {"elements": registers * 128, "at_work": {1: 0, 2: 0}, **changes}
    return Demand(counts, counts, counts, rings=rings, **values)  # pyright: ignore


@pytest.mark.parametrize("shape", cta_shapes(SM_90), ids=str)
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
        busiest = -(-warps // PARTITIONS)
        assert busiest * 32 * shape.registers * PARTITIONS <= SM_90.registers_per_sm


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (demand(128), (1, 2)),
        (demand(32), (1, 2)),
        (demand(256, 49152), (2, 1)),
        (demand(128, is_persistent=True), (2, 1)),
        (demand(128, wanted_ctas=1), (2, 1)),
        (demand(64, 16384, wanted_ctas=3), (1, 3)),
        (demand(128, wanted_warpgroups=2, wanted_ctas=1), (2, 1)),
        (demand(64, wanted_warpgroups=1, wanted_ctas=1), (1, 1)),
    ],
)
def test_small_tiles_share_an_sm(asked, expected):
    shape = choose_shape(asked, SM_90)
    assert shape is not None
    assert (shape.warpgroups, shape.ctas) == expected


def test_no_shape_holds_too_many_accumulators_or_too_long_slots():
    assert choose_shape(demand(512), SM_90) is None
    assert choose_shape(demand(128, 120 * 1024), SM_90) is None


def test_rings_grow_in_turn_and_only_where_it_helps():
    rings = (RingDemand(32, 1), RingDemand(32, 1), RingDemand(16, 1, may_grow=False))
    assert ring_stages(rings, 16 + 3 * 32) == (2, 1, 1)
    assert ring_stages(rings, 16 + 4 * 32) == (2, 2, 1)
    assert ring_stages(rings, 16 + 32) is None


def built(source: bytes, emit: str = "cubin"):
    """A kernel for sm_90."""
    return compile_module(source, with_environment(CompileOptions(gpu_name="sm_90", emit=emit)))


@pytest.mark.parametrize(
    ("rows", "columns", "stages"), [(128, 128, 3), (64, 256, 2), (64, 128, 4), (64, 64, 6)]
)
def test_two_ctas_of_a_small_product_fit_an_sm(rows, columns, stages):
    artefacts = built(gemm(rows, columns, 64))
    kernel = artefacts.kernels[0]
    assert "0 bytes spilled" in artefacts.notes[0]
    assert kernel.registers <= 168
    assert 2 * (kernel.shared_memory_bytes + 1024) <= SM_90.shared_memory_per_sm
    text = built(gemm(rows, columns, 64), "nv_tileas").output.decode()
    assert f'create_pipeline"() <{{stages = #builtin.int<{stages}>' in text


def test_slots_become_scratch_memory_after_the_last_product():
    source = aligned(gemm(128, 128, 64))
    text = built(source, "nv_tileas").output.decode()
    [free] = re.findall(r'"nv_tileas.free_pipelines"\(\)', text)
    assert text.index("nv_tileas.dot_wait") < text.index(free) < text.index('convert_layout"(')
    ptx = built(source, "ptx").output.decode()
    assert not re.search(r"\.shared .* scratch\[", ptx)


def test_a_kernel_that_holds_more_slots_than_planned_is_planned_again(monkeypatch):
    """As if the consumers' program held five slots of 24 KB: one CTA has an SM to itself then."""
    source = gemm(64, 128, 64)
    before = built(source, "nv_tileas").output.decode()
    monkeypatch.setattr(slots, "most_held", lambda body: dict.fromkeys(waited_for(body), 5))
    text = built(source, "nv_tileas").output.decode()
    assert "ctas = #builtin.int<2>" in before
    assert "ctas = #builtin.int<1>" in text
    [stages] = re.findall(r"create_pipeline\"\(\) <\{stages = #builtin.int<(\d)>", text)
    assert int(stages) >= 5


def waited_for(body):
    """The pipelines of the consumers' program."""
    ops = [inner for op in body.ops for inner in op.walk()]
    return [op.pipeline for op in ops if isinstance(op, pl.ConsumerWaitOp)]
