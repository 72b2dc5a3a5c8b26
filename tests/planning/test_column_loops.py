"""Loops that scan and reduce tiles: which warps have what, and the loads that start early."""

from __future__ import annotations

import re

import pytest

from tests.kernels.scanned_columns import scan_kernel
from tileiras.dialects.layout.axis_bits import axis_bits
from tileiras.dialects.layout.blocked import blocked
from tileiras.driver import compile_module
from tileiras.options import CompileOptions
from tileiras.planning.layouts.combining import rows_for_warps, warps_beside


def decided(text: str) -> str:
    """A kernel's text with its layouts and stages."""
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileas", opt_level=3)
    return compile_module(text.encode(), options).output.decode()


def stages(text: str) -> int:
    """Tiles that a loop has room for in shared memory."""
    found = re.findall(r"alloc_tensor \{stages = (\d+)", decided(text))
    return max(map(int, found), default=0)


@pytest.mark.parametrize(
    ("type", "tile", "dim"),
    [("f16", (64, 64), 0), ("f16", (32, 64), 0), ("f32", (32, 64), 0), ("f16", (64, 64), 1)],
)
def test_scans_of_many_rows_or_columns_have_stages(
    type: str, tile: tuple[int, int], dim: int
) -> None:
    assert stages(scan_kernel(type, tile, dim)) >= 3


def test_scans_of_few_rows_leave_room_for_other_tile_blocks() -> None:
    assert stages(scan_kernel("f16", (16, 256), 1)) == 0


@pytest.mark.parametrize("type", ["f16", "f32"])
def test_tiles_that_are_scanned_down_columns_move_in_16_bytes_and_stay_where_they_are(
    type: str,
) -> None:
    """Past L1, and no way through shared memory; warps exchange totals once."""
    text = decided(scan_kernel(type, (64, 64), 0))
    assert text.count("totals = ") == 1 and "nv_tileas.scan_total" in text
    vector = 8 if type == "f16" else 4
    copies = re.findall(r"async_copy[^{]*\{([^}]*)", text)
    assert copies and all(f"vector = {vector}" in each and "streamed" in each for each in copies)
    assert not re.search(rf"convert_layout [^:]*: tensor<64x64x{type}", text)


@pytest.mark.parametrize(
    ("type", "tile", "expected"),
    [("f16", (64, 64), 7), ("f16", (128, 64), 4), ("f32", (64, 64), 3), ("f16", (128, 32), 3)],
)
def test_few_tiles_are_on_their_way_down_columns(
    type: str, tile: tuple[int, int], expected: int
) -> None:
    assert stages(scan_kernel(type, tile, 0)) == expected


def test_four_warps_scan_columns_of_up_to_8192_elements() -> None:
    def warps(tile: tuple[int, int]) -> int:
        found = re.search(r"num_warps = (\d+)", decided(scan_kernel("f16", tile, 0)))
        assert found is not None
        return int(found.group(1))

    assert [warps(tile) for tile in ((64, 64), (64, 128), (256, 64))] == [4, 4, 8]


@pytest.mark.parametrize(("bits", "registers"), [(16, 4), (32, 4)])
def test_lanes_get_columns_for_rows_while_that_saves_shuffles(bits: int, registers: int) -> None:
    vector = 128 // bits
    layout = warps_beside(blocked((64, 64), (1, 0), vector, 4), 0, bits)
    beside = [bit for bit in axis_bits(layout, 1) if bit.unit == "register"]
    assert 1 << len(beside) == registers
    assert all(bit.unit != "warp" for bit in axis_bits(layout, 0))
    lanes = [bit for bit in axis_bits(layout, 1) if bit.unit == "lane"]
    assert bits << (len(beside) + len(lanes)) >= 256


@pytest.mark.parametrize(
    ("shape", "rows", "shuffled"), [((4, 8192), 1, 5), ((16, 1024), 2, 5), ((2, 8192), 1, 5)]
)
def test_warps_get_rows_of_threads(shape: tuple[int, int], rows: int, shuffled: int) -> None:
    """A thread has fewer rows, and goes along them in vectors as before."""
    before = blocked(shape, (1, 0), 8, 8)
    layout = rows_for_warps(before, 1)
    beside = [bit for bit in axis_bits(layout, 0) if bit.unit == "register"]
    assert 1 << len(beside) == rows
    assert layout.basis("lane") == before.basis("lane")
    assert layout.basis("register")[:3] == before.basis("register")[:3]
    assert sum(bit.unit == "lane" for bit in axis_bits(layout, 1)) == shuffled
    assert layout.size == before.size


@pytest.mark.parametrize("axis", [0, 1])
def test_warps_that_have_rows_keep_them(axis: int) -> None:
    layout = blocked((64, 256), (1, 0), 8, 8)
    assert rows_for_warps(layout, axis) == layout
    whole = blocked((1, 8192), (1, 0), 8, 4)
    assert rows_for_warps(whole, axis) == whole
