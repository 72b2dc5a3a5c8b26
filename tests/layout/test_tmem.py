"""Layouts of sums loaded from tensor memory, against the formulas of the PTX ISA."""

from __future__ import annotations

import pytest

from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.tmem import tmem_accumulator

SHAPES = ((64, 128), (128, 32), (128, 256), (256, 128), (512, 64))


def lane_of(row: int, rows: int) -> int:
    """The lane of a row ("Data path layout": M is 64, or blocks of 128 rows)."""
    return row // 16 * 32 + row % 16 if rows == 64 else row % 128


@pytest.mark.parametrize("warpgroups", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_element_belongs_to_one_thread_that_reaches_it(
    shape: tuple[int, int], warpgroups: int
) -> None:
    layout = tmem_accumulator(shape, "16x256b", warpgroups)
    seen: set[tuple[int, ...]] = set()
    for warp in range(4 * warpgroups):
        for lane in range(32):
            for register in range(layout.in_size("register")):
                place = layout.apply(register=register, lane=lane, warp=warp)
                assert lane_of(place[0], shape[0]) // 32 == warp % 4
                seen.add(place)
    assert len(seen) == shape[0] * shape[1]


def test_registers_are_those_of_16x256b() -> None:
    layout = tmem_accumulator((128, 64), "16x256b", 1)
    for lane in (0, 5, 31):
        for register in range(32):
            row = lane // 4 + 8 * (register >> 1 & 1)
            column = 8 * (register >> 2) + 2 * (lane % 4) + (register & 1)
            found = layout.apply(register=register, lane=lane, warp=2)
            assert found == (64 + row, column)


def test_registers_of_32x32b_are_a_row() -> None:
    layout = tmem_accumulator((128, 64), "32x32b", 2)
    for register in range(32):
        found = layout.apply(register=register, lane=7, warp=5)
        assert found == (39, 32 + register)


@pytest.mark.parametrize(
    ("shape", "name"), [((96, 64), "16x256b"), ((64, 64), "32x32b"), ((128, 8), "16x256b")]
)
def test_tiles_without_a_place_are_refused(shape: tuple[int, int], name: str) -> None:
    with pytest.raises(LayoutError):
        tmem_accumulator(shape, name, 2)
