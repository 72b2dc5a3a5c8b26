"""Loops of which two products read one tile: each is issued early, the last one an iteration
late.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.attention import attention_gradient
from tests.kernels.gemm import with_ctas
from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions
from tileiras.planning.layouts import equivalence_classes
from tileiras.planning.operands import rows
from tileiras.planning.schedule import overlap
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

LAST = "tileas-optimize-dot-accumulation"
SIZES = ((128, 64, 64), (128, 64, 128), (64, 64, 128), (64, 128, 64))


def remarks_of(source: bytes) -> list[str]:
    """What is said of a kernel, ptxas's notes included."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(source, options, remarks=remarks).notes
    return [remark.message for remark in remarks.remarks] + list(notes)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_are_issued_before_the_first_is_waited_for(sizes: tuple[int, int, int]) -> None:
    lines = run_passes(attention_gradient(*sizes), *passes_between("check-target", LAST)).split(
        "\n"
    )
    events = [
        found[0]
        for line in lines
        if (found := re.search(r"wgmma_dot |dot_wait|consumer_release|exp2", line))
    ]
    is_late = sizes == (128, 64, 128)
    start = events.index("exp2") - 3 - is_late
    assert events[start : start + 7 + is_late] == [
        *["wgmma_dot "] * (2 + is_late),
        *("dot_wait", "exp2", "dot_wait", "consumer_release"),
        "dot_wait" if is_late else "wgmma_dot ",
    ]
    waits = [line for line in lines if "dot_wait" in line]
    assert f"pending = {1 + is_late}" in waits[0]
    assert any("held_tile" in line for line in lines) == is_late


def test_a_product_is_in_time_where_registers_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    source = attention_gradient(128, 64, 128)
    assert "held_tile" in run_passes(source, *passes_between("check-target", LAST))
    monkeypatch.setattr(overlap, "RESERVED_BESIDE_LATE", 240)
    monkeypatch.setattr(overlap, "RESERVED_WITHIN", 240)
    text = run_passes(source, *passes_between("check-target", LAST))
    assert "held_tile" not in text
    assert "put_off" not in text


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_ptxas_neither_spills_nor_waits_earlier(sizes: tuple[int, int, int]) -> None:
    said = remarks_of(attention_gradient(*sizes))
    assert any("products are issued early" in text for text in said)
    assert any(" 0 bytes spilled" in text for text in said)
    assert not [text for text in said if "C75" in text]


def test_a_product_is_in_time_where_threads_take_as_long() -> None:
    """Heads of 64: a multiplication and a power for each score take as long as the products."""
    assert "held_tile" not in run_passes(
        attention_gradient(), *passes_between("check-target", LAST)
    )


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_the_loop_computes_what_it_did(iterations: int, depth: int) -> None:
    source, length = with_ctas(attention_gradient(depth=depth), 1), 64 * iterations
    rng = np.random.default_rng(iterations)
    values = (rng.standard_normal((3, max(length, 128), depth)) * 0.25).astype(np.float16)
    bits = [array.view(np.uint16).ravel() for array in values]
    found: list[np.ndarray] = []
    late = read_source(source)
    orders = [step for step, _ in passes(late, (), "sm_90") if step == "tileas-expand-schedule"]
    assert orders
    for module in (read_source(source), late):
        out = np.zeros_like(bits[0])
        run_entry(module, "attention", [*bits, out, length], (1, 1, 1))
        found.append(out)
    assert np.array_equal(*found)


@pytest.mark.parametrize(("most", "moves"), [(16, False), (8, True)])
def test_threads_load_what_they_need_of_a_row(
    monkeypatch: pytest.MonkeyPatch, most: int, moves: bool
) -> None:
    monkeypatch.setattr(equivalence_classes, "MAX_SPREAD", most)
    monkeypatch.setattr(rows, "MOST_BYTES", 0)
    said = remarks_of(attention_gradient())
    assert any(text.startswith("64 f16 moves between threads") for text in said) == moves


@pytest.mark.parametrize(
    ("kind", "depth", "is_held"), [("full", 64, True), ("full", 128, False), ("causal", 64, False)]
)
def test_few_registers_of_queries_stay_in_registers(kind: str, depth: int, is_held: bool) -> None:
    """Where all tile blocks have as many keys."""
    said = remarks_of(with_ctas(softmax_attention(kind, 128, 64, depth), 1))
    assert any("wgmma.m64n64k16" in text for text in said)
    assert any("both operands in shared memory" in text for text in said) != is_held
    assert any(" 0 bytes spilled" in text for text in said)


@pytest.mark.parametrize(("kind", "keys", "registers"), [("full", 128, 232), ("causal", 256, 240)])
def test_a_producer_keeps_fewer_registers_where_they_are_short(
    kind: str, keys: int, registers: int
) -> None:
    said = remarks_of(with_ctas(softmax_attention(kind, 128, keys, 128), 1))
    assert any(f"2 consumer warpgroups of {registers} registers" in text for text in said)
