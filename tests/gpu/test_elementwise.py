"""Elementwise operations on the GPU against the interpreter: exact, or within documented bounds.

Every operation on every type gets edge values (zeros, subnormals, infinities, NaNs, extreme
integers) against each other, then random bit patterns and moderate numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
driver = pytest.importorskip("cuda.bindings.driver")


from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, f64  # noqa: E402
from xdsl.ir import Attribute, Block  # noqa: E402

from tests.kernels.elementwise_bounds import (  # noqa: E402
    ULP_F32,
    ULP_F64,
    source_operation,
)
from tests.kernels.elementwise_rows import ROWS, Row, build_module, i1  # noqa: E402
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx  # noqa: E402
from tileiras.codegen.ptxas_backend import ptx_to_cubin  # noqa: E402
from tileiras.codegen.target import get_target  # noqa: E402
from tileiras.dialects.cuda_tile.types import TileType  # noqa: E402
from tileiras.dialects.nv_tileaa import arithmetic, conversions, math  # noqa: E402
from tileiras.dialects.nv_tileaa.types import PointerType  # noqa: E402
from tileiras.driver import with_environment  # noqa: E402
from tileiras.interpreter.execution import PURE_RULES  # noqa: E402
from tileiras.interpreter.formats import format_of, from_bits, to_bits  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402

from .launch import gpu_name  # noqa: E402

pytestmark = pytest.mark.gpu

LANES = 4
COUNT = 4096  # elements of every operand

NUMPY_F64_ULP = 2  # numpy's own error, in the reference


def ulp_bound(row: Row) -> int:
    """How many representable values the result may be away from the reference."""
    mode = row.properties.get("rounding_mode")
    if mode in ("approx", "full") and row.op in (arithmetic.DivFOp, math.SqrtOp):
        return 2
    if mode == "approx":
        return 2 + 64 if row.op is math.ExpOp else 1 << 13  # tanh: 2**-11 relative
    if row.op not in ULP_F32:
        return 0
    if row.result == f64:
        return ULP_F64[row.op] + NUMPY_F64_ULP
    return ULP_F32[row.op] if row.result == f32 else 1


def is_checked(row: Row) -> bool:
    """Rows whose reference says the same as the specification on all inputs made here."""
    no_reference = (conversions.AddPtrOp, conversions.IntToPtrOp, conversions.PtrToIntOp)
    if row.op in (*no_reference, conversions.PtrToPtrOp):
        return False
    if any(isinstance(type, PointerType) for type in row.operands):
        return False
    return not (row.op is math.FPowIOp and row.operands[1] == i1)


CHECKED = [row for row in ROWS if is_checked(row)]


class Gpu:
    """The first device, with a module that has a kernel per row."""

    def __init__(self) -> None:
        self._check(driver.cuInit(0))
        self.device = self._check(driver.cuDeviceGet(0))
        self.context = self._check(driver.cuDevicePrimaryCtxRetain(self.device))
        self._check(driver.cuCtxSetCurrent(self.context))
        name = gpu_name()
        options = with_environment(CompileOptions(gpu_name=name))
        text = build_module(CHECKED, name, LANES, indexed=True)
        ptx = llvm_ir_to_ptx(text, get_target(name), options)
        cubin = ptx_to_cubin(ptx, get_target(name), options).cubin
        self.module = self._check(driver.cuModuleLoadData(cubin))

    @staticmethod
    def _check(answer: tuple[Any, ...]) -> Any:
        assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer[0]
        return answer[1] if len(answer) > 1 else None

    def run(self, name: str, inputs: list[Any], result: Any) -> Any:
        """Copies arrays in, launches, copies the result's bits out."""
        arrays = [*inputs, result]
        memory = [self._check(driver.cuMemAlloc(array.nbytes)) for array in arrays]
        for pointer, array in zip(memory, arrays):
            self._check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
        kernel = self._check(driver.cuModuleGetFunction(self.module, name.encode()))
        cells = [np.array([int(pointer)], dtype=np.uint64) for pointer in memory]
        params = np.array([cell.ctypes.data for cell in cells], dtype=np.uint64)
        blocks = COUNT // (128 * LANES)
        self._check(
            driver.cuLaunchKernel(kernel, blocks, 1, 1, 128, 1, 1, 0, 0, params.ctypes.data, 0)
        )
        self._check(driver.cuCtxSynchronize())
        self._check(driver.cuMemcpyDtoH(result.ctypes.data, memory[-1], result.nbytes))
        for pointer in memory:
            self._check(driver.cuMemFree(pointer))
        return result


@cache
def gpu() -> Gpu:
    """One for all tests."""
    return Gpu()


def edge_bits(element: Attribute, fmt: Any) -> Any:
    """Bit patterns at the edges of a type."""
    bits = 8 * fmt.storage.itemsize
    top = 1 << (bits - 1)
    if fmt.name == "i1":
        return np.array([0, 1], dtype=fmt.storage)
    if isinstance(element, IntegerType):
        patterns = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2]
        return np.array(patterns, dtype=fmt.storage)
    numbers = [0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 7.0, 1e-3, 100.0, np.inf, np.nan]
    values = np.array(numbers, dtype=np.float64).astype(fmt.dtype).view(fmt.storage)
    tiny = np.array([1, 2, 3], dtype=fmt.storage)
    positive = np.concatenate([values, tiny, values[9:10] - fmt.storage.type(1)])
    return np.concatenate([positive, positive | fmt.storage.type(top)])


