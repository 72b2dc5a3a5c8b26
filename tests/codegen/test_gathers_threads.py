"""Gathers in chunks of all sizes, thread by thread: what lies in the slots is what wgmma reads."""

from __future__ import annotations

import numpy as np
import pytest
from simulate import lower_to_llvm
from simulated_producer import filled_rings
from simulated_wgmma import Tile

from tests.passes.nv_tileas.gather import experts, experts_case, first_token
from tileiras.driver import read_source


@pytest.mark.parametrize("align", [16, 8, 4])
@pytest.mark.parametrize(("rows", "depth", "loop"), [(128, 64, "computed"), (64, 128, "carried")])
def test_slots_hold_gathered_rows(rows: int, depth: int, align: int, loop: str) -> None:
    """Beside a tile that the same threads copy; the second step of the depth is ragged."""
    text = experts(rows, 64, depth, loop, align).replace(
        b"%W1 = assume div_by<16>", b"%W1 = assume div_by<4>"
    )
    module = lower_to_llvm(read_source(text))
    size, width = depth + 16, 80
    case = experts_case(rows, 64, size, width, blocks=1, align=align)
    memory, weights, _, slots, chosen = (np.array(array) for array in case.arguments[:5])
    arguments = [a.view(np.uint16) if a.dtype == np.float16 else a for a in case.arguments]
    [ring] = filled_rings(module, arguments, (0, 1, 0), case.grid)
    tokens = memory[first_token(align) :].reshape(-1, size)
    wanted: list[np.ndarray] = []
    for first in (0, depth):
        left, right = np.zeros((rows, depth), np.float16), np.zeros((depth, 64), np.float16)
        for row, slot in enumerate(slots):
            if slot < len(tokens):
                part = tokens[slot, first : first + depth]
                left[row, : len(part)] = part
        part = weights[chosen[0], first : first + depth, 64:]
        right[: part.shape[0], : part.shape[1]] = part
        wanted += [Tile(left.view(np.uint16)).panels(), Tile(right.view(np.uint16)).panels()]
    filled = np.concatenate(wanted)
    np.testing.assert_array_equal(ring[: len(filled)], filled)
    assert (ring[len(filled) :] == 0xCC).all()
