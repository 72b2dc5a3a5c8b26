"""Rows of elementwise operations: arithmetic, comparisons, conversions, mathematical functions.

They are the rows of `tests/kernels/elementwise_rows.py`, here as whole cuda_tile kernels; every
kernel loads and stores in one of several ways, ragged ends included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, f16, f32, f64  # noqa: E402
from xdsl.ir import Attribute  # noqa: E402

from tests.kernels.elementwise_bounds import ULP_F32, ULP_F64, source_operation  # noqa: E402
from tests.kernels.elementwise_rows import ROWS as CODEGEN_ROWS  # noqa: E402
from tests.kernels.elementwise_rows import Row as OpRow  # noqa: E402
from tests.kernels.kernel_builder import Kernel
from tests.kernels.view_kernels import load_view, store_view, tensor_view
from tileiras.dialects import cuda_tile as ct  # noqa: E402
from tileiras.dialects.cuda_tile.types import (  # noqa: E402
    PartitionViewType,
    PointerType,
    TensorViewType,
    TileType,
)
from tileiras.dialects.nv_tileaa import arithmetic, conversions, math  # noqa: E402
from tileiras.dialects.nv_tileaa.types import PointerType as AaPointerType  # noqa: E402
from tileiras.interpreter.formats import (  # noqa: E402
    FloatFormat,
    IntFormat,
    format_of,
    from_bits,
    to_bits,
)

from .rows import Close, Row  # noqa: E402
from .tiles import advanced, block_index  # noqa: E402
from .values import empty, mixed  # noqa: E402

LENGTH = 1000
"""Elements that views have: no multiple of a tile, so the last tile hangs over."""

ULP_SMALL = 0.51
"""Bounds of docs/elementwise.md; the reference is long double, near enough to exact."""

EXACT: dict[type, Callable[..., Any]] = {
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.LogOp: np.log,
    math.Log2Op: np.log2,
    math.PowOp: np.power,
    math.FPowIOp: np.power,
    math.RsqrtOp: lambda x: 1 / np.sqrt(x),
    math.SqrtOp: np.sqrt,
    math.SinOp: np.sin,
    math.CosOp: np.cos,
    math.TanOp: np.tan,
    math.SinhOp: np.sinh,
    math.CoshOp: np.cosh,
    math.TanhOp: np.tanh,
    math.Atan2Op: np.arctan2,
    arithmetic.DivFOp: np.divide,
}


def family_of(row: OpRow) -> str:
    """The family that a row is counted with."""
    if row.op in ULP_F32:
        return "math"
    if row.op.__module__ == conversions.__name__:
        return "conversion"
    if row.op in (arithmetic.CmpIOp, arithmetic.CmpFOp, arithmetic.SelectOp):
        return "compare"
    is_float = not isinstance(row.operands[0], IntegerType)
    return "float" if is_float else "integer"


def is_row(row: OpRow) -> bool:
    """Rows on numbers that memory can hold; pointers have a family of their own."""
    types = (*row.operands, row.result)
    if any(isinstance(t, AaPointerType) for t in types):
        return False
    mode = row.properties.get("rounding_mode")
    if row.op is conversions.FpToFpOp and mode in ("negative_inf", "positive_inf"):
        return row.operands[0] == f16  # narrowing has no such modes in cuda_tile
    if (row.operands[0], mode) == (f64, "nearest_away"):
        return False
    return not any(isinstance(t, IntegerType) and t.width.data == 4 for t in types)


def add_op(kernel: Kernel, row: OpRow, operands: list[Any]) -> Any:
    """The row's operation in the cuda_tile dialect."""
    op_class = source_operation(row.op)
    shape = operands[0].type.shape
    properties: dict[str, Any] = dict(row.build(4).properties)
    op = op_class.create(
        operands=operands, result_types=[TileType(row.result, shape)], properties=properties
    )
    kernel.insert(op)
    return op.results[0]


