"""wgmma products on the GPU: every operand placement gives the exact integer product.

Operands are small integers, so that every format and every sum is exact. Accumulators come back raw
and are placed by the layout, which is tested with them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "codegen"))

from tests.gpu.launch import gpu_name, launch_cubin  # noqa: E402
from tests.kernels.wgmma_cases import PRODUCTS, name_of  # noqa: E402
from tests.kernels.wgmma_product import THREADS, Product, product_module  # noqa: E402
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx  # noqa: E402
from tileiras.codegen.llvmir.printer import print_module  # noqa: E402
from tileiras.codegen.ptxas_backend import ptx_to_cubin  # noqa: E402
from tileiras.codegen.target import Feature, get_target  # noqa: E402
from tileiras.dialects.layout.linear_layout import LinearLayout  # noqa: E402
from tileiras.dialects.layout.mma import FRAGMENTS, mma_operand_layout, wgmma_accumulator  # noqa: E402
from tileiras.driver import with_environment  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

pytestmark = pytest.mark.gpu
OPTIONS = with_environment(CompileOptions(opt_level=3))
FLOAT8 = {"e4m3": (0, 0x38, 0x40, 0x44), "e5m2": (0, 0x3C, 0x40, 0x42)}
"""Encodings of 0, 1, 2, 3; bit 7 is the sign."""
FAMILY_FRAGMENTS = {16: "m16n8k16.f16", 32: "m16n8k8.tf32", 8: "m16n8k32.s8"}


def encode(values: np.ndarray, type: str) -> np.ndarray:
    """Small integers as raw bits of a PTX type."""
    match type:
        case "f16":
            return values.astype(np.float16).view(np.uint16)
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "tf32":
            return values.astype(np.float32).view(np.uint32)
        case "s8" | "u8":
            return values.astype(np.int8).view(np.uint8)
        case _:
            magnitude = np.array(FLOAT8[type], np.uint8)[np.abs(values)]
            return magnitude | np.where(values < 0, np.uint8(0x80), np.uint8(0))


def integers(shape: tuple[int, int], type: str, seed: int) -> np.ndarray:
    """Random integers from -3 to 3; unsigned types from 0."""
    low = 0 if type == "u8" else -3
    return np.random.default_rng(seed).integers(low, 4, shape)


def coordinates(layout: LinearLayout) -> list[np.ndarray]:
    """Rows and columns of the elements that [thread, register] holds."""
    registers = layout.in_size("register")
    table = [
        layout.apply(register=r, lane=thread % 32, warp=thread // 32)
        for thread in range(THREADS)
        for r in range(registers)
    ]
    return [np.array(axis).reshape(THREADS, registers) for axis in zip(*table, strict=True)]


def a_argument(product: Product, a: np.ndarray) -> np.ndarray:
    """A as the kernel takes it."""
    raw = encode(a, product.row.family.a_type)
    if product.a_major == "k":
        return np.ascontiguousarray(raw)
    if product.a_major == "mn":
        return np.ascontiguousarray(raw.T)
    name = FAMILY_FRAGMENTS[product.row.family.operand_bits]
    atom = next(row for row in FRAGMENTS if row.name == name).a
    rows, columns = coordinates(mma_operand_layout(atom, a.shape, (4, 1), "A"))
    return np.ascontiguousarray(raw[rows, columns])


def cubin(product: Product, scale_d: bool) -> bytes:
    """The compiled kernel; skips where the GPU has no wgmma."""
    target = get_target(gpu_name())
    if not target.has(Feature.WGMMA):
        pytest.skip(f"{target.name} has no wgmma")
    module = product_module(product, scale_d=scale_d)
    ptx = llvm_ir_to_ptx(print_module(module, target, OPTIONS), target, OPTIONS)
    return ptx_to_cubin(ptx, target, OPTIONS).cubin


@pytest.mark.parametrize("scale_d", [False, True], ids=["plain", "scale_d"])
@pytest.mark.parametrize("product", PRODUCTS, ids=name_of)
def test_product_is_exact(product: Product, scale_d: bool) -> None:
    family, n = product.row.family, product.row.n
    a = integers((product.m, product.k), family.a_type, 1)
    b = integers((product.k, n), family.b_type, 2)
    raw_b = encode(b, family.b_type)
    raw_b = np.ascontiguousarray(raw_b.T if product.b_major == "k" else raw_b)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[family.accumulator]
    out = np.full((THREADS, product.accumulator_bytes // np.dtype(dtype).itemsize), 77, dtype)
    launch_cubin(
        cubin(product, scale_d),
        "product",
        [a_argument(product, a), raw_b, out],
        (1, 1, 1),
        (128, 1, 1),
    )
    rows, columns = coordinates(wgmma_accumulator((product.m, n), 1))
    got = np.zeros((product.m, n))
    got[rows, columns] = out
    np.testing.assert_array_equal(got, a @ b)
