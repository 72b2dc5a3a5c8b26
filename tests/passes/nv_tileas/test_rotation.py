"""Loops of other forms than attention: what they carry and chain survives the rotation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.attention import ATTENTION
from tests.kernels.gemm import with_ctas
from tests.kernels.stage_comparison import passes
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

_F32, _F16 = "tile<128x64xf32>", "tile<128x64xf16>"
_PARTITION = "partition_view<tile=(64x64), padding_value = zero, VIEW>"


def _load(name: str, view: str, row: str = "%j") -> str:
    return (
        f"%{name}, %u_{name} = load_view_tko weak %{view}[{row}, %c0] token = %t0\n"
        f": {_PARTITION}, tile<i32> -> tile<64x64xf16>, token\n"
    )


def _product(result: str, lhs: str, rhs: str, acc: str) -> str:
    types = f"{_F16}, tile<64x64xf16>, {_F32}"
    return f"%{result} = mmaf %{lhs}, %{rhs}, %{acc} : {types}\n"


_SCORES = (
    _load("k", "pk")
    + "%kt = permute %k [1, 0] : tile<64x64xf16> -> tile<64x64xf16>\n"
    + _product("p", "q", "kt", "z")
)
_POWERS = f"%e = exp2 %p : {_F32}\n%r = ftof %e : {_F32} -> {_F16}\n"
_VALUES = _load("v", "pv") + _product("d", "r", "v", "a")


def _loop(carried: dict[str, tuple[str, str, str]], body: str) -> str:
    """A loop; `carried`: argument -> type, initial value, value for the next iteration."""
    initial = ", ".join(f"%{name} = %{init}" for name, (_, init, _) in carried.items())
    types = ", ".join(type for type, _, _ in carried.values())
    following = ", ".join(f"%{value}" for _, _, value in carried.values())
    results = "".join(f"%o_{name}, " for name in carried)[:-2]
    return (
        f"{results} = for %j in (%c0 to %is#0, step %c1) : tile<i32>\n"
        f"iter_values({initial}) -> ({types}) {{\n{body}continue {following} : {types}\n}}\n"
    )


def _sum(*names: str) -> str:
    """The sum of f32 tiles as %fin."""
    text = f"%fin0 = addf %{names[0]}, %z : {_F32}\n"
    for number, name in enumerate(names[1:]):
        text += f"%fin{number + 1} = addf %fin{number}, %{name} : {_F32}\n"
    return text + f"%fin = addf %fin{len(names) - 1}, %z : {_F32}\n"


def _splat(scalar: str, result: str) -> str:
    """An i32 as an f32 tile."""
    return (
        f"%{result}0 = itof %{scalar} signed : tile<i32> -> tile<f32>\n"
        f"%{result}1 = reshape %{result}0 : tile<f32> -> tile<1x1xf32>\n"
        f"%{result} = broadcast %{result}1 : tile<1x1xf32> -> {_F32}\n"
    )


_ACC = {"a": (_F32, "z", "d")}
LOOPS: dict[str, str] = {
    "values_move_through_arguments": _loop(
        {**_ACC, "b": (_F32, "z", "a"), "c": (_F32, "z", "b")}, _SCORES + _POWERS + _VALUES
    )
    + _sum("o_a", "o_b", "o_c"),
    "index_is_carried": _loop({**_ACC, "n": ("tile<i32>", "c0", "j")}, _SCORES + _POWERS + _VALUES)
    + _splat("o_n", "last")
    + _sum("o_a", "last"),
    "rows_of_the_iteration_before": _loop(
        {**_ACC, "n": ("tile<i32>", "c0", "j")},
        _SCORES + _POWERS + _load("v", "pv", "%n") + _product("d", "r", "v", "a"),
    )
    + _sum("o_a"),
    "index_in_the_powers": _loop(
        _ACC,
        _SCORES
        + _splat("j", "i")
        + f"%w = mulf %p, %i : {_F32}\n%e = exp2 %w : {_F32}\n%r = ftof %e : {_F32} -> {_F16}\n"
        + _VALUES,
    )
    + _sum("o_a"),
    "powers_of_the_iteration_before": _loop(
        {**_ACC, "b": (_F32, "z", "e")},
        _SCORES
        + f"%e = exp2 %p : {_F32}\n%s = addf %e, %b : {_F32}\n%r = ftof %s : {_F32} -> {_F16}\n"
        + _VALUES,
    )
    + _sum("o_a", "o_b"),
    "sum_so_far_is_read": _loop(
        {**_ACC, "b": (_F32, "z", "b1")},
        _SCORES + _POWERS + _VALUES + f"%b1 = addf %b, %a : {_F32}\n",
    )
    + _sum("o_a", "o_b"),
    "three_products": _loop(
        {"a": (_F32, "z", "x")},
        _SCORES
        + _POWERS
        + _load("v", "pv")
        + _product("d", "r", "v", "z")
        + f"%h = ftof %d : {_F32} -> {_F16}\n"
        + _load("w", "pk")
        + _product("x", "h", "w", "a"),
    )
    + _sum("o_a"),
    "two_products_of_one_operand": _loop(
        {**_ACC, "b": (_F32, "z", "x")},
        _SCORES + _POWERS + _VALUES + _load("w", "pk") + _product("x", "r", "w", "b"),
    )
    + _sum("o_a", "o_b"),
    "two_products_into_one_sum": _loop(
        {"a": (_F32, "z", "x")},
        _SCORES + _POWERS + _VALUES + _load("w", "pk") + _product("x", "r", "w", "d"),
    )
    + _sum("o_a"),
}


def source_of(name: str) -> bytes:
    """A kernel with one of the loops; it has an SM to itself, and so registers to be rotated."""
    text = ATTENTION.replace("LOOPS", LOOPS[name]).replace("%acc :", "%fin :")
    text = text.replace("VIEW", "tensor_view<?x64xf16, strides=[64,1]>")
    return with_ctas(text.encode(), 1)


def result(module, length: int) -> np.ndarray:
    """The bits that the kernel leaves."""
    rng = np.random.default_rng(length)
    arrays = (rng.standard_normal((3, max(length, 128), 64)) * 0.1).astype(np.float16)
    bits = [array.view(np.uint16).ravel() for array in arrays]
    out = np.zeros_like(bits[0])
    with np.errstate(all="ignore"):
        run_entry(module, "attention", [*bits, out, length], (1, 1, 1))
    return out


@pytest.mark.parametrize("name", LOOPS)
def test_a_rotated_loop_computes_what_the_loop_did(name):
    source = source_of(name)
    module = read_source(source)
    rotated = False
    for step, _ in passes(module, (), "sm_90", left_out=["join-iterations"]):
        if step == "tileas-expand-schedule":
            rotated = sum(op.name == "nv_tileaa.dot" for op in module.walk()) > 3
    assert rotated
    for iterations in (0, 1, 2, 3, 7):
        wanted = result(read_source(source), 64 * iterations)
        assert np.array_equal(wanted, result(module, 64 * iterations)), iterations


@pytest.mark.parametrize("name", ["two_products_into_one_sum", "three_products"])
def test_chained_products_are_not_serialised(name):
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    notes = compile_module(source_of(name), options).notes
    assert "0 bytes spilled" in notes[0]
    assert not [note for note in notes if "C75" in note]
