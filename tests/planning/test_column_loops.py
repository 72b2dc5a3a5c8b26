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


def test_columns_of_narrow_elements_stay_within_warps() -> None:
    """And those of small tiles; of others warps exchange totals."""

    def totals(type: str, rows: int) -> int:
        return decided(scan_kernel(type, (rows, 64), 0)).count("totals = ")

    assert totals("f16", 64) == totals("f32", 64) == 0
    assert totals("f32", 128) == 1


def test_tiles_of_columns_within_warps_are_stored_in_whole_lines() -> None:
    stored = re.search(
        r"tiled_store .*?: tensor<64x64xf32, (#\w+)>", decided(scan_kernel("f32")), re.S
    )
    assert stored is not None and stored.group(1).startswith("#blocked")


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
