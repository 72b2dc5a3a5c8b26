"""Loops that keep a maximum and a sum of each column, and keep those of groups instead."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType

from tests.kernels.online_softmax import ROWS, WIDTH, expected, online_softmax
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

PASS = "join-iterations"
KERNEL = online_softmax()


@cache
def grouped(text: str, gpu_name: str = "sm_90") -> ModuleOp:
    """The kernel behind the pass."""
    module = parse_text(text, "kernel.mlir")
    for name, _ in passes(module, (), gpu_name):
        if name == PASS:
            module.verify()
            return module
    raise AssertionError("the pass did not run")


def carried(text: str, gpu_name: str = "sm_90") -> list[int]:
    """How many columns the tiles have that the loop carries."""
    loop = next(op for op in grouped(text, gpu_name).walk() if isinstance(op, aa.ForOp))
    return [shape_of(value)[1] for value in loop.results if isinstance(value.type, TensorType)]


def values_of(module: ModuleOp, x: np.ndarray) -> np.ndarray:
    """What a kernel gives for some rows."""
    out = np.full((ROWS, 2), np.nan, np.float32)
    sizes = [np.int32(n) for n in (ROWS, x.shape[1], -(-x.shape[1] // WIDTH))]
    arguments: list[Any] = [x.reshape(-1), out.reshape(-1), *sizes]
    with np.errstate(all="ignore"):
        run_entry(module, "softmax", arguments, (ROWS, 1, 1))
    return out


def numbers(columns: int, element: str = "f16") -> np.ndarray:
    """Rows whose maxima come early and late."""
    x = np.random.default_rng(columns).normal(0, 4, (ROWS, columns))
    x[1] += np.linspace(0, 8, columns) if columns else 0
    return x.astype({"f16": np.float16, "f32": np.float32}[element])


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(("element", "group"), [("f16", 8), ("f32", 4)])
def test_a_group_has_the_columns_of_one_access(element: str, group: int, gpu_name: str) -> None:
    assert carried(online_softmax(element), gpu_name) == [WIDTH // group] * 2


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("columns", [WIDTH, 3 * WIDTH, 3 * WIDTH - 48])
def test_rows_of_any_length(columns: int, element: str) -> None:
    """Columns beyond the end are minus infinity; a floor keeps their powers zero."""
    text, x = online_softmax(element, floor="-1.0e30"), numbers(columns, element)
    assert carried(text) == [WIDTH // (8 if element == "f16" else 4)] * 2
    np.testing.assert_allclose(values_of(grouped(text), x), expected(x), rtol=1e-6)


def test_no_iteration() -> None:
    text, x = online_softmax(), np.zeros((ROWS, 0), np.float16)
    before = values_of(parse_text(text, "kernel.mlir"), x)
    np.testing.assert_array_equal(values_of(grouped(text), x), before)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(special: float) -> None:
    """A group whose columns are all minus infinity is NaN, as such a column is without groups."""
    x = numbers(2 * WIDTH)
    x[0, :9] = special
    x[0, WIDTH : WIDTH + 9] = special
    wanted = values_of(parse_text(KERNEL, "kernel.mlir"), x)
    np.testing.assert_allclose(values_of(grouped(KERNEL), x), wanted, rtol=1e-6)


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_threads_compute_what_the_tiles_say(element: str) -> None:
    x = numbers(3 * WIDTH - 48, element)
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    text = online_softmax(element, floor="-1.0e30")
    ptx = compile_module(text.encode(), options).output.decode()
    out = np.full((ROWS, 2), np.nan, np.float32)
    sizes = [np.int32(n) for n in (ROWS, x.shape[1], 3)]
    run_ptx(ptx, [x.reshape(-1), out.reshape(-1), *sizes], (ROWS, 1, 1))
    np.testing.assert_allclose(out, expected(x), rtol=2e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Sums that are not scaled by the power of the maxima's difference.
        ("%s = fma %li, %f, %y", "%s = fma %li, %y, %y"),
        ("%d = subf %mi, %n", "%d = subf %n, %mi"),
        ("%f = exp %d", "%f = exp2 %d"),
        # Powers below another maximum than the carried one.
        ("%e = subf %x, %n", "%e = subf %x, %mi"),
        # What is handed on is not the maximum, or no sum.
        ("continue %n, %s", "continue %x, %s"),
        ("continue %n, %s", "continue %n, %y"),
        # Behind the loop: scaled by another power, or not, or combined otherwise.
        ("%fade = exp %below", "%fade = exp2 %below"),
        ("%part = mulf %l, %fade", "%part = mulf %l, %l"),
        ("%all = reduce %part", "%all = reduce %l"),
        ("%top = reduce %m", "%top = reduce %l"),
        ("%below = subf %m, %high", "%below = subf %high, %m"),
        # Maxima that make something else of NaN.
        ("%n = maxf %mi, %x", "%n = maxf %mi, %x propagate_nan"),
        # A sum that does not start at zero.
        ("%li = %none", "%li = %low"),
    ],
)
def test_a_loop_that_carries_something_else_stays(old: str, new: str) -> None:
    assert KERNEL.count(old) == 1
    assert carried(KERNEL.replace(old, new)) == [WIDTH] * 2


def test_sums_below_any_number_that_is_the_same_for_all_columns() -> None:
    text, x = KERNEL.replace("subf %m, %high", "subf %m, %none"), numbers(2 * WIDTH)
    assert carried(text) == [WIDTH // 8] * 2
    wanted = values_of(parse_text(text, "kernel.mlir"), x)
    np.testing.assert_allclose(values_of(grouped(text), x), wanted, rtol=1e-6)


def test_columns_that_are_not_side_by_side_in_a_thread_stay() -> None:
    assert carried(online_softmax(aligned=False)) == [WIDTH] * 2
