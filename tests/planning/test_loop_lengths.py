"""How many iterations loops have at most, and which attention goes by a static schedule for it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.planned_attention import behind, kernel_of, windowed
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tileiras.driver import read_source
from tileiras.planning.tile_scheduler.loop_lengths import most_iterations


@pytest.mark.parametrize(
    ("before", "columns", "most"), [(0, 128, 1), (127, 128, 2), (128, 128, 2), (129, 128, 3)]
)
def test_ends_that_differ_by_a_constant(before: int, columns: int, most: int) -> None:
    module = behind(windowed(before, columns), "convert-cudatile-to-tileaa")
    assert most_iterations(kernel_of(module)) == most


@pytest.mark.parametrize("kind", ["full", "causal", "masked"])
def test_loops_over_all_keys_have_no_limit(kind: str) -> None:
    text = softmax_attention(kind, 128, 128, 64).decode()
    assert most_iterations(kernel_of(behind(text, "convert-cudatile-to-tileaa"))) is None


@pytest.mark.parametrize(("before", "is_scheduled"), [(127, True), (640, True), (900, False)])
def test_attention_to_a_few_tiles_goes_by_a_static_schedule(
    before: int, is_scheduled: bool
) -> None:
    func = kernel_of(behind(windowed(before), "form-clusters"))
    assert (func.static_tile_scheduler is not None) == is_scheduled


@pytest.mark.parametrize("blocks", [1, 7])
def test_every_block_attends_to_its_window(blocks: int) -> None:
    """The interpreter's GPU has 5 multiprocessors."""
    text = windowed(127)
    wanted = run_attention(read_source(text.encode()), 128, 128 * blocks, 64, 1, [blocks])
    module = behind(text, "form-clusters")
    assert np.array_equal(wanted, run_attention(module, 128, 128 * blocks, 64, 1, [blocks]))
