"""GEMMs through views with run-time sizes, for any types and either order of the operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    Float32Type,
    FloatTF32Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    i32,
)
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import SIGNED, UNIT, Kernel, rounding
from tests.kernels.view_kernels import load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    DivByAttr,
    PaddingValue,
    PaddingValueAttr,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.types import (
    DYNAMIC,
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)
from tileiras.interpreter.formats import FloatFormat, format_of, from_bits, to_bits

INT = TileType(i32)


@dataclass(frozen=True)
class Gemm:
    """`c[m, n] = a @ b` in tiles; `a_transposed`: a is stored K by M, `b_transposed`: b is stored N
    by K.

    Elements of `stored` are rounded to `operand` before they are multiplied, if those differ.
    """

    operand: Attribute
    sums: Attribute
    tile: tuple[int, int, int]
    a_transposed: bool = False
    b_transposed: bool = False
    stored: Attribute | None = None
    signs: tuple[SignednessAttr, SignednessAttr] = (SIGNED, SIGNED)
    fast_acc: bool = False

    @property
    def element(self) -> Attribute:
        """The type of the elements in memory."""
        return self.stored or self.operand

    def kernel(self) -> Kernel:
        """Parameters a, b, c, then m, n, k; sizes are multiples of 16."""
        pointer = PointerType(self.element)
        kernel = Kernel(pointer, pointer, PointerType(self.sums), i32, i32, i32)
        a, b, c, *sizes = (_promised(kernel, value) for value in kernel.args)
        m, n, k = sizes
        tm, tn, tk = self.tile
        left = _view(kernel, a, (m, k), (tm, tk), self.a_transposed)
        right = _view(kernel, b, (k, n), (tk, tn), self.b_transposed)
        out = _view(kernel, c, (m, n), (tm, tn), False, pads=False)
        x, y, _ = kernel.add(ct.GetTileBlockIdOp, [], [INT] * 3)
        steps = kernel.add(ct.GetIndexSpaceShapeOp, [left], [[INT, INT]])[1]

        def body(step: Any, acc: Any) -> None:
            tiles = [load_view(kernel, left, [x, step]), load_view(kernel, right, [step, y])]
            kernel.add(ct.ContinueOp, [[self._product(kernel, tiles, acc)]])

        start = kernel.constant(self.sums, 0, (tm, tn))
        region = kernel.region([INT, start.type], body)
        bounds = [kernel.constant(i32, 0), steps, kernel.constant(i32, 1)]
        total = kernel.add(ct.ForOp, [*bounds, [start]], [[start.type]], [region])
        store_view(kernel, total, out, [x, y])
        kernel.add(ct.ReturnOp, [[]])
        return kernel

    def _product(self, kernel: Kernel, tiles: list[Any], acc: Any) -> Any:
        if self.stored is not None:
            tiles = [
                kernel.add(
                    ct.FToFOp,
                    [tile],
                    TileType(self.operand, tile.type.shape),
                    rounding_mode=rounding(),
                )
                for tile in tiles
            ]
        if isinstance(self.operand, IntegerType):
            signs = dict(zip(("signedness_lhs", "signedness_rhs"), self.signs, strict=True))
            return kernel.add(ct.MmaIOp, [*tiles, acc], acc.type, **signs)
        properties: dict[str, Attribute] = {"fast_acc": UNIT} if self.fast_acc else {}
        return kernel.add(ct.MmaFOp, [*tiles, acc], acc.type, **properties)

    def arguments(self, sizes: tuple[int, int, int]) -> list[Any]:
        """Small whole numbers, whose products and sums are exact, and a place for the result."""
        m, n, k = sizes
        shapes = ((k, m) if self.a_transposed else (m, k), (n, k) if self.b_transposed else (k, n))
        fmt, rng = format_of(self.element), np.random.default_rng(0)
        arrays: list[np.ndarray] = []
        for shape in shapes:
            if isinstance(fmt, FloatFormat):
                numbers = rng.integers(-2, 3, shape).astype(fmt.dtype)
            else:
                numbers = fmt.wrap(rng.integers(0, 256, shape))
            arrays.append(np.ascontiguousarray(to_bits(numbers, fmt)))
        out = format_of(self.sums)
        empty = np.ascontiguousarray(to_bits(np.full((m, n), 77).astype(out.dtype), out))
        return [*arrays, empty, *(np.int32(size) for size in sizes)]

    def product(self, arguments: list[Any]) -> np.ndarray:
        """The result for arguments, as bits, by numpy."""
        fmt, wide = format_of(self.element), np.float64
        values: list[np.ndarray] = []
        for number, (bits, transposed) in enumerate(
            zip(arguments[:2], (self.a_transposed, self.b_transposed), strict=True)
        ):
            if isinstance(fmt, FloatFormat):
                held = from_bits(bits, fmt).astype(wide)
            else:
                held = fmt.read(from_bits(bits, fmt), self.signs[number] == SIGNED).astype(wide)
            values.append(held.T if transposed else held)
        out = format_of(self.sums)
        return to_bits((values[0] @ values[1]).astype(out.dtype), out)


TF32 = {"operand": FloatTF32Type(), "stored": Float32Type(), "sums": Float32Type()}
"""What a client writes for a product of f32 arrays in tf32."""


def _promised(kernel: Kernel, value: Any) -> Any:
    """A pointer or size that is a multiple of 16."""
    promise = DivByAttr(IntAttr(16), NoneAttr(), NoneAttr())
    return kernel.add(ct.AssumeOp, [value], value.type, predicate=promise)


def _view(
    kernel: Kernel,
    base: Any,
    sizes: Any,
    tile: tuple[int, int],
    transposed: bool,
    pads: bool = True,
) -> Any:
    """Tiles of a matrix; a transposed one is stored with its rows contiguous."""
    stored = tuple(reversed(sizes)) if transposed else sizes
    element = base.type.element_type.pointee
    type_ = TensorViewType(element, (DYNAMIC, DYNAMIC), (DYNAMIC, 1))
    whole = tensor_view(kernel, base, type_, [*stored, stored[1]])
    padding = PaddingValueAttr(PaddingValue.ZERO) if pads else NoneAttr()
    order = (1, 0) if transposed else (0, 1)
    return kernel.add(
        ct.MakePartitionViewOp, [whole], PartitionViewType(tile, type_, order, padding)
    )
