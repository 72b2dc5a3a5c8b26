"""Kernels with products, small enough for the PTX machine, and what they must compute in float64.

A row is a kernel with arguments. `run_row` compiles it for a target, runs the PTX in the machine,
which finds races and reads of unfinished work, and compares with numpy's float64: exactly where
operands are small whole numbers, within the rounding of f16 or bf16 for attention.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.kernels import scaled_products
from tests.kernels.gather import Case, experts, experts_case, gathered_right, right_case
from tests.kernels.product_text import ProductKernel, products_in_turn
from tests.kernels.random_products import (
    UNTOUCHED,
    ProductCase,
    aligned_result,
    dense_case,
    filled,
    make_case,
)
from tests.kernels.scaled_gemm import ScaledGemm
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.target import Feature, get_target
from tileiras.driver import compile_module
from tileiras.errors import CompileError
from tileiras.interpreter.ptx import Limits, PtxError, run_ptx
from tileiras.options import CompileOptions

TARGETS = ("sm_100", "sm_103", "sm_110", "sm_120", "sm_121")
"""The targets of the table: nobody here has one."""
BUDGET = 20_000_000
"""Instructions (of groups of threads) after which a kernel is given up."""
COLUMNS = 512
"""Of the tensor memory of an SM (PTX ISA, "Tensor Memory Addressing")."""
RESIDENT = 4
"""CTAs that the machine keeps at a time: those that wait for a lock need others beside them."""


@dataclass(frozen=True)
class Launch:
    """A kernel's source, arguments and grid; `difference` looks at the arguments afterwards."""

    source: bytes
    arguments: list[Any]
    grid: tuple[int, int, int]
    difference: Callable[[list[Any]], str]


@dataclass(frozen=True)
class Row:
    """One kernel; `quick` ones are in the ordinary tests. `needs`: features of the target."""

    family: str
    name: str
    make: Callable[[], Launch]
    quick: bool = False
    needs: tuple[Feature, ...] = ()


@dataclass(frozen=True)
class Result:
    """`kind`: "right", "wrong" (numbers, races, unfinished reads) or "refused" (the compiler)."""

    kind: str
    unit: str = ""
    detail: str = ""
    seconds: float = 0.0


UNITS = (
    ("tcgen05, block scales", r"tcgen05\.mma\S*block_scale"),
    ("tcgen05", r"tcgen05\.mma"),
    ("wgmma", r"wgmma\.mma_async"),
    ("mma.sync, block scales", r"mma\.sync\S*block_scale"),
    ("mma.sync", r"mma\.sync"),
)
COPIES = (("TMA", r"cp\.async\.bulk\.tensor"), ("cp.async", r"cp\.async\.c[ag]"))


def unit_of(ptx: str) -> str:
    """Which instruction multiplies, and how operands come to shared memory."""
    named = [name for name, pattern in UNITS if re.search(pattern, ptx)]
    copied = [name for name, pattern in COPIES if re.search(pattern, ptx)]
    scaled = named[:1] == ["tcgen05"] and "block_scale" in ptx
    with_scales = ["tcgen05, block scales"] if scaled else named[:1]
    return " and ".join([*with_scales, *copied[:1]]) or "fma"


def run_row(row: Row, target: str) -> Result:
    """Compiles and runs a row."""
    start, launch = time.perf_counter(), row.make()
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target)
    try:
        text = compile_module(launch.source, options).output.decode()
    except CompileError as error:
        return Result("refused", detail=str(error))
    try:
        limits = Limits(BUDGET, resident=RESIDENT, ctas_per_sm=_ctas_per_sm(text))
        run_ptx(text, launch.arguments, launch.grid, limits=limits, filename=row.name)
        wrong = launch.difference(launch.arguments)
    except PtxError as error:
        wrong = error.render()
    kind, seconds = "wrong" if wrong else "right", time.perf_counter() - start
    return Result(kind, unit_of(text), wrong, seconds)


def _ctas_per_sm(ptx: str) -> int:
    """2 where tensor memory has columns for two CTAs: then those of the second are others."""
    columns = re.search(r"tcgen05\.alloc\S+ \[\S+\], (\d+);", ptx)
    return 2 if columns is not None and 2 * int(columns[1]) <= COLUMNS else 1


def applies(row: Row, target: str) -> bool:
    """Whether a target has what a row is about."""
    return all(get_target(target).has(feature) for feature in row.needs)


