"""Loops that scan tile after tile, of which iterations are one, or go side by side."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.scanned_columns import scan_kernel
from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.planning.resources.warps import plan_cta

PASS = "join-iterations"
TYPES = {"f16": np.float16, "f32": np.float32}


@cache
def stages(text: str) -> dict[str, ModuleOp]:
    """The kernel behind the pass, and once its loads start early."""
    found: dict[str, ModuleOp] = {}
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name in (PASS, "tileas-expand-schedule"):
            module.verify()
            found[name] = module.clone()
    return found


def scans(module: ModuleOp) -> list[int]:
    """How many scans each loop has."""
    loops = [op for op in module.walk() if isinstance(op, aa.ForOp)]
    return [sum(isinstance(op, aa.ScanOp) for op in loop.body.block.ops) for loop in loops]


def warps(module: ModuleOp) -> int:
    """Warps of the kernel, planned as it stands."""
    func = next(op for op in module.walk() if isinstance(op, aa.FuncOp))
    return plan_cta(func, get_target("sm_90")).num_warps


def arguments(type: str, rows: int, columns: int) -> list[Any]:
    """A matrix of small whole numbers, whose sums are exact, and a place for the result."""
    x = np.random.default_rng(rows + columns).integers(-1, 2, (rows, columns)).astype(TYPES[type])
    return [x, np.full_like(x, np.nan), np.int32(rows), np.int32(columns)]


@pytest.mark.parametrize(
    ("type", "tile", "dim", "expected"),
    [
        ("f16", (16, 64), 1, [2, 1]),
        ("f32", (8, 256), 1, [2, 1]),
        ("f32", (32, 64), 1, [2, 1]),
        # Few rows: an SM has many tile blocks. Large tiles: no registers.
        ("f32", (1, 1024), 1, [1]),
        ("f16", (128, 256), 1, [1]),
        ("f16", (16, 256), 1, [1]),
        # Longer tiles, and what is left.
        ("f16", (64, 64), 1, [1, 1]),
        ("f16", (128, 64), 1, [1, 1]),
        ("f32", (64, 64), 1, [1, 1]),
        ("f16", (64, 32), 0, [1, 1]),
        ("f32", (16, 64), 0, [1, 1]),
        # Columns: large enough, or too small to be of a matrix.
        ("f16", (64, 64), 0, [1]),
        ("f16", (128, 32), 0, [1]),
        ("f32", (64, 64), 0, [1]),
        ("f16", (16, 16), 0, [1]),
    ],
)
def test_which_loops(type: str, tile: tuple[int, int], dim: int, expected: list[int]) -> None:
    assert scans(stages(scan_kernel(type, tile, dim))[PASS]) == expected


def test_two_tiles_along_rows_are_one_of_twice_the_size() -> None:
    """The same number of warps before loads start early and after."""
    for type, tile in (("f16", (32, 64)), ("f32", (16, 256))):
        assert [warps(module) for module in stages(scan_kernel(type, tile, 1)).values()] == [8, 8]
    assert [warps(module) for module in stages(scan_kernel("f16", (64, 64))).values()] == [4, 4]


@pytest.mark.parametrize("tiles", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dim", [0, 1])
def test_any_number_of_tiles(dim: int, tiles: int) -> None:
    rows, columns = (32 * tiles, 96) if dim == 0 else (48, 64 * tiles)
    for module in stages(scan_kernel("f16", (32, 64), dim)).values():
        given = arguments("f16", rows, columns)
        run_entry(module, "scan", [*(x.reshape(-1) for x in given[:2]), *given[2:]], (2, 1, 1))
        np.testing.assert_array_equal(given[1], np.cumsum(given[0], axis=dim))


@pytest.mark.parametrize(("rows", "columns"), [(48, 320), (32, 64), (32, 176)])
def test_ptx_scans_rows(rows: int, columns: int) -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    text = scan_kernel("f16", (32, 64), 1)
    given = arguments("f16", rows, columns)
    run_ptx(compile_module(text.encode(), options).output.decode(), given, (2, 1, 1))
    np.testing.assert_array_equal(given[1], np.cumsum(given[0], axis=1))


def test_only_what_is_left_is_a_remainder() -> None:
    loops = [
        op
        for op in stages(scan_kernel("f16", (32, 64), 1))[PASS].walk()
        if isinstance(op, aa.ForOp)
    ]
    assert [REMAINDER in loop.attributes for loop in loops] == [False, True]
