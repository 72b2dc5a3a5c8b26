"""Products of complex tiles in real and imaginary parts, as Fourier transforms have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, f32, i32

from tests.kernels.kernel_builder import Kernel, rounding
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType

SHAPE = (2, 16, 32)
"""Batches, rows (and depth), columns."""


class ComplexProduct:
    """w @ x of complex tiles, `w` for all batches, as an FFT multiplies them."""

    def __init__(self, element: Any = f32, w_batches: int = 1, shape: tuple[int, ...] = SHAPE):
        self.shape = shape
        self.element = element
        batches, rows, _ = shape
        self.w_shape = (w_batches, rows, rows)
        self.kernel = Kernel(*(PointerType(element) for _ in range(6)))
        w = [self.kernel.load(pointer, self.w_shape) for pointer in self.kernel.args[:2]]
        if w_batches < batches:
            type = TileType(element, (batches, rows, rows))
            w = [self.kernel.add(ct.BroadcastOp, [tile], type) for tile in w]
        self.w = w
        self.x = [self.kernel.load(pointer, shape) for pointer in self.kernel.args[2:4]]

    def multiply(self, w: Any, x: Any) -> Any:
        """A product without a sum."""
        zero = self.kernel.constant(self.element, 0.0, self.shape)
        return self.kernel.add(ct.MmaFOp, [w, x, zero], TileType(self.element, self.shape))

    def both(self, x: list[Any]) -> list[Any]:
        """Real and imaginary part."""
        type, nearest = TileType(self.element, self.shape), rounding()
        parts = []
        for op, pairs in ((ct.SubFOp, ((0, 0), (1, 1))), (ct.AddFOp, ((1, 0), (0, 1)))):
            products = [self.multiply(self.w[i], x[j]) for i, j in pairs]
            parts.append(self.kernel.add(op, products, type, rounding_mode=nearest))
        return parts

    def transposed(self, tiles: list[Any]) -> list[Any]:
        """Tiles with some dims exchanged, in the same shape."""
        batches, rows, columns = self.shape
        whole = TileType(self.element, (batches, rows, columns // rows, rows))
        other = TileType(self.element, (batches, columns // rows, rows, rows))
        order = DenseArrayBase.from_list(i32, [0, 2, 3, 1])
        results = []
        for tile in tiles:
            split = self.kernel.add(ct.ReshapeOp, [tile], whole)
            moved = self.kernel.add(ct.PermuteOp, [split], other, permutation=order)
            results.append(
                self.kernel.add(ct.ReshapeOp, [moved], TileType(self.element, self.shape))
            )
        return results

    def run(self, results: list[Any], arch: str = "sm_89") -> tuple[list[Any], str]:
        """(w, x, results) as complex arrays of small integers, and the lowered text."""
        for pointer, tile in zip(self.kernel.args[4:], results, strict=True):
            self.kernel.store(pointer, tile)
        self.kernel.add(ct.ReturnOp, [[]])
        generator = np.random.default_rng(7)
        w, x = (
            [generator.integers(-3, 4, shape).astype(np.float32) for _ in range(2)]
            for shape in (self.w_shape, self.shape)
        )
        found = [np.zeros(self.shape, np.float32) for _ in range(2)]
        module = lower_to_llvm(self.kernel.module, arch)
        run_lowered(module, [*w, *x, *found])
        return [re + 1j * im for re, im in (w, x, found)], str(module)
