"""Kernels of the kinds that public reports name as ending, hanging or misleading a compiler of Tile
IR, rebuilt: each here is our own.

Raw pointers and views on the same memory; products in loops with an occupancy asked for; gathered
rows that are multiplied; rows that are scattered; many blocks for each SM beside many registers.
Block-scaled products: `reported_scaled_products.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, IntegerAttr, f16, f32, i32

from tests.kernels.kernel_builder import NO_OVERFLOW, WEAK, Kernel, flags, rounding
from tests.kernels.view_kernels import MAKE_VIEW, load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    OptimizationHintsAttr,
    PaddingValue,
    PaddingValueAttr,
)
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    TensorViewType,
)
from tileiras.dialects.cuda_tile.types import TileType as Tile

INT = Tile(i32)
PAD = PaddingValueAttr(PaddingValue.ZERO)
ROWS, DEPTH, COLUMNS = 64, 128, 64


@dataclass(frozen=True)
class Report:
    """A kernel, its arguments, and what its last one becomes; floats are whole and small."""

    name: str
    build: Callable[[], Kernel]
    arguments: Callable[[], list[Any]]
    wanted: Callable[[list[Any]], np.ndarray]
    grid: tuple[int, int, int] = (1, 1, 1)
    hints: dict[str, int] = field(default_factory=dict[str, int])
    gpu_names: tuple[str, ...] = ("sm_80", "sm_90", "sm_100", "sm_103", "sm_120")
    """Targets that have what it uses."""

    @property
    def usual(self) -> str:
        """The target for what is tried on one only."""
        return "sm_90" if "sm_90" in self.gpu_names else self.gpu_names[0]


def finished(report: Report, gpu_name: str) -> Kernel:
    """The kernel, ended, with its hints for a GPU."""
    kernel = report.build()
    kernel.add(ct.ReturnOp, [[]])
    types = [argument.type for argument in kernel.args]
    kernel.entry.properties["function_type"] = FunctionType.from_lists(types, [])
    if report.hints:
        values = {name: IntegerAttr(value, i32) for name, value in report.hints.items()}
        hints = OptimizationHintsAttr(DictionaryAttr({gpu_name: DictionaryAttr(values)}))
        kernel.entry.properties["optimization_hints"] = hints
    return kernel


def _whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(np.float16)


def matrix(kernel: Kernel, pointer: Any, rows: int, columns: int) -> Any:
    """A tensor view of a row-major matrix."""
    element = pointer.type.element_type.pointee
    return tensor_view(kernel, pointer, TensorViewType(element, (rows, columns), (columns, 1)))


def parts(kernel: Kernel, base: Any, shape: tuple[int, int]) -> Any:
    """A view of a matrix in tiles; zeros lie beside it."""
    kind = PartitionViewType(shape, base.type, (0, 1), PAD)
    return kernel.add(MAKE_VIEW[PartitionViewType], [base], kind)


def looped(kernel: Kernel, rounds: int, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """A loop that carries one tile."""
    bounds = [kernel.constant(i32, n) for n in (0, rounds, 1)]

    def fill(index: Any, carried: Any) -> None:
        kernel.add(ct.ContinueOp, [[body(index, carried)]])

    region = kernel.region([INT, start.type], fill)
    return kernel.add(ct.ForOp, [*bounds, [start]], [[start.type]], [region])


def _raw_and_tiled() -> Kernel:
    """Rows written through pointers, read back through a view of the same memory, as tokens say."""
    kernel = Kernel(PointerType(f32), PointerType(f32))
    memory, out = kernel.args
    tile = kernel.load(memory, (16, 16))
    doubled = kernel.add(ct.AddFOp, [tile, tile], tile.type, rounding_mode=rounding())
    stored = kernel.add(
        ct.StorePtrTkoOp,
        [kernel.addresses(memory, (16, 16)), doubled, [], []],
        TOKEN,
        memory_ordering_semantics=WEAK,
    )
    view = parts(kernel, matrix(kernel, memory, 16, 16), (8, 16))
    fence = kernel.add(ct.MemoryFenceAliasTkoOp, [stored], TOKEN)
    zero, one = kernel.constant(i32, 0), kernel.constant(i32, 1)
    for half, index in enumerate((one, zero)):
        part = kernel.add(
            ct.LoadViewTkoOp,
            [view, [index, zero], [fence]],
            [view.type.tile_type, TOKEN],
            memory_ordering_semantics=WEAK,
            inbounds=flags([0, 0]),
        )[0]
        place = kernel.add(ct.OffsetOp, [out, kernel.constant(i32, 128 * half)], out.type)
        kernel.store(place, part)
    return kernel


def _product_loop() -> Kernel:
    """A product along K in a loop, and an addition of the sum to itself behind it."""
    kernel = Kernel(PointerType(f16), PointerType(f16), PointerType(f32))
    left = parts(kernel, matrix(kernel, kernel.args[0], ROWS, DEPTH), (ROWS, 32))
    right = parts(kernel, matrix(kernel, kernel.args[1], DEPTH, COLUMNS), (32, COLUMNS))
    zero = kernel.constant(i32, 0)

    def body(index: Any, total: Any) -> Any:
        a, b = load_view(kernel, left, [zero, index]), load_view(kernel, right, [index, zero])
        return kernel.add(ct.MmaFOp, [a, b, total], total.type)

    total = looped(kernel, DEPTH // 32, body, kernel.constant(f32, 0, (ROWS, COLUMNS)))
    out = parts(kernel, matrix(kernel, kernel.args[2], ROWS, COLUMNS), (ROWS, COLUMNS))
    store_view(kernel, total, out, [zero, zero])
    return kernel


def _gathered_product() -> Kernel:
    """Rows that an index names, multiplied in a loop."""
    kernel = Kernel(PointerType(f16), PointerType(i32), PointerType(f16), PointerType(f32))
    base = matrix(kernel, kernel.args[0], 2 * ROWS, DEPTH)
    kind = GatherScatterViewType((ROWS, 32), base.type, 0, PAD)
    left = kernel.add(MAKE_VIEW[GatherScatterViewType], [base], kind)
    rows = kernel.load(kernel.args[1], (ROWS,))
    right = parts(kernel, matrix(kernel, kernel.args[2], DEPTH, COLUMNS), (32, COLUMNS))
    zero, step = kernel.constant(i32, 0), kernel.constant(i32, 32)

    def body(index: Any, total: Any) -> Any:
        first = kernel.add(ct.MulIOp, [index, step], INT, overflow=NO_OVERFLOW)
        a = load_view(kernel, left, [rows, first])
        b = load_view(kernel, right, [index, zero])
        return kernel.add(ct.MmaFOp, [a, b, total], total.type)

    total = looped(kernel, DEPTH // 32, body, kernel.constant(f32, 0, (ROWS, COLUMNS)))
    kernel.store(kernel.args[3], total)
    return kernel


def _scattered() -> Kernel:
    """Rows stored where an index says; some lie outside and are not."""
    kernel = Kernel(PointerType(f32), PointerType(i32), PointerType(f32))
    rows = kernel.load(kernel.args[1], (16,))
    base = matrix(kernel, kernel.args[2], 24, 32)
    kind = GatherScatterViewType((16, 32), base.type, 0)
    view = kernel.add(MAKE_VIEW[GatherScatterViewType], [base], kind)
    zero = kernel.constant(i32, 0)
    store_view(kernel, kernel.load(kernel.args[0], (16, 32)), view, [rows, zero])
    return kernel


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32)


def _factors(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [_whole(rng, ROWS, DEPTH), _whole(rng, DEPTH, COLUMNS)]


def _product_arguments() -> list[Any]:
    return [*_factors(1), np.zeros((ROWS, COLUMNS), np.float32)]


def _gathered_arguments() -> list[Any]:
    rng = np.random.default_rng(2)
    rows = rng.permutation(2 * ROWS)[:ROWS].astype(np.int32)
    source, right = _whole(rng, 2 * ROWS, DEPTH), _whole(rng, DEPTH, COLUMNS)
    return [source, rows, right, np.zeros((ROWS, COLUMNS), np.float32)]


def _scattered_arguments() -> list[Any]:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((16, 32)).astype(np.float32)
    rows = (rng.permutation(30)[:16] - 3).astype(np.int32)
    return [data, rows, np.zeros((24, 32), np.float32)]


def _scattered_wanted(arguments: list[Any]) -> np.ndarray:
    data, rows, out = arguments
    wanted = out.copy()
    for row, values in zip(rows, data):
        if 0 <= row < 24:
            wanted[row] = values
    return wanted


def _raw_arguments() -> list[Any]:
    data = np.arange(256, dtype=np.float32).reshape(16, 16)
    return [data, np.zeros((16, 16), np.float32)]


REPORTS: tuple[Report, ...] = (
    Report(
        "raw and tiled accesses of one memory",
        _raw_and_tiled,
        _raw_arguments,
        lambda a: np.concatenate([2 * a[0][8:], 2 * a[0][:8]]),
    ),
    *(
        Report(
            f"a product in a loop, occupancy {occupancy}",
            _product_loop,
            _product_arguments,
            lambda a: _product(a[0], a[1]),
            hints={"occupancy": occupancy} if occupancy else {},
        )
        for occupancy in (0, 2, 16)
    ),
    Report(
        "a product of gathered rows",
        _gathered_product,
        _gathered_arguments,
        lambda a: _product(a[0][a[1]], a[2]),
    ),
    Report("scattered rows", _scattered, _scattered_arguments, _scattered_wanted),
)
"""All of them."""