def operand_bits(element: Attribute, fmt: Any, position: int) -> Any:
    """COUNT patterns: edges against edges, random bits, and for floats moderate numbers."""
    rng = np.random.default_rng(position)
    edges = edge_bits(element, fmt)
    size = len(edges)
    repeated = np.repeat(edges, size) if position % 2 == 0 else np.tile(edges, size)
    drawn = rng.integers(0, 256, COUNT * fmt.storage.itemsize, dtype=np.uint8).view(fmt.storage)
    if fmt.name == "i1":
        drawn = drawn & 1
    if not isinstance(element, IntegerType):
        moderate = (rng.standard_normal(COUNT) * 8).astype(np.float64).astype(fmt.dtype)
        drawn = np.where(np.arange(COUNT) % 2 == 0, drawn, moderate.view(fmt.storage))
    elif fmt.name != "i1":
        small = rng.integers(0, 12, COUNT).astype(fmt.storage)
        drawn = np.where(np.arange(COUNT) % 4 == 0, small, drawn)
    return np.concatenate([repeated, drawn])[:COUNT]


def defined_only(row: Row, values: list[Any]) -> list[Any]:
    """Replaces operands for which the result is undefined, or has no error bound."""
    first, last = values[0], values[-1]
    if row.op in (arithmetic.DivIOp, arithmetic.RemIOp):
        bad = last == 0
        if last.dtype != np.bool_:
            bad |= (last == -1) | (last == np.iinfo(last.dtype).max)
        return [first, np.where(bad, np.ones_like(last), last)]
    if row.op in (arithmetic.ShLIOp, arithmetic.ShRIOp):
        width = row.operands[0].width.data  # type: ignore[attr-defined]
        return [first, last & (width - 1) if width > 1 else np.zeros_like(last)]
    if row.op is conversions.FpToIntOp and "saturating" not in row.properties:
        wide = first.astype(np.float64)
        width = row.result.width.data  # type: ignore[attr-defined]
        signed = row.properties["signedness"] == "signed"
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if signed else (0, 2**width)
        fits = (wide >= low) & (wide < high)
        return [np.where(fits, first, np.zeros_like(first))]
    if row.properties.get("rounding_mode") in ("approx", "full") and row.op is not math.TanhOp:
        limit = 80 if row.op is math.ExpOp else 2.0**60
        return [tame(value, limit) for value in values]
    return values


def tame(values: Any, limit: float) -> Any:
    """Numbers of moderate size only, others replaced by 1.5."""
    size = np.abs(values.astype(np.float64))
    good = (size <= limit) & (size >= 2.0**-60)
    return np.where(good, values, np.full_like(values, 1.5))


def reference(row: Row, values: list[Any]) -> Any:
    """What the interpreter says, on a cuda_tile op like the row's."""
    op_class = source_operation(row.op)
    types = [TileType(element, (COUNT,)) for element in row.operands]
    built = row.build(COUNT)
    op = op_class.create(
        operands=list(Block(arg_types=types).args),
        result_types=[TileType(row.result, (COUNT,))],
        properties=dict(built.properties),
    )
    with np.errstate(all="ignore"):
        return PURE_RULES[op_class](op, *values)


def ordered(bits: Any, width: int) -> Any:
    """Integers in the order of the floats that the patterns stand for; both zeros are 0."""
    numbers = bits.astype(object)
    top = 1 << (width - 1)
    return np.where(numbers >= top, top - numbers, numbers)


@pytest.mark.parametrize("row", CHECKED, ids=lambda row: row.name)
def test_matches_the_interpreter(row: Row) -> None:
    formats = [format_of(element) for element in row.operands]
    bits = [
        operand_bits(element, fmt, position)
        for position, (element, fmt) in enumerate(zip(row.operands, formats))
    ]
    values = [from_bits(pattern, fmt) for pattern, fmt in zip(bits, formats)]
    values = defined_only(row, values)
    target = format_of(row.result)
    expected = to_bits(np.asarray(reference(row, values)).astype(target.dtype), target)
    inputs = [np.ascontiguousarray(to_bits(v, fmt)) for v, fmt in zip(values, formats)]
    kernel = f"{row.name}__x{LANES}"
    found = gpu().run(kernel, inputs, np.zeros(COUNT, dtype=target.storage))
    wrong = mismatches(row, found, expected, target)
    where = [int(index) for index in np.flatnonzero(wrong)[:5]]
    shown = [([values[k][i] for k in range(len(values))], found[i], expected[i]) for i in where]
    assert not where, f"{int(wrong.sum())} of {COUNT} differ: {shown}"


def mismatches(row: Row, found: Any, expected: Any, target: Any) -> Any:
    """Which elements differ by more than the bound; NaNs are all alike."""
    if isinstance(row.result, IntegerType):
        if target.name == "i4":  # its register has garbage above its bits
            found = found & target.storage.type(15)
        return found != expected
    left, right = from_bits(found, target), from_bits(expected, target)
    nan = np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
    bound = ulp_bound(row)
    if bound == 0:
        return (found != expected) & ~nan
    width = 8 * target.storage.itemsize
    distance = np.abs(ordered(found, width) - ordered(expected, width))
    return (distance > bound) & ~nan


def test_rows_of_all_float_types_are_checked() -> None:
    assert {f16, bf16, f32, f64} <= {row.operands[0] for row in CHECKED}
