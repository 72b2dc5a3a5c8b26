"""Block-scaled products along K in a loop: a report of misaligned accesses, rebuilt on our own.

Reported are tiles with eight scales along K and more than 16 columns, in loops of two iterations
and four; one iteration, three, and 16 columns are right there. All of these must be right here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E8M0FNUType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute

from tests.gpu.reported_crashes import Report, looped, matrix, parts
from tests.kernels.kernel_builder import Kernel
from tests.kernels.view_kernels import load_view, store_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType
from tileiras.dialects.cuda_tile.types import TileType as Tile

GPU_NAMES = ("sm_100", "sm_103", "sm_120", "sm_121")
"""Targets with the scales' types."""

ROWS = 128
SCALES = 8
"""Scales along K of a tile."""
F4, F8 = Float4E2M1FNType(), Float8E4M3FNType()
WHOLE = {F4: {0: 0, 2: 1, 4: 2, 5: 3, 10: -1, 12: -2}, F8: {0: 0, 0x38: 1, 0x40: 2, 0xB8: -1}}
"""Bits of whole numbers, and the numbers."""
POWERS = {F8: {0x30: 0.5, 0x38: 1, 0x40: 2}, Float8E8M0FNUType(): {126: 0.5, 127: 1, 128: 2}}
"""Bits of scales, and the scales."""


@dataclass(frozen=True)
class Scaled:
    """A product of ROWS x K and K x columns; the right one and its scales lie along K, too."""

    element: Attribute
    scale: Attribute
    block: int
    columns: int
    rounds: int

    @property
    def depth(self) -> int:
        """Elements of a tile along K."""
        return SCALES * self.block

    def build(self) -> Kernel:
        """The kernel; arguments are left, its scales, right, its scales, out."""
        kernel = Kernel(
            *(PointerType(type) for type in (self._stored, self.scale) * 2), PointerType(f32)
        )
        zero = kernel.constant(i32, 0)
        bytes_of_tile = self.depth // 2 if self.element == F4 else self.depth
        views = [
            parts(kernel, matrix(kernel, pointer, rows, self.rounds * width), (rows, width))
            for pointer, rows, width in zip(
                kernel.args,
                (ROWS, ROWS, self.columns, self.columns),
                (bytes_of_tile, SCALES) * 2,
            )
        ]

        def body(index: Any, total: Any) -> Any:
            left, left_scale, right, right_scale = (
                load_view(kernel, view, [zero, index]) for view in views
            )
            operands = [
                self._elements(kernel, left),
                _transposed(kernel, self._elements(kernel, right)),
                total,
                left_scale,
                _transposed(kernel, right_scale),
            ]
            return kernel.add(ct.MmaFScaledOp, operands, total.type)

        start = kernel.constant(f32, 0, (ROWS, self.columns))
        total = looped(kernel, self.rounds, body, start)
        out = matrix(kernel, kernel.args[4], ROWS, self.columns)
        store_view(kernel, total, parts(kernel, out, (ROWS, self.columns)), [zero, zero])
        return kernel

    @property
    def _stored(self) -> Attribute:
        return i8 if self.element == F4 else self.element

    def _elements(self, kernel: Kernel, tile: Any) -> Any:
        """The tile's elements; two of four bits lie in a byte."""
        if self.element != F4:
            return tile
        rows, width = tile.type.shape
        flat = kernel.add(ct.ReshapeOp, [tile], Tile(i8, (rows * width,)))
        halves = kernel.add(ct.UnpackOp, [flat], Tile(F4, (2 * rows * width,)))
        return kernel.add(ct.ReshapeOp, [halves], Tile(F4, (rows, 2 * width)))

    def arguments(self) -> list[Any]:
        """Whole numbers and powers of two: all sums are exact."""
        rng = np.random.default_rng(11)
        arrays: list[Any] = []
        for rows in (ROWS, self.columns):
            for values, width in ((WHOLE[self.element], self.depth), (POWERS[self.scale], SCALES)):
                bits = rng.choice(list(values), (rows, self.rounds * width)).astype(np.uint8)
                packed = self.element == F4 and width == self.depth
                arrays.append(bits[:, 0::2] | bits[:, 1::2] << 4 if packed else bits)
        return [*arrays, np.zeros((ROWS, self.columns), np.float32)]

    def wanted(self, arguments: list[Any]) -> np.ndarray:
        """The product in f32."""
        left, left_scale, right, right_scale = arguments[:4]
        return self._numbers(left, left_scale) @ self._numbers(right, right_scale).T

    def _numbers(self, bits: np.ndarray, scale: np.ndarray) -> np.ndarray:
        if self.element == F4:
            bits = np.stack((bits & 15, bits >> 4), axis=-1).reshape(len(bits), -1)
        scales = np.repeat(_looked_up(POWERS[self.scale], scale), self.block, axis=1)
        return _looked_up(WHOLE[self.element], bits) * scales


def _looked_up(values: dict[int, float], bits: np.ndarray) -> np.ndarray:
    table = np.full(256, np.nan, np.float32)
    table[list(values)] = list(values.values())
    return table[bits]


def _transposed(kernel: Kernel, tile: Any) -> Any:
    rows, columns = tile.type.shape
    order = DenseArrayBase.from_list(i32, [1, 0])
    result = Tile(tile.type.element_type, (columns, rows))
    return kernel.add(ct.PermuteOp, [tile], result, permutation=order)


_FORMATS = {
    "mxfp8": (F8, Float8E8M0FNUType(), 32),
    "mxfp4": (F4, Float8E8M0FNUType(), 32),
    "nvfp4": (F4, F8, 16),
}
_CASES = [
    *((name, columns, 2) for name in _FORMATS for columns in (32, 128)),
    *(("mxfp8", 128, rounds) for rounds in (1, 3, 4)),
    ("mxfp8", 16, 2),
]


def _report(name: str, columns: int, rounds: int) -> Report:
    scaled = Scaled(*_FORMATS[name], columns, rounds)
    return Report(
        f"a scaled product, {name}, {columns} columns, {rounds} rounds",
        scaled.build,
        scaled.arguments,
        scaled.wanted,
        gpu_names=GPU_NAMES,
    )


SCALED_REPORTS: tuple[Report, ...] = tuple(_report(*case) for case in _CASES)
"""All of them."""
