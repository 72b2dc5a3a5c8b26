"""Kernels in CuTe's dialect, run thread by thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import tensor_of
from tileiras.interpreter.errors import InterpreterError
from tileiras.ir_text import parse_text

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"
SAXPY, TRANSPOSE, GEMM = (
    (EXAMPLES / f"{name}.mlir").read_text() for name in ("saxpy", "transpose", "gemm")
)
SQUARE = Layout((32, 32), (32, 1))


def integers(count: int, dtype: type) -> np.ndarray:
    """Small numbers, whose sums are exact."""
    return np.random.default_rng(0).integers(-4, 5, count).astype(dtype)


def test_threads_share_a_vector() -> None:
    """Tiled copies of 128 threads with 4 values each, three CTAs."""
    x, y = integers(1536, np.float32), integers(1536, np.float32)[::-1].copy()
    expected = 2.5 * x + y
    line = Layout((1536,), (1,))
    arguments = [tensor_of(x, line, "f32"), tensor_of(y, line, "f32"), np.float32(2.5)]
    run_kernel(parse_text(SAXPY), "saxpy", arguments, (3, 1, 1))
    assert (y == expected).all()


def test_transposes_through_swizzled_shared_memory() -> None:
    """Columns are written where rows were read: the barrier is between."""
    a, b = integers(1024, np.float32), np.zeros(1024, np.float32)
    run_kernel(parse_text(TRANSPOSE), "transpose", [tensor_of(t, SQUARE, "f32") for t in (a, b)])
    assert (b.reshape(32, 32) == a.reshape(32, 32).T).all()


def test_four_warps_multiply_matrices() -> None:
    """D = A B^T by mma.m16n8k16 fragments."""
    a, b, d = integers(1024, np.float16), integers(1024, np.float16), np.zeros(1024, np.float32)
    run_kernel(
        parse_text(GEMM),
        "gemm",
        [tensor_of(a, SQUARE, "f16"), tensor_of(b, SQUARE, "f16"), tensor_of(d, SQUARE, "f32")],
    )
    expected = a.reshape(32, 32).astype(np.float32) @ b.reshape(32, 32).T.astype(np.float32)
    assert (d.reshape(32, 32) == expected).all()


def test_a_loop_carries_values() -> None:
    """The counter and a carried index."""
    text = """
    cute.func @k(%a: !cute.tensor<i32, gmem, align<4>, 8:1>, %n: i32) threads 1 {
      %zero = cute.static() -> !cute.int<0>
      %one = cute.static() -> !cute.int<1>
      %start = cute.to_int(%n)
      %last = cute.for %i = %zero to %n step %one carries (%at = %start) {
        %two = cute.static() -> !cute.int<1>
        %next = cute.tuple_sub(%at, %two)
        %x = cute.load(%a, %next) : i32
        cute.store(%x, %a, %i)
        cute.yield(%next)
      }
      cute.return
    }"""
    a = np.arange(8, dtype=np.int32)
    run_kernel(parse_text(text), "k", [tensor_of(a, Layout(8, 1), "i32"), np.int32(8)])
    assert a.tolist() == [7, 6, 5, 4, 4, 5, 6, 7]


class TestErrors:
    """What a thread does wrong."""

    def test_an_access_outside_of_memory(self) -> None:
        """It is no wrap-around."""
        a = np.zeros(100, np.float32)
        arguments = [tensor_of(a, SQUARE, "f32"), tensor_of(a, SQUARE, "f32")]
        with pytest.raises(InterpreterError, match="of 100 is accessed in gmem"):
            run_kernel(parse_text(TRANSPOSE), "transpose", arguments)

    def test_a_barrier_that_not_all_threads_reach(self) -> None:
        """Thread i comes to it i times."""
        text = """
        cute.func @k() threads 2 {
          %zero = cute.static() -> !cute.int<0>
          %one = cute.static() -> !cute.int<1>
          %tid = cute.thread_idx<0>()
          cute.for %i = %zero to %tid step %one {
            cute.sync_threads()
          }
          cute.return
        }"""
        with pytest.raises(InterpreterError, match="not all threads of the CTA come here"):
            run_kernel(parse_text(text), "k", [])

    def test_a_promise_that_is_not_kept(self) -> None:
        """`?{div=8}` of 12."""
        text = """
        cute.func @k(%n: i32) threads 1 {
          %c = cute.make_coord(%n) -> !cute.coord<?{div=8}>
          cute.return
        }"""
        with pytest.raises(InterpreterError, match="12 is not divisible by 8"):
            run_kernel(parse_text(text), "k", [np.int32(12)])

    def test_a_kernel_that_there_is_not(self) -> None:
        """And one with other arguments."""
        with pytest.raises(InterpreterError, match="there is no kernel 'gem'"):
            run_kernel(parse_text(GEMM), "gem", [])
        with pytest.raises(InterpreterError, match="has 3 arguments, found 0"):
            run_kernel(parse_text(GEMM), "gemm", [])

    def test_elements_that_are_not_computed_with(self) -> None:
        """numpy has no type for tf32."""
        text = """
        cute.func @k() threads 1 {
          %r = cute.alloc() -> !cute.tensor<tf32, rmem, align<16>, 8:1>
          cute.return
        }"""
        with pytest.raises(InterpreterError, match="elements tf32 are not computed with"):
            run_kernel(parse_text(text), "k", [])
