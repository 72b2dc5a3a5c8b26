"""Operands of one wgmma product, small integers that every format holds exactly, and its result.

Accumulators come back raw and are placed by the layout, which is tested with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.kernels.wgmma_product import THREADS, Product
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.mma import FRAGMENTS, mma_operand_layout, wgmma_accumulator

ACCUMULATORS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
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


@dataclass(frozen=True)
class ProductRun:
    """Arguments of the kernel of a product; the last is the place for the accumulators."""

    product: Product
    arguments: tuple[np.ndarray, np.ndarray, np.ndarray]
    wanted: np.ndarray

    def found(self) -> np.ndarray:
        """The result, once the kernel has run."""
        shape = (self.product.m, self.product.row.n)
        rows, columns = coordinates(wgmma_accumulator(shape, 1))
        result = np.zeros(shape)
        result[rows, columns] = self.arguments[2]
        return result


def product_run(product: Product) -> ProductRun:
    """Random operands."""
    family, n = product.row.family, product.row.n
    a = integers((product.m, product.k), family.a_type, 1)
    b = integers((product.k, n), family.b_type, 2)
    raw = encode(b, family.b_type)
    raw = np.ascontiguousarray(raw.T if product.b_major == "k" else raw)
    dtype = ACCUMULATORS[family.accumulator]
    out = np.full((THREADS, product.accumulator_bytes // np.dtype(dtype).itemsize), 77, dtype)
    return ProductRun(product, (a_argument(product, a), raw, out), a @ b)