def _product(case: ProductCase, source: bytes | None = None) -> Launch:
    """A matrix product; sums of small whole numbers are exact."""
    text = case.kernel.text().encode() if source is None else source
    return Launch(text, case.arguments(), case.grid, lambda found: case.difference(found[2]))


def _whole(kernel: ProductKernel, extents: tuple[int, int, int], *blocks: int) -> Row:
    """A dense product that knows how its result lies."""

    def make() -> Launch:
        case = dense_case(kernel, extents, *blocks)
        return _product(case, aligned_result(kernel).encode())

    return Row("GEMM", f"{kernel.name} {'x'.join(map(str, extents))}", make)


def _ragged(family: str, kernel: ProductKernel, quick: bool = False) -> Row:
    """The first random product of a kernel of which no extent is a whole number of tiles."""

    def make() -> Launch:
        seed = 0
        while _has_whole_tiles(case := make_case(kernel, seed, tiles=2)):
            seed += 1
        return _product(case)

    return Row(family, f"{kernel.name} ragged", make, quick)


def _has_whole_tiles(case: ProductCase) -> bool:
    sizes = zip(case.extents, case.kernel.tile, strict=True)
    return any(size % tile == 0 or size < tile // 2 for size, tile in sizes)


def _grouped(kernel: ProductKernel, quick: bool = False) -> Row:
    """C[z] = A[z] @ B[g[z]] for a list g of numbers of matrices, which lies in `locks`."""

    def make() -> Launch:
        text = kernel.text().replace("%pB[%z,", "%pB[%mine,")
        text = text.replace("%sum = for", f"{_NUMBER_OF_MATRIX}%sum = for")
        seed = 0
        while (case := make_case(kernel, seed, tiles=2)).grid[2] < 3:
            seed += 1
        arguments, numbers = case.arguments(), np.array([2, 0, 2], np.int32)
        arguments[3] = numbers
        a, b = case.operands()
        exact = np.matmul(a.astype(np.float64), b[numbers].astype(np.float64))
        wanted = filled(case.c, exact, kernel.result, UNTOUCHED)
        return Launch(text.encode(), arguments, case.grid, lambda found: _unequal(found[2], wanted))

    return Row("grouped", f"{kernel.name}, matrices by number", make, quick)


_NUMBER_OF_MATRIX = """%mine_at = offset %locks, %z : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %mine, %mine_t = load_ptr_tko weak %mine_at token=%t0
      : tile<ptr<i32>> -> tile<i32>, token
    """


def _in_turn(*kernels: ProductKernel) -> Row:
    """Several products of different tiles in one kernel: each must leave the same result."""

    def make() -> Launch:
        case = dense_case(kernels[0], (128, 128, 160), 2, 2)
        return _product(case, products_in_turn(*kernels))

    return Row("grouped", " then ".join(kernel.name for kernel in kernels), make)


def _gathered(name: str, source: bytes, make: Callable[[], Case], quick: bool = False) -> Row:
    def launch() -> Launch:
        case = make()
        return Launch(
            source,
            case.arguments,
            case.grid,
            lambda found: _unequal(found[case.output], case.wanted),
        )

    return Row("experts", name, launch, quick)


def _unequal(found: np.ndarray, wanted: np.ndarray) -> str:
    """Where numbers are not the same; empty if nowhere."""
    found = found.reshape(wanted.shape)
    bad = np.flatnonzero(found != wanted)
    if not bad.size:
        return ""
    at = int(bad[0])
    return (
        f"{bad.size} of {wanted.size} differ, first at {at}: "
        f"{found.ravel()[at]} instead of {wanted.ravel()[at]}"
    )


def _scaled(form: ScaledGemm, extents: tuple[int, int, int], quick: bool = False) -> Row:
    def make() -> Launch:
        arguments, wanted = form.arguments(extents)
        source = form.text().encode()
        grid = form.grid(extents)
        return Launch(source, arguments, grid, lambda found: _unequal(found[4], wanted))

    kinds = f"{form.element} scales {form.scale} of {form.block}"
    sizes = "x".join(map(str, form.tile)), "x".join(map(str, extents))
    order = "transposed" if form.b_transposed else "row"
    name = f"{kinds} tiles {sizes[0]} B {order} {sizes[1]}"
    return Row("block-scaled", name, make, quick, (Feature.FP4_CONVERT,))


def _far(found: np.ndarray, wanted: np.ndarray) -> str:
    """Where sums differ by more than their rounding to f32; "" if nowhere."""
    least = 1e-6 * float(np.abs(wanted).max())
    bad = np.flatnonzero(~np.isclose(found, wanted, rtol=1e-5, atol=least))
    return "" if bad.size == 0 else f"{bad.size} of {wanted.size} differ, first at {bad[0]}"


def _divided(form: scaled_products.ScaledGemm) -> Row:
    """A tile that the CTAs of a cluster divide."""

    def make() -> Launch:
        given, wanted = scaled_products.gemm_arguments(form)
        source = scaled_products.gemm(form).encode()
        return Launch(source, given, form.grid, lambda found: _far(found[4], wanted))

    tile = "x".join(map(str, form.tile))
    name = f"{form.element} scales {form.scale} of {form.block} tiles {tile} by {form.ctas} CTAs"
    return Row("block-scaled", name, make, False, (Feature.TCGEN05_SCALED,))


@dataclass(frozen=True)
class Attention:
    """Attention with softmax in base 2; `share` heads of queries read the same keys.

    Kernels that do not mask count the keys of a ragged last tile, which are zeros, as well.
    """

    kind: str
    rows: int
    columns: int
    depth: int
    share: int = 1
    element: str = "f16"
    length: int = 192

    @property
    def name(self) -> str:
        """Unique among the rows."""
        shape = f"{self.rows}x{self.columns} D{self.depth}"
        heads = f" GQA {self.share}" if self.share > 1 else ""
        return f"{self.kind} {self.element} {shape}{heads} keys {self.length}"

    def launch(self) -> Launch:
        """Two tiles of queries, two heads."""
        source = softmax_attention(self.kind, self.rows, self.columns, self.depth, self.share)
        text = re.sub(r"\bf16\b|(?<=x)f16\b", self.element, source.decode())
        type_ = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[self.element]
        rng = np.random.default_rng(self.length)
        total, heads = 2 * self.rows, 2
        queries = rng.standard_normal((heads, total, self.depth)).astype(type_)
        shape = (2, heads // self.share, self.length, self.depth)
        keys, values = rng.standard_normal(shape).astype(type_)
        result = np.zeros_like(queries)
        wanted = self._expected(queries, keys, values)
        numbers = [np.int32(n) for n in (heads, heads // self.share, total, self.length)]
        arrays = [queries, keys, values, result]
        bits = [np.ascontiguousarray(array).view(np.uint16) for array in arrays]

        def difference(found: list[Any]) -> str:
            got = found[3].view(type_).astype(np.float64)
            tolerance = 2.0 ** (-8 if self.element == "f16" else -5)
            if np.allclose(got, wanted, rtol=tolerance, atol=tolerance / 2):
                return ""
            return f"the largest error is {np.nanmax(np.abs(got - wanted)):.3g}"

        grid = (total // self.rows, heads, 1)
        return Launch(text.encode(), [*bits, *numbers, SCALE], grid, difference)

    def _expected(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        wide = [array.astype(np.float64) for array in (q, k, v)]
        extra = -self.length % self.columns if self.kind == "full" else 0
        padded = [np.pad(array, ((0, 0), (0, extra), (0, 0))) for array in wide[1:]]
        k, v = (np.repeat(array, self.share, 0) for array in padded)
        scores = wide[0] @ k.transpose(0, 2, 1) * SCALE
        if self.kind != "full":
            after = np.arange(scores.shape[2])[None, :] > np.arange(scores.shape[1])[:, None]
            scores = np.where(after, -np.inf, scores)
        weights = np.exp2(scores - scores.max(2, keepdims=True))
        return weights / weights.sum(2, keepdims=True) @ v


SCALE = 0.125


def _attention(kernel: Attention, quick: bool = False) -> Row:
    return Row("attention", kernel.name, kernel.launch, quick)


def _gemms() -> list[Row]:
    """Every element type in whole tiles of 128x128 and ragged in smaller ones."""
    rows = []
    for element in ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8"):
        depth = {"f16": 64, "bf16": 64, "f32": 32}.get(element, 128)
        large = ProductKernel(element, (128, 128, depth), b="transposed", whole=True)
        rows.append(_whole(large, (256, 128, 3 * depth), 2, 1))
        rows.append(_ragged("GEMM", ProductKernel(element, (64, 64, depth), b="transposed"), True))
        rows.append(_ragged("GEMM", ProductKernel(element, (64, 32, 32), is_aligned=False)))
    for element, depth in (("f16", 64), ("f32", 32), ("f8E4M3FN", 128), ("i8", 128)):
        pair = ProductKernel(element, (256, 256, depth), whole=True)
        rows.append(_whole(pair, (256, 512, 2 * depth), 1, 2))
    tall = ProductKernel("bf16", (512, 128, 64), whole=True, result="bf16")
    rows.append(_whole(tall, (512, 128, 192), 1))
    wide = ProductKernel("f16", (128, 256, 64), form="persistent", result="f16", whole=True)
    transposed = ProductKernel("bf16", (128, 64, 64), a="column", whole=True)
    words = ProductKernel("f32", (128, 128, 32), a="column", whole=True)
    rows += [_whole(wide, (256, 512, 192), 3), _whole(words, (128, 256, 96), 1, 2)]
    return [*rows, _whole(transposed, (128, 128, 256), 1, 2)]


ROWS: tuple[Row, ...] = (
    *_gemms(),
    _ragged("split-K", ProductKernel("f16", (64, 64, 64), form="split", whole=True), True),
    _ragged("split-K", ProductKernel("i8", (64, 64, 128), form="split", b="transposed")),
    _ragged("batched", ProductKernel("bf16", (64, 128, 64), form="batched"), True),
    _grouped(ProductKernel("f16", (64, 64, 64), form="batched", whole=True), True),
    _grouped(ProductKernel("f8E4M3FN", (64, 64, 128), form="batched", b="transposed")),
    _in_turn(
        ProductKernel("f16", (64, 64, 32), whole=True),
        ProductKernel("f16", (64, 64, 64), whole=True),
    ),
    _gathered("computed 128x128x64", experts(), lambda: experts_case(128, 128, 96, 144)),
    _gathered(
        "carried 64x64x32",
        experts(64, 64, 32, "carried"),
        lambda: experts_case(64, 64, 80, 80),
        True,
    ),
    _gathered("right operand", gathered_right(False), lambda: right_case(False)),
    _gathered("right operand transposed", gathered_right(True), lambda: right_case(True)),
    _attention(Attention("full", 64, 64, 64, length=96), quick=True),
    _attention(Attention("causal", 64, 64, 64, share=2, length=128), quick=True),
    _attention(Attention("full", 16, 64, 128, length=192), quick=True),
    _attention(Attention("causal", 32, 64, 64, length=128)),
    _attention(Attention("full", 16, 128, 64, length=256)),
    _attention(Attention("full", 128, 128, 64)),
    _attention(Attention("full", 128, 64, 128)),
    _attention(Attention("causal", 128, 64, 128, length=256)),
    _attention(Attention("causal", 128, 128, 64, share=2, length=256)),
    _attention(Attention("masked", 64, 64, 64, element="bf16", length=128)),
    _attention(Attention("full", 128, 128, 128, share=2, element="bf16")),
    _attention(Attention("full", 256, 64, 128)),
    _attention(Attention("causal", 256, 64, 64, share=2, length=512)),
    _attention(Attention("causal", 256, 64, 128, length=512)),
    _attention(Attention("causal", 256, 128, 128, share=2, length=512)),
    _attention(Attention("masked", 256, 128, 64, element="bf16", length=512)),
    *(
        _divided(
            scaled_products.ScaledGemm(
                element, scale, block, tile, (tile[0], tile[1], 2 * tile[2]), ctas=n
            )
        )
        for element, scale, block, tile, n in (
            ("f8E4M3FN", "f8E8M0FNU", 32, (256, 256, 128), 4),
            ("f4E2M1FN", "f8E8M0FNU", 32, (512, 512, 256), 8),
            ("f4E2M1FN", "f8E8M0FNU", 32, (512, 512, 512), 8),
            ("f4E2M1FN", "f8E4M3FN", 16, (512, 512, 256), 8),
            ("f4E2M1FN", "f8E4M3FN", 16, (1024, 256, 256), 8),
        )
    ),
    *(
        _scaled(ScaledGemm(element, scale, block, tile, transposed), extents, quick)
        for element, scale, block in (
            ("f8E4M3FN", "f8E8M0FNU", 32),
            ("f8E5M2", "f8E8M0FNU", 32),
            ("f4E2M1FN", "f8E8M0FNU", 32),
            ("f4E2M1FN", "f8E8M0FNU", 16),
            ("f4E2M1FN", "f8E4M3FN", 16),
        )
        for tile, transposed, extents, quick in (
            ((64, 64, 128), True, (64, 64, 256), True),
            ((128, 128, 128), True, (128, 256, 384), False),
            ((64, 64, 64), False, (50, 96, 160), False),
            ((256, 256, 128), True, (272, 288, 160), False),
        )
    ),
)
"""The table."""
