"""Products of f32 by mma.sync on bf16 parts, as one thread's program."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from tests.kernels.complex_products import ComplexProduct
from tests.kernels.dot_kernels import check, dot_kernel
from tests.kernels.gemm import gemm
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.bytecode.writer import write_module
from tileiras.dialects import cuda_tile as ct
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

UNIT = 2.0**-24
"""Half of an f32's last bit."""
OFF = ("f32-by-bf16",)


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, without: tuple[str, ...] = ()) -> tuple:
    """a @ b + c by a kernel of one tile, and the kernel's text."""
    kernel = dot_kernel(*a.shape[:1], b.shape[1], a.shape[1], f32, f32, (False, False))
    kernel.add(ct.ReturnOp, [[]])
    module = lower_to_llvm(kernel.module, "sm_90", without=without)
    found = c.astype(np.float32)
    run_lowered(module, [a.astype(np.float32), b.astype(np.float32), found])
    return found, str(module)


def tiles(m: int, n: int, k: int, seed: int = 1) -> list[np.ndarray]:
    """Normally distributed tiles of a product."""
    generator = np.random.default_rng(seed)
    return [
        generator.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))
    ]


@pytest.mark.parametrize(("m", "n", "k"), [(16, 8, 16), (64, 32, 32), (32, 64, 128)])
def test_parts_are_as_exact_as_multiply_adds(m, n, k):
    a, b, c = tiles(m, n, k)
    exact = a.astype(np.float64) @ b + c
    size = np.abs(a.astype(np.float64)) @ np.abs(b) + np.abs(c)
    errors = []
    for without in ((), OFF):
        found, text = product(a, b, c, without)
        assert ("m16n8k16_f32_bf16" in text) == (not without)
        errors.append(np.max(np.abs(found - exact) / (UNIT * size)))
    assert errors[0] <= min(4.0, errors[1])


def test_every_bit_of_an_operand_counts():
    a, b, _ = tiles(16, 16, 16)
    one, nothing = np.eye(16, dtype=np.float32), np.zeros((16, 16))
    np.testing.assert_array_equal(product(a, one, nothing)[0], a)
    np.testing.assert_array_equal(product(one, b, nothing)[0], b)
    np.testing.assert_array_equal(product(one, one, a)[0], one + a)


def test_integers_are_exact():
    generator = np.random.default_rng(2)
    a = np.zeros((16, 16))
    a[:, 5] = generator.integers(-4095, 4096, 16)
    b = generator.integers(-4095, 4096, (16, 16)).astype(np.float64)
    np.testing.assert_array_equal(product(a, b, np.zeros((16, 16)))[0], a @ b)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-40])
def test_values_at_the_ends_of_the_range(value):
    a, b = np.zeros((16, 16), np.float32), np.eye(16, dtype=np.float32)
    a[3, 4] = value
    b[4, 5], b[4, 6] = -2.0, 0.5
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = a @ b
    found, _ = product(a, b, np.zeros((16, 16)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2.0**-133)


def test_parts_are_staged_and_read_as_matrices():
    text = check(64, 64, 32, f32, f32)
    assert "nvvm.ldmatrix" in text and "transposed" in text


def test_tiles_without_an_instruction_are_left_to_multiply_adds():
    assert "mma_tile" not in check(16, 8, 8, f32, f32)
    assert "mma_tile" not in check(32, 16, 64, f32, f32, arch="sm_89")


def test_products_of_batches_in_every_orientation():
    for transposed in ((False, True), (True, False), (True, True)):
        check(32, 16, 64, f32, f32, transposed)
        check(16, 16, 32, f32, f32, transposed, batch=2)


def test_products_of_complex_numbers_share_their_parts():
    program = ComplexProduct()
    (w, x, found), text = program.run(program.both(program.x), arch="sm_90")
    np.testing.assert_array_equal(found, w @ x)
    pairs, operands, rounded = 2, 3, 2
    assert text.count("cvt.rn.bf16x2.f32") == pairs * operands * rounded


def test_ptx_multiplies_in_parts():
    a, b, c = tiles(32, 32, 32)
    kernel = dot_kernel(32, 32, 32, f32, f32, (False, False))
    kernel.add(ct.ReturnOp, [[]])
    options = CompileOptions(emit="ptx", gpu_name="sm_90")
    ptx = compile_module(write_module(kernel.module), options).output.decode()
    exact = a.astype(np.float64) @ b + c
    run_ptx(ptx, [a, b, c], (1, 1, 1))
    np.testing.assert_allclose(c, exact, rtol=0, atol=32 * UNIT)


def test_a_product_goes_on_from_permuted_sums():
    program = ComplexProduct()
    (w, x, found), _ = program.run(
        program.both(program.transposed(program.both(program.x))), arch="sm_90"
    )
    first = (w @ x).reshape(2, 16, 2, 16).transpose(0, 2, 3, 1).reshape(x.shape)
    np.testing.assert_array_equal(found, w @ first)


def f32_gemm(rows: int, columns: int, depth: int) -> str:
    """The PTX of a product of f32 in a loop."""
    text = gemm(rows, columns, depth).decode()
    text = text.replace("f16", "f32")
    text = re.sub(r"%h = ftof .*", "", text).replace("weak %h,", "weak %acc,")
    options = CompileOptions(emit="ptx", gpu_name="sm_90")
    return compile_module(text.encode(), options).output.decode()


def test_two_ctas_of_eight_warps_share_an_sm_where_sums_leave_room():
    assert ".minnctapersm 2" in f32_gemm(128, 128, 16)


@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 256, 16), (64, 64, 16)])
def test_others_have_the_registers_that_they_take(tile):
    assert ".minnctapersm" not in f32_gemm(*tile)
