"""Matrix products as text, and random shapes, strides and starts to run them on.

One kernel takes every shape: extents, strides and the place of the first element are parameters.
Operands are small whole numbers, so results are exact in every format and order of summation. What
lies between and around the elements is poison that no result may show.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.kernels.product_text import ELEMENTS, ProductKernel
from tileiras.interpreter.formats import format_of, to_bits

POISON = 0x7F
"""Every byte around an operand: NaN or the largest number of its format."""
UNTOUCHED = 0x5B
"""Every byte of a result before the kernel runs."""
WORST_EXTENT = 3
"""Products have up to so many tiles along each dim."""


NARROW_KERNELS = (
    ProductKernel("f16", (128, 128, 32)),
    ProductKernel("f16", (64, 64, 16), b="transposed"),
    ProductKernel("bf16", (128, 32, 64), form="persistent"),
    ProductKernel("f16", (64, 16, 32), form="batched"),
    ProductKernel("bf16", (256, 64, 32), a="column", b="transposed", form="batched"),
    ProductKernel("f16", (64, 128, 32), form="persistent", result="f16"),
    ProductKernel("f16", (128, 8, 16), a="column", b="column"),
    ProductKernel("f16", (64, 64, 32), b="permuted", form="split"),
    ProductKernel("f16", (256, 128, 32), cluster=2),
    ProductKernel("f32", (128, 64, 16)),
    ProductKernel("f32", (64, 64, 8), b="column", form="persistent"),
    ProductKernel("f32", (128, 32, 16), a="column", b="transposed"),
    ProductKernel("f8E4M3FN", (64, 128, 32), b="transposed", form="batched"),
    ProductKernel("f8E4M3FN", (64, 64, 64), form="persistent"),
    ProductKernel("f8E5M2", (64, 32, 32), a="column", b="column"),
    ProductKernel("i8", (128, 64, 32), b="column"),
    ProductKernel("i8", (64, 64, 64)),
    ProductKernel("i8", (64, 64, 128), a="column", b="permuted", form="split"),
    ProductKernel("i8", (128, 128, 128), a="column"),
    ProductKernel("f8E4M3FN", (256, 128, 128), a="column", form="persistent"),
    ProductKernel("f8E5M2", (64, 64, 32), a="column", form="batched"),
    ProductKernel("f32", (128, 128, 32), a="column"),
    ProductKernel("f32", (64, 256, 32), a="transposed", form="persistent"),
    ProductKernel("f32", (64, 64, 16), a="permuted", form="split"),
    ProductKernel("f32", (256, 64, 32), a="column", form="batched"),
    ProductKernel("f32", (64, 128, 8), a="column", is_aligned=False),
)
"""Operands with rows of 64 or 32 bytes, and of 8 and 32 bits with K contiguous in neither."""
FEW_ROWS = (
    ProductKernel("f16", (32, 64, 64)),
    ProductKernel("f16", (16, 128, 64), b="transposed", form="persistent"),
    ProductKernel("bf16", (8, 64, 128), form="batched"),
    ProductKernel("f16", (32, 256, 32), a="column"),
    ProductKernel("f16", (16, 64, 256), a="column", b="transposed", form="split"),
    ProductKernel("f16", (32, 128, 64), form="persistent", result="f16"),
    ProductKernel("bf16", (32, 128, 64), form="numbered", order="columns"),
    ProductKernel("f16", (32, 128, 64), cluster=2),
    ProductKernel("f16", (16, 64, 64), is_aligned=False),
    ProductKernel("bf16", (32, 64, 64), chunk=4),
    ProductKernel("f32", (32, 64, 32), b="transposed"),
    ProductKernel("f32", (16, 64, 256), form="split"),
    ProductKernel("f32", (8, 128, 32), b="transposed", form="persistent"),
    ProductKernel("f8E4M3FN", (32, 64, 128), b="transposed"),
    ProductKernel("f8E5M2", (16, 128, 64), form="persistent"),
    ProductKernel("f8E4M3FN", (8, 64, 256), b="transposed", form="batched"),
    ProductKernel("i8", (32, 64, 64), b="transposed", form="persistent"),
    ProductKernel("i8", (16, 128, 128)),
)
"""Tiles of fewer rows than an instruction has: the transposed products."""
WHOLE_CHUNKS = (
    ProductKernel("f16", (128, 128, 64), whole=True),
    ProductKernel("f16", (64, 128, 32), a="column", b="transposed", whole=True),
    ProductKernel("bf16", (128, 64, 64), b="permuted", form="persistent", whole=True),
    ProductKernel("f16", (64, 64, 256), form="split", whole=True),
    ProductKernel("f16", (32, 32, 64), form="batched", whole=True),
    ProductKernel("f16", (16, 16, 16), a="column", whole=True),
    ProductKernel("bf16", (16, 128, 128), b="transposed", whole=True),
    ProductKernel("f16", (256, 128, 32), result="f16", whole=True),
    ProductKernel("f32", (128, 128, 32), whole=True),
    ProductKernel("f32", (64, 32, 64), b="transposed", form="persistent", whole=True),
    ProductKernel("f32", (32, 64, 16), a="column", whole=True),
    ProductKernel("i8", (128, 128, 64), b="transposed", whole=True),
    ProductKernel("i8", (64, 64, 128), whole=True),
    ProductKernel("f8E4M3FN", (64, 64, 64), b="transposed", form="batched", whole=True),
)
"""Copies of whole chunks: where there is no wgmma, mma.sync reads them where they are."""
KERNELS = (
    ProductKernel("f16", (128, 128, 64)),
    ProductKernel("f16", (128, 256, 64), form="persistent"),
    ProductKernel("f16", (64, 64, 64), form="split"),
    ProductKernel("f16", (64, 128, 32), form="batched"),
    ProductKernel("f16", (128, 64, 64), a="column", b="transposed"),
    ProductKernel("f16", (256, 128, 64), b="transposed", result="f16"),
    ProductKernel("f16", (64, 256, 64), a="column", form="persistent", result="f16"),
    ProductKernel("f16", (64, 64, 32), is_aligned=False),
    ProductKernel("f16", (32, 32, 32), a="any", b="any", is_aligned=False),
    ProductKernel("f16", (128, 256, 256)),
    ProductKernel(
        "f16", (256, 128, 128), a="column", b="transposed", form="persistent", result="f16"
    ),
    ProductKernel("f16", (64, 64, 512), form="split"),
    ProductKernel("f16", (128, 128, 256), is_aligned=False),
    ProductKernel("bf16", (128, 128, 64), form="split"),
    ProductKernel("bf16", (128, 128, 32), a="column", form="batched"),
    ProductKernel("bf16", (64, 128, 64), b="permuted"),
    ProductKernel("bf16", (16, 64, 64), form="persistent", is_aligned=False),
    ProductKernel("f32", (64, 64, 32)),
    ProductKernel("f32", (128, 128, 32), form="persistent"),
    ProductKernel("f32", (64, 64, 32), a="column", b="transposed", form="batched"),
    ProductKernel("f32", (64, 32, 16), a="any", form="split", is_aligned=False),
    ProductKernel("f8E4M3FN", (128, 128, 64), b="transposed"),
    ProductKernel("f8E4M3FN", (64, 64, 64), form="batched"),
    ProductKernel("f8E5M2", (64, 128, 64), a="column", form="persistent"),
    ProductKernel("f8E5M2", (64, 64, 32), b="permuted", form="split", is_aligned=False),
    ProductKernel("f8E4M3FN", (128, 256, 256), form="batched"),
    ProductKernel("f32", (128, 128, 128), b="transposed", form="split"),
    ProductKernel("f32", (128, 128, 32), b="transposed"),
    ProductKernel("f32", (256, 128, 32), b="transposed", form="persistent"),
    ProductKernel("i8", (256, 128, 128), b="transposed", form="batched"),
    ProductKernel("i8", (128, 128, 128), b="transposed", form="numbered"),
    ProductKernel("i8", (128, 128, 512), b="transposed"),
    ProductKernel("i8", (128, 128, 64), b="transposed"),
    ProductKernel("i8", (64, 64, 64), form="persistent"),
    ProductKernel("i8", (64, 32, 32), a="any", b="column", is_aligned=False),
    ProductKernel("i8", (32, 64, 64), form="batched", is_aligned=False),
    ProductKernel("f16", (128, 128, 64), a="column", form="persistent"),
    ProductKernel("f16", (256, 128, 64), cluster=2),
    ProductKernel("f16", (256, 256, 64), b="transposed", cluster=2),
    ProductKernel("bf16", (128, 128, 64), form="batched", cluster=2),
    ProductKernel("f8E4M3FN", (256, 256, 128), b="transposed", form="persistent", cluster=2),
    ProductKernel("f16", (64, 512, 64)),
    ProductKernel("i8", (64, 512, 128), b="column"),
    ProductKernel("f16", (128, 256, 64), form="split", is_aligned=False),
    ProductKernel("bf16", (256, 256, 32), form="split", is_aligned=False),
    *NARROW_KERNELS,
    *FEW_ROWS,
    *WHOLE_CHUNKS,
    ProductKernel("f16", (128, 128, 64), chunk=8),
    ProductKernel("f16", (128, 256, 64), form="persistent", chunk=4),
    ProductKernel("f16", (128, 128, 64), is_aligned=False),
    ProductKernel("f16", (64, 256, 64), a="column", b="transposed", is_aligned=False),
    ProductKernel("bf16", (128, 128, 64), b="permuted", form="batched", chunk=4),
    ProductKernel("f32", (128, 128, 32), is_aligned=False),
    ProductKernel("f32", (64, 128, 32), b="transposed", form="split", is_aligned=False),
    ProductKernel("f8E4M3FN", (128, 128, 128), b="transposed", is_aligned=False),
    ProductKernel("f8E5M2", (64, 128, 128), form="persistent", chunk=4),
    ProductKernel("i8", (128, 128, 128), b="transposed", is_aligned=False),
    ProductKernel("i8", (128, 128, 128), form="batched", chunk=8),
)


@dataclass(frozen=True)
class Placement:
    """Where element (batch, row, column) of a matrix lies: `first` plus the sum of the strides."""

    shape: tuple[int, int, int]
    first: int
    strides: tuple[int, int, int]

    @property
    def places(self) -> np.ndarray:
        """The place of every element."""
        places = np.full(self.shape, self.first)
        for axis, stride in zip(np.indices(self.shape), self.strides, strict=True):
            places += axis * stride
        return places

    @property
    def size(self) -> int:
        """Elements of memory, with a margin behind the last one."""
        return int(self.places.max()) + 9


def place(
    rng: random.Random, shape: tuple[int, int, int], major: str, unit: int, is_aligned: bool
) -> Placement:
    """A random placement: rows or columns apart by more than their length, batches as well.

    With `is_aligned` the start and the strides are multiples of `unit`.
    """
    _, rows, columns = shape

    def spread(extent: int) -> int:
        wanted = extent + rng.choice((0, 1, 3, 8, 17))
        return -(-wanted // unit) * unit if is_aligned else wanted

    first = rng.randrange(4) * unit if is_aligned else rng.randrange(12)
    match major:
        case "column" | "transposed" | "permuted":
            far = spread(rows)
            return Placement(shape, first, (spread(columns * far), 1, far))
        case "any":
            step = rng.choice((1, 2, 3))
            far = spread(columns * step)
            return Placement(shape, first, (spread(rows * far), far, step))
        case _:
            far = spread(columns)
            return Placement(shape, first, (spread(rows * far), far, 1))


@dataclass(frozen=True)
class ProductCase:
    """A kernel with shapes, placements and a grid."""

    kernel: ProductKernel
    seed: int
    extents: tuple[int, int, int]
    a: Placement
    b: Placement
    c: Placement
    grid: tuple[int, int, int]

    @property
    def name(self) -> str:
        """What failed, in a line."""
        return f"{self.kernel.name}-{'x'.join(map(str, self.extents))}-{self.seed}"

    def operands(self) -> tuple[np.ndarray, np.ndarray]:
        """Whole numbers that keep every sum exact in the type of the result."""
        rng = np.random.default_rng(self.seed)
        limit = 1 if self.kernel.result == "f16" else 2
        a = rng.integers(-limit, limit + 1, self.a.shape)
        return a, rng.integers(-limit, limit + 1, self.b.shape)

    def arguments(self) -> list[Any]:
        """Fresh memory and the scalars, in the order of the kernel's parameters."""
        a, b = self.operands()
        kernel = self.kernel
        result = np.zeros(self.c.shape) if kernel.form == "split" else None
        memory = [
            filled(self.a, a, kernel.element, POISON),
            filled(self.b, b, kernel.element, POISON),
            filled(self.c, result, kernel.result, UNTOUCHED),
            np.zeros(self.grid[0] * self.grid[1], np.int32),
        ]
        numbers = [*self.extents]
        for placement in (self.a, self.b, self.c):
            numbers += [placement.first, *placement.strides]
        return [*memory, *(np.int32(number) for number in numbers)]

    def wanted(self) -> np.ndarray:
        """The memory of the result afterwards: float64 holds these sums exactly."""
        a, b = self.operands()
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return filled(self.c, exact, self.kernel.result, UNTOUCHED)

    def difference(self, found: np.ndarray) -> str:
        """Where the result is wrong or something else was written; empty if nowhere.

        No sum is -0: they start from +0.
        """
        wanted = self.wanted()
        bad = np.flatnonzero(found != wanted)
        if not bad.size:
            return ""
        inside = np.isin(bad, self.c.places)
        at = int(bad[0])
        return (
            f"{bad.size} of {wanted.size} differ, {int((~inside).sum())} of them no elements, "
            f"first at {at}: {int(found[at]):#x} instead of {int(wanted[at]):#x}"
        )