def pointer_kernel(row: OpRow, shape: tuple[int, ...]) -> Kernel:
    """Four blocks, each a tile further."""
    kernel = Kernel(*(PointerType(t) for t in (*row.operands, row.result)))
    count = int(np.prod(shape))
    moved = [advanced(kernel, pointer, count) for pointer in kernel.args]
    tiles = [kernel.load(pointer, shape) for pointer in moved[:-1]]
    kernel.store(moved[-1], add_op(kernel, row, tiles))
    return kernel


def view_kernel(row: OpRow, tile: tuple[int, ...], sizes: tuple[int, ...]) -> Kernel:
    """Blocks along x walk the first dim of views, whose last tile hangs over."""
    kernel = Kernel(*(PointerType(t) for t in (*row.operands, row.result)))
    strides = (1,) if len(tile) == 1 else (sizes[1], 1)
    x, _, _ = block_index(kernel)
    index = [x, *([kernel.constant(IntegerType(32), 0)] * (len(tile) - 1))]
    views = []
    for pointer, element in zip(kernel.args, (*row.operands, row.result)):
        type_ = TensorViewType(element, sizes, strides)
        view_type = PartitionViewType(tile, type_, tuple(range(len(tile))))
        base = tensor_view(kernel, pointer, type_)
        views.append(kernel.add(ct.MakePartitionViewOp, [base], view_type))
    tiles = [load_view(kernel, view, index) for view in views[:-1]]
    store_view(kernel, add_op(kernel, row, tiles), views[-1], index)
    return kernel


WAYS: tuple[tuple[str, Callable[[OpRow], Kernel], tuple[int, ...], int], ...] = (
    ("ptr256", lambda row: pointer_kernel(row, (256,)), (1024,), 4),
    ("view512", lambda row: view_kernel(row, (512,), (LENGTH,)), (LENGTH,), 2),
    ("ptr8x32", lambda row: pointer_kernel(row, (8, 32)), (1024,), 4),
    ("view16x32", lambda row: view_kernel(row, (16, 32), (37, 27)), (37, 27), 3),
    ("ptr2x8x16", lambda row: pointer_kernel(row, (2, 8, 16)), (1024,), 4),
    ("view64x64", lambda row: view_kernel(row, (64, 64), (50, 60)), (50, 60), 1),
    ("ptr2048", lambda row: pointer_kernel(row, (2048,)), (4096,), 2),
)
"""Name, kernel, shape of the arrays, number of blocks."""


def inputs(row: OpRow, name: str, shape: tuple[int, ...]) -> list[Any]:
    """The operands' memory, without what the operation leaves undefined, and the output."""
    elements = row.operands
    bits = [mixed(element, shape, name, p) for p, element in enumerate(elements)]
    formats = [format_of(element) for element in elements]
    values = [np.asarray(from_bits(b, f)) for b, f in zip(bits, formats)]
    values = defined_only(row, values)
    made = [
        np.ascontiguousarray(to_bits(np.asarray(v).astype(f.dtype), f))
        for v, f in zip(values, formats)
    ]
    return [*made, empty(row.result, shape)]


def defined_only(row: OpRow, values: list[Any]) -> list[Any]:
    """Replaces operands for which the result is undefined, or has no error bound."""
    first, last = values[0], values[-1]
    if row.op in (arithmetic.DivIOp, arithmetic.RemIOp):
        bad = last == 0
        if last.dtype != np.bool_ and row.properties["signedness"] == "signed":
            bad |= (last == -1) & (first == np.iinfo(first.dtype).min)
        if last.dtype == np.bool_ and row.properties["signedness"] == "signed":
            return [np.zeros_like(first), np.ones_like(last)]
        return [first, np.where(bad, np.ones_like(last), last)]
    if row.op is conversions.FpToIntOp and "saturating" not in row.properties:
        with np.errstate(all="ignore"):
            wide = first.astype(np.float64)
        width = row.result.width.data  # type: ignore[attr-defined]
        signed = row.properties["signedness"] == "signed"
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if signed else (0, 2**width)
        fits = (wide >= low) & (wide < high)
        return [np.where(fits, first, np.zeros_like(first))]
    if row.properties.get("rounding_mode") in ("approx", "full") and row.op is not math.TanhOp:
        limit = 80 if row.op is math.ExpOp and row.result == f32 else 2.0**60
        return [_tame(value, limit) for value in values]
    return values


