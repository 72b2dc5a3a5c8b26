"""Elements of a thread alone: copies under a predicate, conversions, products of one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.driver import compile_module
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import tensor_of
from tileiras.interpreter.ptx import run_ptx
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions


def run(kind: str, text: str, arrays: list[tuple[np.ndarray, str]], *numbers: int) -> None:
    """A kernel of one CTA, in the PTX machine or interpreted."""
    if kind == "machine":
        options = CompileOptions(gpu_name="sm_80", emit="ptx")
        ptx = compile_module(text.encode(), options).output.decode()
        run_ptx(ptx, [*(array for array, _ in arrays), *numbers], (1, 1, 1))
        return
    values: list[Any] = [tensor_of(a, Layout((len(a),), (1,)), element) for a, element in arrays]
    run_kernel(parse_text(text), "k", [*values, *map(np.int32, numbers)])


GUARDED = """
cute.func @k(%X: !cute.tensor<f32, gmem, align<4>, (128):(1)>,
             %P: !cute.tensor<i1, gmem, align<1>, (128):(1)>,
             %Y: !cute.tensor<f32, gmem, align<4>, (128):(1)>, %n: i32) threads 32 {
  %tid = cute.thread_idx<0>()
  %count = cute.to_int(%n)
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  %byte = cute.static() -> !cute.copy_atom<universal, 8>
  %threads = cute.static() -> !cute.layout<32,1>
  %x = cute.local_partition(%X, %threads, %tid)
  %p = cute.local_partition(%P, %threads, %tid)
  %y = cute.local_partition(%Y, %threads, %tid)
  %r = cute.make_fragment_like(%x)
  %t = cute.make_fragment_like(%p)
  cute.clear(%r)
  cute.copy(%byte, %p, %t)
  cute.copy_if(%word, %t, %x, %r)
  // Threads from n on write nothing.
  %less = cute.elem_less(%tid, %count)
  %u = cute.make_fragment_like(%p)
  cute.fill(%u, %less)
  cute.copy_if(%word, %u, %r, %y)
  cute.return
}
"""


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_copies_under_a_predicate(kind: str) -> None:
    """To registers, which keep what they had, and back, to memory that keeps its own."""
    x = np.arange(1, 129, dtype=np.float32)
    chosen = np.random.default_rng(0).integers(0, 2, 128).astype(np.bool_)
    y = np.full(128, -1, np.float32)
    run(kind, GUARDED, [(x, "f32"), (chosen, "i1"), (y, "f32")], 20)
    wanted = np.where(np.arange(128) % 32 < 20, np.where(chosen, x, 0), -1)
    assert (y == wanted).all()


CONVERTED = """
cute.func @k(%X: !cute.tensor<FROM, gmem, align<16>, (64):(1)>,
             %Y: !cute.tensor<TO, gmem, align<16>, (64):(1)>) threads 32 {
  %tid = cute.thread_idx<0>()
  %one = cute.static() -> !cute.copy_atom<universal, BITS>
  %other = cute.static() -> !cute.copy_atom<universal, SIZE>
  %threads = cute.static() -> !cute.layout<32,1>
  %x = cute.local_partition(%X, %threads, %tid)
  %y = cute.local_partition(%Y, %threads, %tid)
  %r = cute.make_fragment_like(%x)
  %s = cute.make_fragment_like(%y)
  cute.copy(%one, %x, %r)
  cute.cast(%r, %s)
  cute.copy(%other, %s, %y)
  cute.return
}
"""


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("i32", "f32"),
        ("f32", "i32"),
        ("i8", "i32"),
        ("i32", "i8"),
        ("i64", "f64"),
        ("f16", "i16"),
        ("i8", "f16"),
        ("f64", "f32"),
    ],
)
def test_numbers_become_others(kind: str, source: str, target: str) -> None:
    """Floats go towards 0, integers keep their low bits."""
    types: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    types |= {f"i{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)}
    x = np.random.default_rng(1).uniform(-120, 120, 64).astype(types[source])
    if (source, target) == ("i32", "i8"):
        x = np.arange(-32, 32, dtype=np.int32) * 37
    y = np.zeros(64, types[target])
    sizes = [str(8 * array.itemsize) for array in (x, y)]
    text = CONVERTED.replace("FROM", source).replace("TO", target)
    text = text.replace("BITS", sizes[0]).replace("SIZE", sizes[1])
    run(kind, text, [(x, source), (y, target)])
    assert (y == x.astype(types[target])).all() and y.any()


ALONE = """
cute.func @k(%A: !cute.tensor<f32, gmem, align<4>, (12):(1)>,
             %B: !cute.tensor<f32, gmem, align<4>, (6):(1)>,
             %D: !cute.tensor<f32, gmem, align<4>, (8):(1)>) threads 1 {
  %word = cute.static() -> !cute.copy_atom<universal, 32>
  %atom = cute.static() -> !cute.mma_atom<universal, (1,1,1), f32, f32, f32>
  %a = cute.alloc() -> !cute.tensor<f32, rmem, align<4>, (1,4,3):(0,3,1)>
  %b = cute.alloc() -> !cute.tensor<f32, rmem, align<4>, (1,2,3):(0,3,1)>
  %c = cute.alloc() -> !cute.tensor<f32, rmem, align<4>, (1,4,2):(0,2,1)>
  %pa = cute.get_iter(%a)
  %pb = cute.get_iter(%b)
  %pc = cute.get_iter(%c)
  %la = cute.static() -> !cute.layout<12,1>
  %lb = cute.static() -> !cute.layout<6,1>
  %lc = cute.static() -> !cute.layout<8,1>
  %ra = cute.make_tensor(%pa, %la)
  %rb = cute.make_tensor(%pb, %lb)
  %rc = cute.make_tensor(%pc, %lc)
  cute.copy(%word, %A, %ra)
  cute.copy(%word, %B, %rb)
  cute.copy(%word, %D, %rc)
  cute.gemm(%atom, %c, %a, %b, %c)
  cute.copy(%word, %rc, %D)
  cute.return
}
"""


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_a_thread_multiplies_alone(kind: str) -> None:
    """4 x 2 x 3, added to what is there."""
    numbers = np.random.default_rng(2)
    a, b, d = (numbers.integers(-4, 5, size).astype(np.float32) for size in (12, 6, 8))
    wanted = a.reshape(4, 3) @ b.reshape(2, 3).T + d.reshape(4, 2)
    run(kind, ALONE, [(a, "f32"), (b, "f32"), (d, "f32")])
    assert (d.reshape(4, 2) == wanted).all()