def filled(placement: Placement, values: np.ndarray | None, element: str, byte: int) -> np.ndarray:
    """Memory full of one byte, with a matrix in it."""
    fmt = format_of(ELEMENTS[element])
    size = placement.size * np.dtype(fmt.storage).itemsize
    memory = np.full(size, byte, np.uint8).view(fmt.storage)
    if values is not None:
        typed = np.ascontiguousarray(values.astype(fmt.dtype))
        memory[placement.places] = to_bits(typed, fmt).reshape(placement.shape)
    return memory


def make_case(kernel: ProductKernel, seed: int, tiles: int = WORST_EXTENT) -> ProductCase:
    """A random product for a kernel: mostly ragged, sometimes whole tiles, at times tiny."""
    rng = random.Random(f"{kernel.name} {seed}")

    def extent(tile: int) -> int:
        match rng.randrange(6):
            case 0:
                return tile * rng.randint(1, tiles)
            case 1:
                return rng.randint(1, min(9, tile))
            case _:
                return rng.randint(1, tile * tiles)

    m, n, k = (extent(tile) for tile in kernel.tile)
    if kernel.whole:
        m, n, k = (-(-size // kernel.unit) * kernel.unit for size in (m, n, k))
    batch = rng.randint(1, 3) if kernel.form == "batched" else 1
    unit, is_aligned = kernel.unit, kernel.is_aligned
    row_tiles, column_tiles = -(-m // kernel.tile[0]), -(-n // kernel.tile[1])
    match kernel.form:
        case "persistent":
            grid = (rng.randint(1, row_tiles * column_tiles + 1), 1, 1)
        case "numbered":
            grid = (row_tiles * column_tiles, 1, 1)
        case "split":
            grid = (row_tiles, column_tiles, rng.randint(1, 4))
        case _:
            grid = (row_tiles, column_tiles, batch)
    return ProductCase(
        kernel,
        seed,
        (m, n, k),
        place(rng, (batch, m, k), kernel.a, unit, is_aligned),
        place(rng, (batch, k, n), kernel.b, unit, is_aligned),
        place(rng, (batch, m, n), "row", unit, is_aligned),
        grid,
    )


def dense_case(kernel: ProductKernel, extents: tuple[int, int, int], *blocks: int) -> ProductCase:
    """A product whose rows (or columns) follow each other, by a grid of so many blocks."""
    m, n, k = extents

    def dense(rows: int, columns: int, major: str) -> Placement:
        is_by_column = major in ("column", "transposed", "permuted")
        inner = rows if is_by_column else columns
        far = -(-inner // kernel.unit) * kernel.unit
        strides = (columns * far, 1, far) if is_by_column else (rows * far, far, 1)
        return Placement((1, rows, columns), 0, strides)

    a, b, c = dense(m, k, kernel.a), dense(k, n, kernel.b), dense(m, n, "row")
    grid = (*blocks, 1, 1)
    return ProductCase(kernel, 0, extents, a, b, c, (grid[0], grid[1], grid[2]))


def aligned_result(kernel: ProductKernel) -> str:
    """The text of a kernel that knows where its result lies: so it does in a `dense_case`."""
    text = kernel.text().replace("%C1k = assume div_by<1>", "%C1k = assume div_by<16>")
    for stride in range(3):
        known = f"%Cs{stride}k = assume div_by<"
        text = text.replace(f"{known}1>", f"{known}{kernel.unit}>")
    return text


def cases(count: int) -> Sequence[ProductCase]:
    """`count` products for every kernel."""
    return [make_case(kernel, seed) for kernel in KERNELS for seed in range(count)]
