"""Products by multiply-adds that are computed together, as one thread's program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from tests.kernels.complex_products import SHAPE, ComplexProduct
from tests.kernels.kernel_builder import rounding
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import TileType


def transposed(x: Any) -> Any:
    """As `ComplexProduct.transposed`."""
    batches, rows, columns = x.shape
    split = x.reshape(batches, rows, columns // rows, rows)
    return split.transpose(0, 2, 3, 1).reshape(x.shape)


@pytest.mark.parametrize("w_batches", [1, 2])
def test_complex_product(w_batches: int):
    program = ComplexProduct(f32, w_batches)
    (w, x, found), _ = program.run(program.both(program.x))
    np.testing.assert_array_equal(found, w @ x)


def test_products_of_transposed_results():
    program = ComplexProduct()
    (w, x, found), _ = program.run(program.both(program.transposed(program.both(program.x))))
    np.testing.assert_array_equal(found, w @ transposed(w @ x))


def test_four_products_of_common_operands_meet_less_than_two_of_others():
    others = ComplexProduct()
    _, apart = others.run([others.multiply(others.w[i], others.x[i]) for i in range(2)])
    program = ComplexProduct()
    _, together = program.run(program.both(program.x))
    assert together.count("nvvm.barrier") < apart.count("nvvm.barrier")


def test_product_with_another_use_keeps_its_value():
    program = ComplexProduct()
    kernel, type = program.kernel, TileType(f32, SHAPE)
    first, second = (program.multiply(w, program.x[0]) for w in program.w)
    total = kernel.add(ct.AddFOp, [first, second], type, rounding_mode=rounding())
    (w, x, found), _ = program.run([first, total])
    np.testing.assert_array_equal(found.real, w.real @ x.real)
    np.testing.assert_array_equal(found.imag, (w.real + w.imag) @ x.real)


def test_product_of_a_product_waits_for_it():
    program = ComplexProduct(shape=(2, 16, 16))
    first = program.multiply(program.w[0], program.x[0])
    second = program.multiply(program.w[0], first)
    (w, x, found), _ = program.run([first, second])
    np.testing.assert_array_equal(found.real, w.real @ x.real)
    np.testing.assert_array_equal(found.imag, w.real @ w.real @ x.real)


def test_difference_of_a_sum_from_the_left():
    program = ComplexProduct()
    type, nearest = TileType(f32, SHAPE), rounding()
    products = [program.multiply(w, x) for w in program.w for x in program.x]
    total = program.kernel.add(ct.SubFOp, products[:2], type, rounding_mode=nearest)
    other = program.kernel.add(ct.SubFOp, products[:1:-1], type, rounding_mode=nearest)
    (w, x, found), _ = program.run([total, other])
    np.testing.assert_array_equal(found.real, w.real @ (x.real - x.imag))
    np.testing.assert_array_equal(found.imag, w.imag @ (x.imag - x.real))


def test_too_many_operands_for_shared_memory_at_once():
    program = ComplexProduct(shape=(1, 16, 512))
    (w, x, found), _ = program.run(program.both(program.x), arch="sm_80")
    np.testing.assert_array_equal(found, w @ x)
