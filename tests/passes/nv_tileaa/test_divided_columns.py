"""Columns of a tile that the CTAs of a cluster divide: the same results, and what is left whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.scanned_columns import scan_kernel
from tests.kernels.stage_comparison import passes
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.passes.nv_tileaa import split_reductions

SCAN = scan_kernel("f16", (64, 128))
TYPES = {"f16": np.float16, "f32": np.float32}


@cache
def stages(text: str, gpu_name: str = "sm_90") -> dict[str, ModuleOp]:
    """The kernel behind the pass, and once tiles have layouts."""
    found: dict[str, ModuleOp] = {}
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), gpu_name):
        if name in ("split-reductions", "convert-tileaa-to-tileas"):
            module.verify()
            found[name] = module.clone()
    return found


def parts(text: str, gpu_name: str = "sm_90") -> int:
    """CTAs of the kernel's clusters behind the pass."""
    module = stages(text, gpu_name)["split-reductions"]
    return next(op.cluster_size for op in module.walk() if isinstance(op, aa.FuncOp))


def arguments(type: str, rows: int, columns: int) -> list[Any]:
    """A matrix of small whole numbers, whose sums are exact, and a place for the result."""
    x = np.random.default_rng(rows).integers(-2, 3, (rows, columns)).astype(TYPES[type])
    return [x, np.full_like(x, np.nan), np.int32(rows), np.int32(columns)]


@pytest.mark.parametrize(
    ("type", "tile", "expected"),
    [
        ("f16", (64, 128), 2),
        ("f16", (16, 256), 2),
        ("f16", (16, 1024), 2),
        ("f32", (32, 128), 2),
        ("f16", (64, 64), 1),
        ("f32", (64, 64), 1),
        ("f16", (4, 128), 1),
    ],
)
def test_parts_have_64_columns_or_more(type: str, tile: tuple[int, int], expected: int) -> None:
    assert parts(scan_kernel(type, tile)) == expected


@pytest.fixture(params=["few", "many"])
def grids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Grids are taken for ones of few tile blocks, or of many."""
    if request.param == "many":
        monkeypatch.setattr(split_reductions, "MANY_OF_COLUMNS", 0)
    stages.cache_clear()
    yield
    stages.cache_clear()


@pytest.mark.usefixtures("grids")
@pytest.mark.parametrize("rows", [16, 64, 208])
@pytest.mark.parametrize(("type", "tile"), [("f16", (64, 128)), ("f32", (32, 256))])
def test_all_columns_are_scanned(type: str, tile: tuple[int, int], rows: int) -> None:
    """Of the last tile some columns are beyond the end."""
    columns = 3 * tile[1] - 80
    for module in stages(scan_kernel(type, tile)).values():
        given = arguments(type, rows, columns)
        flat = [each.reshape(-1) for each in given[:2]]
        run_entry(module, "scan", [*flat, *given[2:]], (3, 1, 1))
        np.testing.assert_array_equal(given[1], np.cumsum(given[0], axis=0))


@pytest.mark.usefixtures("grids")
def test_ptx_scans_all_columns() -> None:
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    ptx = compile_module(SCAN.encode(), options).output.decode()
    given = arguments("f16", 144, 176)
    run_ptx(ptx, given, (2, 1, 1))
    np.testing.assert_array_equal(given[1], np.cumsum(given[0], axis=0))


ORDERED = "load_view_tko acquire device"
LEFT = {
    "rows": scan_kernel("f16", (64, 128), 1),
    "tile blocks that wait for each other": SCAN.replace("load_view_tko weak", ORDERED),
    "loads behind what is stored": SCAN.replace(
        "iter_values(%before = %start) -> (tile<128xf16>) {",
        "iter_values(%before = %start, %k = %t) -> (tile<128xf16>, token) {",
    )
    .replace("%p[%i, %b] token = %t", "%p[%i, %b] token = %k")
    .replace("continue %after : tile<128xf16>", "continue %after, %z : tile<128xf16>, token")
    .replace("%sums = for", "%sums, %last = for"),
    "a hint": SCAN.replace(
        "%columns: tile<i32>) {",
        "%columns: tile<i32>) optimization_hints=<sm_90 = {num_cta_in_cga = 1}> {",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_to_one_cta(name: str) -> None:
    assert parts(LEFT[name]) == 1


def test_no_clusters_before_sm_90() -> None:
    assert parts(SCAN, "sm_80") == 1


def test_two_ctas_of_a_cluster_find_no_room_on_an_sm() -> None:
    """They share one otherwise, where both have tile blocks of their own."""
    target = get_target("sm_90")
    options = CompileOptions(opt_level=3, emit="llvm-dialect", gpu_name="sm_90")
    for text, is_divided in ((SCAN, True), (scan_kernel("f16", (64, 64)), False)):
        module = parse_text(compile_module(text.encode(), options).output.decode(), "k.mlir")
        made = [op for op in module.walk() if isinstance(op, GlobalOp)]
        size = sum(op.size.data for op in made if op.space.data == SHARED)
        assert (size > target.shared_memory_of_each(2)) == is_divided
