"""Views that threads copy, thread by thread: what lies in the slots is what TMA would have left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from simulate import lower_to_llvm
from simulated_producer import filled_rings
from simulated_wgmma import Tile

from tests.gpu.product_text import ELEMENTS, ProductKernel
from tests.gpu.random_products import ProductCase, make_case
from tileiras.driver import read_source
from tileiras.interpreter.formats import format_of, to_bits

KERNELS = (
    ProductKernel("f16", (64, 64, 64), chunk=4),
    ProductKernel("f16", (128, 64, 64), chunk=8),
    ProductKernel("f16", (64, 128, 64), a="column", b="turned", chunk=4),
    ProductKernel("bf16", (64, 64, 128), b="permuted", chunk=8),
    ProductKernel("f32", (64, 64, 32), b="turned", chunk=4),
    ProductKernel("f32", (64, 64, 64), chunk=8),
    ProductKernel("i8", (64, 128, 128), b="turned", chunk=4),
    ProductKernel("f8E4M3FN", (64, 64, 128), b="turned", form="batched", chunk=8),
    ProductKernel("f16", (64, 256, 64), a="column", is_aligned=False),
    ProductKernel("bf16", (128, 128, 64), b="turned", form="batched", is_aligned=False),
    ProductKernel("f32", (64, 64, 32), is_aligned=False),
    ProductKernel("i8", (128, 128, 128), b="turned", is_aligned=False),
)
CASES = 2


def slot_of(case: ProductCase, index: Sequence[int], step: int) -> list[Tile]:
    """The tiles of an iteration with their contiguous dim last, zero where out of bounds."""
    kernel = case.kernel
    m, n, k = kernel.tile
    fmt = format_of(ELEMENTS[kernel.element])
    batch = index[2] if kernel.form == "batched" else 0
    found: list[Tile] = []
    for operand, major, place, extents in (
        (case.operands()[0], kernel.a, (index[0], step), (m, k)),
        (case.operands()[1], kernel.b, (step, index[1]), (k, n)),
    ):
        tile = np.zeros(extents, fmt.dtype)
        spans = [slice(at * size, (at + 1) * size) for at, size in zip(place, extents, strict=True)]
        part = operand[batch][tuple(spans)]
        tile[: part.shape[0], : part.shape[1]] = part.astype(fmt.dtype)
        held = to_bits(np.ascontiguousarray(tile), fmt)
        found.append(Tile(held if major == "row" else held.T))
    return found


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_slots_hold_what_tma_would_bring(kernel: ProductKernel) -> None:
    module = lower_to_llvm(read_source(kernel.text().encode()))
    for seed in range(CASES):
        case = make_case(kernel, seed, tiles=2)
        steps = -(-case.extents[2] // kernel.tile[2])
        for index in product(*map(range, case.grid)):
            [ring] = filled_rings(module, case.arguments(), index, case.grid)
            wanted = [
                np.concatenate([tile.panels() for tile in slot_of(case, index, step)])
                for step in range(steps)
            ]
            filled = np.concatenate(wanted)
            np.testing.assert_array_equal(ring[: len(filled)], filled, case.name)
            assert (ring[len(filled) :] == 0xCC).all()