def _tame(values: Any, limit: float) -> Any:
    """Numbers of moderate size only, others replaced by 1.5."""
    with np.errstate(all="ignore"):
        size = np.abs(values.astype(np.float64))
    good = (size <= limit) & (size >= 2.0**-60)
    return np.where(good, values, np.full_like(values, 1.5))


def closeness(row: OpRow) -> tuple[Close, ...]:
    """The bound of a row whose result is not exact."""
    mode = row.properties.get("rounding_mode")
    position = len(row.operands)
    flushes = "flush_to_zero" in row.properties
    if row.op in (arithmetic.DivFOp, math.SqrtOp):
        if mode not in ("approx", "full"):
            return ()
        ulps = 1 if row.op is math.SqrtOp else 2
        return (Close(position, _reference(row), ulps, flushes=flushes),)
    if row.op not in ULP_F32:
        return ()
    if mode == "approx" and row.op is math.TanhOp:
        reference = _reference(row)
        return (Close(position, reference, 1, lambda a: np.abs(reference(a)) * 2.0**-11),)
    if mode == "approx":
        reference = _reference(row)
        bound = _ulps_of_operand(row, reference)
        return (Close(position, reference, 2, bound),)
    if row.result == f64:
        ulps = ULP_F64[row.op]
    else:
        ulps = ULP_F32[row.op] if row.result == f32 else ULP_SMALL
    return (Close(position, _reference(row), ulps, flushes=flushes),)


def _ulps_of_operand(row: OpRow, reference: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """|x| units in the last place of the f32 result (exp approx)."""

    def bound(arguments: list[Any]) -> Any:
        x = np.abs(from_bits(arguments[0], format_of(row.operands[0])).astype(np.float64))
        return x * 2.0**-23 * np.abs(reference(arguments))

    return bound


def _reference(row: OpRow) -> Callable[[list[Any]], Any]:
    """The operation in long double."""

    def compute(arguments: list[Any]) -> Any:
        operands = [_wide(bits, element) for bits, element in zip(arguments, row.operands)]
        if "flush_to_zero" in row.properties:
            small = np.ldexp(np.longdouble(1), -126)
            operands = [np.where(np.abs(x) < small, np.copysign(0, x), x) for x in operands]
        with np.errstate(all="ignore"):
            return EXACT[row.op](*operands)

    return compute


def _wide(bits: Any, element: Attribute) -> Any:
    fmt = format_of(element)
    values = np.asarray(from_bits(bits, fmt))
    if isinstance(fmt, IntFormat):
        return fmt.signed(values).astype(np.longdouble)
    with np.errstate(all="ignore"):
        if isinstance(fmt, FloatFormat) and fmt.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        return values.astype(np.longdouble)


def _rows() -> list[Row]:
    rows = []
    for number, op_row in enumerate(row for row in CODEGEN_ROWS if is_row(row)):
        way, build, shape, blocks = WAYS[number % len(WAYS)]
        name = f"{op_row.name}-{way}"
        rows.append(
            Row(
                family_of(op_row),
                name,
                lambda build=build, op_row=op_row: build(op_row),
                lambda op_row=op_row, name=name, shape=shape: inputs(op_row, name, shape),
                (blocks, 1, 1),
                closeness(op_row),
            )
        )
    return rows


ROWS = _rows()
"""Every elementwise operation on every type."""
