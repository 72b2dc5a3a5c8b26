"""Joined tile blocks thread by thread: consumers copy all tiles themselves, in either branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.lowered import run_lowered
from tests.kernels.other_targets import set_multiprocessors
from tests.kernels.product_text import Order, ProductKernel
from tests.kernels.random_products import dense_case
from tests.kernels.stage_comparison import passes
from tileiras.ir_text import parse_text

KERNEL = ProductKernel("f16", (64, 64, 64), b="transposed", form="numbered")
KNOWN_DEPTH = "%Kd = assume div_by<8>, %K : tile<i32>\n    %A1 = offset"


@pytest.mark.parametrize(
    ("order", "extents", "multiprocessors"),
    [
        ("rows", (187, 176, 136), 1),
        ("columns", (187, 176, 104), 1),
        ("diagonal", (100, 176, 72), 1),
        ("rows", (100, 176, 136), 132),
    ],
)
@pytest.mark.parametrize("is_known", [False, True], ids=["any depth", "known depth"])
def test_prologue_fills_suffice_for_short_products(
    order: Order,
    extents: tuple[int, int, int],
    multiprocessors: int,
    is_known: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    """Copies are by bytes, or, if 16 of them are in the tensor or out of it, by a condition."""
    set_multiprocessors(monkeypatch, multiprocessors)
    kernel = replace(KERNEL, order=order)
    text = kernel.text()
    if is_known:
        text = text.replace("%A1 = offset", KNOWN_DEPTH, 1)
        text = text.replace("shape = [%M, %K]", "shape = [%M, %Kd]")
        text = text.replace("shape = [%N, %K]", "shape = [%N, %Kd]")
        assert text.count("%Kd") == 3
    module = parse_text(text, "kernel.mlir")
    for _ in passes(module, (), "sm_90", to_threads=True):
        pass
    case = dense_case(kernel, extents, -(-extents[0] // 64) * 3)
    arguments = case.arguments()
    run_lowered(module, arguments, case.grid)
    assert not case.difference(arguments[2])
