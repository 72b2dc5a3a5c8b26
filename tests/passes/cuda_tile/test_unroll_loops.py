"""unroll-loops: short loops that load the same tiles become straight code that loads each once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda_tile_text import kernel
from tileiras.dialects.cuda_tile import ModuleOp
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.interpreter import run_entry
from tileiras.passes.canonicalization import canonicalize
from tileiras.passes.cuda_tile.cse import eliminate_common_subexpressions
from tileiras.passes.cuda_tile.unroll_loops import unroll_loops

WIDTH = 8
POINTERS = f"tile<{WIDTH}xptr<f32>>"


def load(name: str, base: str, scale: str = "%width") -> str:
    """The tile of an iteration, through pointers."""
    return f"""
    %{name}0 = muli %i, {scale} : tile<i32>
    %{name}1 = reshape %{name}0 : tile<i32> -> tile<1xi32>
    %{name}2 = broadcast %{name}1 : tile<1xi32> -> tile<{WIDTH}xi32>
    %{name}3 = addi %{name}2, %lanes : tile<{WIDTH}xi32>
    %{name}4 = offset {base}, %{name}3 : {POINTERS}, tile<{WIDTH}xi32> -> {POINTERS}
    %{name}, %{name}t = load_ptr_tko weak %{name}4 token=%o : {POINTERS} -> tile<{WIDTH}xf32>, token
    """


def program(
    trips: int, scale: str = "%width", upper: str = "%trips", between: str = ""
) -> ModuleOp:
    """Each row of `x` is divided by its sum: `out[i] = x[i] / sum(x)`, in two loops.

    `between` stands before the second one.
    """
    return parse_module(
        kernel(
            f"""
    %o = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %width = constant <i32: {WIDTH}> : tile<i32>
    %twice = constant <i32: {2 * WIDTH}> : tile<i32>
    %trips = constant <i32: {trips}> : tile<i32>
    %lanes = iota : tile<{WIDTH}xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x1 : tile<1xptr<f32>> -> {POINTERS}
    %y1 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ys = broadcast %y1 : tile<1xptr<f32>> -> {POINTERS}
    %none = constant <f32: 0.0> : tile<{WIDTH}xf32>
    %sums = for %i in (%zero to {upper}, step %one) : tile<i32> iter_values(%a = %none)
        -> (tile<{WIDTH}xf32>) {{
      {load("p", "%xs")}
      %b = addf %a, %p : tile<{WIDTH}xf32>
      continue %b : tile<{WIDTH}xf32>
    }}
    %sum = reduce %sums dim=0 identities=[0.0 : f32] : tile<{WIDTH}xf32> -> tile<f32>
    (%l: tile<f32>, %r: tile<f32>) {{
      %s = addf %l, %r : tile<f32>
      yield %s : tile<f32>
    }}
    {between}
    %sum1 = reshape %sum : tile<f32> -> tile<1xf32>
    %sum8 = broadcast %sum1 : tile<1xf32> -> tile<{WIDTH}xf32>
    for %i in (%zero to {upper}, step %one) : tile<i32> {{
      {load("q", "%xs", scale)}
      {load("w", "%ys")}
      %d = divf %q, %sum8 : tile<{WIDTH}xf32>
      %e = mulf %d, %w : tile<{WIDTH}xf32>
      %end = store_ptr_tko weak %w4, %e token=%wt : {POINTERS}, tile<{WIDTH}xf32> -> token
    }}
    """,
            "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>",
        )
    )


def optimised(module: ModuleOp) -> str:
    """The program after the passes, as text."""
    verify_module(module)
    if unroll_loops(module):
        canonicalize(module)
    eliminate_common_subexpressions(module)
    verify_module(module)
    return print_module(module)


def test_tiles_are_loaded_once() -> None:
    """Three of `x` and three of `y`, all before the sum is there."""
    text = optimised(program(3))
    assert "for %" not in text
    assert text.count("load_ptr_tko") == 6
    assert text.rindex("load_ptr_tko") < text.index(" reduce ")


@pytest.mark.parametrize(
    "between",
    [
        "if %c { return }",
        'assert %c, "x" : tile<i1>',
        "loop { if %c { return } break }",
    ],
    ids=["return", "assertion", "loop"],
)
def test_loads_that_may_not_be_executed_stay_behind_what_decides_it(between: str) -> None:
    """Only the second loop loads `y`, whose pointer may be valid only there."""
    condition = "%c = cmpi greater_than %n, %zero, signed : tile<i32> -> tile<i1>\n"
    text = optimised(program(2, between=condition + between))
    place = text.index(between.split()[0], text.index(" reduce "))
    assert text.count("load_ptr_tko") == 4
    assert text[place:].count("load_ptr_tko") == 2


@pytest.mark.parametrize(
    "module",
    [program(9), program(2, scale="%twice"), program(2, upper="%n"), program(4096)],
    ids=["many", "other tiles", "unknown", "very many"],
)
def test_other_loops_stay(module: ModuleOp) -> None:
    """Loops of more iterations, of other tiles, and of unknown length."""
    assert optimised(module).count("for %") == 2


@pytest.mark.parametrize("trips", [2, 3, 8])
def test_means_the_same(trips: int) -> None:
    """The interpreter computes the same from both."""
    found: list[np.ndarray] = []
    for is_optimised in (False, True):
        module = program(trips)
        if is_optimised:
            optimised(module)
        source = np.arange(1, trips * WIDTH + 1, dtype=np.float32)
        target = np.arange(trips * WIDTH, dtype=np.float32)[::-1].copy()
        run_entry(module, "k", [source, target, trips], (1, 1, 1))
        found.append(target)
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].any()
