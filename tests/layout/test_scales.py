"""Scales of block-scaled mma.sync: where they lie, and which of them an instruction takes."""

from __future__ import annotations

import pytest

from tileiras.dialects.layout import LayoutError
from tileiras.dialects.layout.scales import ScaleWords, Selector, scale_layout


@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1)])
def test_selected_bytes_are_those_of_the_fragment(blocks: int, warps: tuple[int, int]) -> None:
    """Of A lanes 2t and 2t + 1 of quad g have rows g and g + 8, of B lane t has column g."""
    rows = 16 * warps[0] * 4
    left = scale_layout((rows, blocks), warps, "A")
    right = scale_layout((blocks, rows), warps, "B")
    for warp in range(warps[0] * warps[1]):
        for fragment in range(4):
            for block in range(blocks):
                place = ScaleWords("A", blocks).select(fragment, block)
                for row in range(16):
                    lane = row % 8 * 4 + 2 * place.thread + row // 8
                    register = min(4, blocks) * place.word + place.byte
                    found = left.apply(register=register, lane=lane, warp=warp)
                    first = 16 * (warp % warps[0] + warps[0] * fragment)
                    assert found == (first + row, block)
        for fragment in range(rows // (8 * warps[1])):
            for block in range(blocks):
                place = ScaleWords("B", blocks).select(fragment, block)
                for column in range(8):
                    register = min(4, blocks) * place.word + place.byte
                    lane = column * 4 + place.thread
                    found = right.apply(register=register, lane=lane, warp=warp)
                    first = 8 * (warp // warps[0] + warps[1] * fragment)
                    assert found == (block, first + column)


def test_words_along_k_come_first() -> None:
    words = ScaleWords("B", 16)
    assert words.select(0, 5) == Selector(0, 1, 1)
    assert words.select(1, 5) == Selector(1, 1, 1)
    assert ScaleWords("A", 4).select(3, 2) == Selector(1, 2, 1)


def test_batches_are_the_highest_registers() -> None:
    layout = scale_layout((2, 16, 4), (1, 1), "A")
    assert layout.apply(register=4, lane=0, warp=0) == (1, 0, 0)


def test_fewer_rows_than_an_instruction_has_are_refused() -> None:
    with pytest.raises(LayoutError, match="fewer than an instruction takes"):
        scale_layout((8, 4), (1, 1), "A")
