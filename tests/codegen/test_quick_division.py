"""Divisions that look for the easy cases first: PTX of them in the PTX machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from thread_kernels import llvm_text, ptx_text
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.interpreter.ptx import run_ptx

THREADS = 256


def _divides(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
    """Quotients to zero, rests and quotients rounded down of args[0] by args[1]."""
    at = b.shl(b.zext(b.thread_id(), i64), b.i64(2))
    lhs, rhs = (b.load(b.gep(pointer, at), i32, 4) for pointer in args[:2])
    for number, value in enumerate(b.divide_quickly(lhs, rhs)):
        b.store(value, b.gep(args[2], b.add(at, b.i64(4 * THREADS * number))), 4)


@pytest.fixture(scope="module")
def divides() -> str:
    return ptx_text(_divides, pointers=3, threads=THREADS)


def _check(text: str, lhs: np.ndarray, rhs: np.ndarray) -> None:
    found = np.zeros((3, THREADS), np.int32)
    run_ptx(text, [lhs.astype(np.int32), rhs.astype(np.int32), found, 0], block=(THREADS, 1, 1))
    wide_lhs, wide_rhs = lhs.astype(object), rhs.astype(object)
    down = wide_lhs // wide_rhs
    to_zero = np.array([int(a / b) if abs(a) < 2**52 else 0 for a, b in zip(lhs, rhs, strict=True)])
    assert (found[2] == down.astype(np.int32)).all()
    assert (found[0] == to_zero).all()
    assert (found[1] == lhs - to_zero * rhs).all()


def test_small_numbers_of_both_signs(divides: str) -> None:
    numbers = [(a, b) for a in range(-8, 8) for b in range(-8, 9) if b][:THREADS]
    _check(divides, *(np.array(column, np.int64) for column in zip(*numbers, strict=True)))


@pytest.mark.parametrize("seed", range(4))
def test_any_numbers(divides: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    lhs = random.integers(-(2**31) + 1, 2**31, THREADS) >> random.integers(0, 31, THREADS)
    rhs = random.integers(-(2**31), 2**31, THREADS) >> random.integers(0, 31, THREADS)
    powers = 1 << random.integers(0, 31, THREADS)
    rhs = np.where(random.random(THREADS) < 0.5, rhs, powers)
    _check(divides, lhs, np.where(rhs == 0, 1, rhs))


def test_the_same_numbers_are_divided_once() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
        lhs, rhs = b.load(args[0], i32, 4), b.load(args[1], i32, 4)
        b.store(b.divide_quickly(lhs, rhs).rest, args[2], 4)
        b.store(b.divide_quickly(lhs, rhs).down, args[2], 4)

    assert llvm_text(body, pointers=3).count("sdiv") == 1


def test_not_across_a_branch() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
        lhs, rhs = b.load(args[0], i32, 4), b.load(args[1], i32, 4)
        inside, after = b.new_block(), b.new_block()
        b.cond_br(b.icmp("eq", lhs, b.i32(7)), inside, after)
        b.at(inside)
        b.store(b.divide_quickly(lhs, rhs).rest, args[2], 4)
        b.br(after)
        b.at(after)
        b.store(b.divide_quickly(lhs, rhs).down, args[2], 4)

    assert llvm_text(body, pointers=3).count("sdiv") == 2
