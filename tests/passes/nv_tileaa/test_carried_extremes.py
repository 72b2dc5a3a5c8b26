"""Loops that carry extremes and their places, and carry those of elements instead."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType

from tests.kernels.extreme_places import extremes_kernel
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

PASS = "join-iterations"
TYPES = {"f16": np.float16, "f32": np.float32, "i32": np.int32}
KERNEL = extremes_kernel()


@cache
def changed(text: str) -> ModuleOp:
    """The kernel behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), "sm_90"):
        if name == PASS:
            module.verify()
            return module
    raise AssertionError("the pass did not run")


def carried(text: str) -> list[tuple[int, ...]]:
    """The shapes of the tiles that the loop carries."""
    loop = next(op for op in changed(text).walk() if isinstance(op, aa.ForOp))
    return [shape_of(value) for value in loop.results if isinstance(value.type, TensorType)]


def matrix(type: str, shape: tuple[int, int]) -> np.ndarray:
    """Few different numbers, zeros of both signs, NaNs; the first column and row have NaNs only."""
    generator = np.random.default_rng(shape[0])
    data = generator.integers(-3, 4, shape)
    if type == "i32":
        return data.astype(np.int32)
    data = np.where(data == 3, np.nan, data)
    data = np.where((data == 0) & (generator.random(shape) < 0.5), -0.0, data)
    data[0] = data[:, 0] = np.nan
    data[:, 1] = -np.inf
    return data.astype(TYPES[type])


def results(
    run: Any, x: np.ndarray, dim: int, tile: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Extremes and places that a kernel finds."""
    count = x.shape[1 - dim]
    top, where = np.full(count, 77, x.dtype), np.full(count, -7, np.int32)
    sizes = [np.int32(size) for size in x.shape]
    with np.errstate(all="ignore"):
        run([x.reshape(-1), top, where, *sizes], (-(-count // tile[1 - dim]), 1, 1))
    return top, where


def check(text: str, x: np.ndarray, dim: int, tile: tuple[int, int]) -> None:
    """The interpreter before and behind the pass agree, and so do threads."""
    before, after = parse_text(text, "kernel.mlir"), changed(text)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    ptx = compile_module(text.encode(), options).output.decode()
    wanted = results(lambda a, grid: run_entry(before, "extremes", a, grid), x, dim, tile)
    found = results(lambda a, grid: run_entry(after, "extremes", a, grid), x, dim, tile)
    threads = results(lambda a, grid: run_ptx(ptx, a, grid), x, dim, tile)
    for numbers, places in (found, threads):
        np.testing.assert_array_equal(numbers, wanted[0])
        np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize(
    ("type", "tile", "dim", "function"),
    [
        ("f16", (64, 64), 0, "maxf"),
        ("f32", (32, 64), 0, "minf"),
        ("i32", (16, 64), 0, "maxi"),
        ("f16", (64, 128), 0, "minf"),
        ("f32", (8, 128), 1, "maxf"),
        ("i32", (64, 16), 1, "mini"),
    ],
)
def test_places_are_those_of_the_first_extremes(
    type: str, tile: tuple[int, int], dim: int, function: str
) -> None:
    """Of the last tiles some rows and columns are beyond the end, which are zeros."""
    text = extremes_kernel(type, tile, dim, function)
    assert carried(text) == [tile] * 2
    rows = -(-3 * tile[0] // 32) * 16
    check(text, matrix(type, (rows, 2 * tile[1] - 16)), dim, tile)


@pytest.mark.parametrize("start", ["0x0000", "0x8000", "0x4000", "0x7C00"])
def test_where_nothing_is_beyond_the_first_number_the_first_place_stays(start: str) -> None:
    text = extremes_kernel("f16", (16, 64), start=start)
    assert carried(text) == [(16, 64)] * 2
    check(text, matrix("f16", (48, 64)), 0, (16, 64))


@pytest.mark.parametrize("flag", ["", " propagate_nan"])
def test_an_extreme_without_a_place(flag: str) -> None:
    """Where nobody asks what is larger, NaNs may be kept, in the tile as in the loop."""
    text = extremes_kernel("f16", (16, 64)).replace("%next, %place :", "%next, %where :")
    text = text.replace("maxf %a, %c", f"maxf %a, %c{flag}").replace("%high :", f"%high{flag} :")
    assert (16, 64) in carried(text)
    check(text, matrix("f16", (48, 64)), 0, (16, 64))


def test_no_iteration() -> None:
    text = extremes_kernel("f16", (16, 64))
    module, x = changed(text), np.zeros((0, 64), np.float16)
    top, where = results(lambda a, g: run_entry(module, "extremes", a, g), x, 0, (16, 64))
    assert (top == -np.inf).all()
    assert (where == -1).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The first number to beat is a NaN: the first iteration finds nothing, whatever it has.
        ("%start = constant <f16: 0xFC00>", "%start = constant <f16: 0x7E00>"),
        # A NaN is beyond every number, or an equal number is: the last of them is wanted.
        ("%new = cmpf greater_than ordered", "%new = cmpf greater_than unordered"),
        ("%new = cmpf greater_than ordered", "%new = cmpf greater_than_or_equal ordered"),
        ("%new = cmpf greater_than ordered %high", "%new = cmpf less_than ordered %high"),
        # Places are not those of what is carried, or not the first ones.
        ("%more = cmpf greater_than", "%more = cmpf less_than"),
        ("%lower = cmpi less_than", "%lower = cmpi greater_than"),
        ("%high = reduce %y", "%high = reduce %twice"),
        ("%next = maxf %top, %high", "%next = maxf %high, %high"),
        ("%next = maxf %top, %high", "%next = minf %top, %high"),
        ("%next = maxf %top, %high", "%next = maxf %top, %high propagate_nan"),
        # What is carried is seen elsewhere.
        ("continue %next, %place", "continue %high, %place"),
        ("continue %next, %place", "continue %next, %here"),
    ],
)
def test_a_loop_that_carries_something_else_stays(old: str, new: str) -> None:
    text = KERNEL.replace("%j = muli", "%twice = addf %y, %y : tile<64x64xf16>\n      %j = muli")
    assert text.count(old) == 1
    assert carried(text.replace(old, new)) == [(64,)] * 2


def test_large_tiles_stay() -> None:
    assert carried(extremes_kernel("f32", (256, 128)))[0] == (128,)
