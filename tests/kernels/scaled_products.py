"""Kernels with block-scaled products, their arguments and what they should compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class ScaledKernel:
    """A product of one tile: element types, elements a scale, (M, N, K); `batches` 0: rank 2."""

    element: str
    scale: str
    block: int
    shape: tuple[int, int, int]
    batches: int = 0

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"{self.element}-{self.scale}-{self.block}-{sizes}-{self.batches}"

    def tiles(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of each tile, in the order of the arguments."""
        m, n, k = self.shape
        lead = (self.batches,) if self.batches else ()
        return {
            "a": ((*lead, m, k), self.element),
            "b": ((*lead, k, n), self.element),
            "sa": ((*lead, m, k // self.block), self.scale),
            "sb": ((*lead, k // self.block, n), self.scale),
            "c": ((*lead, m, n), "f32"),
        }


def product(kernel: ScaledKernel) -> str:
    """A kernel with one product; arguments a, b, scales of a, scales of b, and the sum."""
    lines, tiles, views = [], {}, {}
    for name, (shape, type_) in kernel.tiles().items():
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        sizes = "x".join(map(str, shape))
        tensor = f"tensor_view<{sizes}x{type_}, strides={strides}>".replace(" ", "")
        views[name] = f"partition_view<tile=({sizes}), {tensor}>"
        tiles[name] = f"tile<{sizes}x{type_}>"
        zeros = ", ".join(["%z"] * len(shape))
        lines += [
            f"%{name}_t = make_tensor_view %{name}, shape = {list(shape)}, "
            f"strides = {strides} : {tensor}",
            f"%{name}_v = make_partition_view %{name}_t : {views[name]}",
            f"%{name}_x, %{name}_k = load_view_tko weak %{name}_v[{zeros}] : {views[name]}, "
            f"tile<i32> -> {tiles[name]}, token",
        ]
    kinds = ", ".join(tiles[name] for name in ("a", "b", "c", "sa", "sb"))
    lines += [
        f"%r = mmaf_scaled %a_x, %b_x, %c_x, %sa_x, %sb_x : {kinds}",
        f"%w = store_view_tko weak %r, %c_v[{zeros}] token = %c_k : {tiles['c']}, {views['c']}, "
        "tile<i32> -> token",
    ]
    kept = ", ".join(f"%{name}: tile<ptr<{type_}>>" for name, (_, type_) in kernel.tiles().items())
    body = "\n ".join(["%z = constant <i32: 0> : tile<i32>", *lines])
    return f"cuda_tile.module @m {{ entry @k({kept}) {{ {body}\n return }} }}"


def arguments(kernel: ScaledKernel, seed: int = 7) -> list[np.ndarray]:
    """Arrays of bytes for operands and scales, of floats for the sum."""
    generator = np.random.default_rng(seed)
    return [_array(generator, shape, type_) for shape, type_ in kernel.tiles().values()]


def _array(generator: np.random.Generator, shape: tuple[int, ...], type_: str) -> np.ndarray:
    match type_:
        case "f32":
            return generator.integers(-4, 4, shape).astype(np.float32)
        case "f8E8M0FNU":
            return generator.integers(124, 131, shape).astype(np.uint8)
        case "f4E2M1FN":
            return generator.integers(0, 256, int(np.prod(shape)) // 2).astype(np.uint8)
        case _:
            signs = generator.integers(0, 2, shape).astype(np.uint8) << 7
            return generator.integers(0x30, 0x40, shape).astype(np.uint8) | signs


BLOCKS = 2
"""Tile blocks of persistent kernels."""


@dataclass(frozen=True)
class ScaledGemm:
    """C = A @ B, a tile of C a tile block, steps of K in a loop; `tile` is (M, N, K) of a step.

    `sizes` are those of the matrices. K is contiguous in A and, unless `rows`, in B.
    """

    element: str
    scale: str
    block: int
    tile: tuple[int, int, int]
    sizes: tuple[int, int, int]
    rows: bool = False
    bytes: bool = False
    """Whether f4 comes as bytes that the kernel unpacks, and not through views of f4."""
    batches: int = 0
    """Matrices of each array, a batch a tile block along z; 0: arrays of rank 2."""
    is_persistent: bool = False
    """Whether tile blocks are as few as `BLOCKS`, and each makes several tiles of C."""
    ctas: int = 0
    """CTAs of a cluster that the kernel asks for on targets with tcgen05; 0: it does not say."""
    adds: bool = False
    """Whether the product is added to what C has (without batches)."""

    def __str__(self) -> str:
        shape = "x".join(map(str, self.tile))
        how = f"{'-rows' if self.rows else ''}{'-bytes' if self.bytes else ''}"
        how += f"{'-batched' if self.batches else ''}{'-persistent' if self.is_persistent else ''}"
        how += f"-{self.ctas}ctas" if self.ctas else ""
        how += "-adds" if self.adds else ""
        return f"{self.element}-{self.scale}-{self.block}-{shape}{how}"

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tile blocks along M, N and batches."""
        if self.is_persistent:
            return BLOCKS, 1, 1
        return *self.tiles, max(1, self.batches)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of C along M and N."""
        (m, n, _), (tm, tn, _) = self.sizes, self.tile
        return -(-m // tm), -(-n // tn)


def _view(
    name: str, type_: str, shape: tuple[int, ...], tile: tuple[int, ...], order: tuple[int, ...]
) -> tuple[list[str], str]:
    """Lines that make a view with unit stride along the last of `order`, and its type."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    sizes = "x".join(map(str, shape))
    tensor = f"tensor_view<{sizes}x{type_}, strides={strides}>".replace("= [", "=[")
    tiles = "x".join(map(str, tile))
    type = f"partition_view<tile=({tiles}), padding_value = zero, {tensor}>"
    return [
        f"%{name}_p = assume div_by<16>, %{name} : tile<ptr<{type_}>>",
        f"%{name}_t = make_tensor_view %{name}_p, shape = {list(shape)}, "
        f"strides = {strides} : {tensor}",
        f"%{name}_v = make_partition_view %{name}_t : {type}",
    ], type


def gemm(kernel: ScaledGemm) -> str:
    """The kernel; arguments a, b, scales of a, scales of b, c (f32)."""
    (m, n, k), (tm, tn, tk), size = kernel.sizes, kernel.tile, kernel.block
    along = (0, 1) if kernel.rows else (1, 0)
    halves = 2 if kernel.bytes else 1
    element = "i8" if kernel.bytes else kernel.element
    arrays: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
        "a": (element, (m, k // halves), (tm, tk // halves), (0, 1)),
        "b": (element, (k // halves, n), (tk // halves, tn), along),
        "sa": (kernel.scale, (m, k // size), (tm, tk // size), (0, 1)),
        "sb": (kernel.scale, (k // size, n), (tk // size, tn), along),
        "c": ("f32", (m, n), (tm, tn), (0, 1)),
    }
    lines = [
        "%z = constant <i32: 0> : tile<i32>",
        "%one = constant <i32: 1> : tile<i32>",
        f"%steps = constant <i32: {-(-k // tk)}> : tile<i32>",
        f"%zero = constant <f32: 0.0> : tile<{tm}x{tn}xf32>",
        ("%bx, %by, %w" if kernel.is_persistent else "%x, %y, %w")
        + " = get_tile_block_id : tile<i32>",
    ]
    views: dict[str, str] = {}
    tiles: dict[str, str] = {}
    lead, zero = ((1,), (kernel.batches,)) if kernel.batches else ((), ())
    for name, (type_, shape, tile, order) in arrays.items():
        shifted = (0, *(axis + 1 for axis in order)) if kernel.batches else order
        made, views[name] = _view(name, type_, (*zero, *shape), (*lead, *tile), shifted)
        tiles[name] = f"tile<{'x'.join(map(str, tile))}x{type_}>"
        lines += made
    where = {"a": "%x, %i", "b": "%i, %y", "sa": "%x, %i", "sb": "%i, %y"}
    batch = "%w, " if kernel.batches else ""
    body: list[str] = []
    for name, index in where.items():
        loaded = tiles[name].replace("tile<", "tile<1x") if kernel.batches else tiles[name]
        result = f"%{name}_b" if kernel.batches else f"%{name}_x"
        body.append(
            f"{result}, %{name}_k = load_view_tko weak %{name}_v[{batch}{index}] : "
            f"{views[name]}, tile<i32> -> {loaded}, token"
        )
        if kernel.batches:
            body.append(f"%{name}_x = reshape {result} : {loaded} -> {tiles[name]}")
    operands, kinds = ["%a_x", "%b_x"], [tiles["a"], tiles["b"]]
    if kernel.bytes:
        body += _unpacked("a", (tm, tk), False) + _unpacked("b", (tk, tn), True)
        operands = ["%a_u", "%b_u"]
        kinds = [f"tile<{tm}x{tk}x{kernel.element}>", f"tile<{tk}x{tn}x{kernel.element}>"]
    types = ", ".join([*kinds, tiles["c"], tiles["sa"], tiles["sb"]])
    body += [
        f"%next = mmaf_scaled {', '.join(operands)}, %sum, %sa_x, %sb_x : {types}",
        f"continue %next : {tiles['c']}",
    ]
    inner = "\n  ".join(body)
    whole = [
        f"%r = for %i in (%z to %steps, step %one) : tile<i32> iter_values(%sum = %zero) "
        f"-> ({tiles['c']}) {{\n  {inner}\n }}",
    ]
    result, stored = "%r", tiles["c"]
    if kernel.adds:
        whole += [
            f"%old, %old_read = load_view_tko weak %c_v[%x, %y] : {views['c']}, "
            f"tile<i32> -> {stored}, token",
            f"%s = addf %r, %old : {stored}",
        ]
        result = "%s"
    if kernel.batches:
        result, stored = "%s", tiles["c"].replace("tile<", "tile<1x")
        whole.append(f"%s = reshape %r : {tiles['c']} -> {stored}")
    order = " token = %old_read" if kernel.adds else ""
    whole.append(
        f"%t = store_view_tko weak {result}, %c_v[{batch}%x, %y]{order} : {stored}, "
        f"{views['c']}, tile<i32> -> token"
    )
    lines += _persistent(kernel, whole) if kernel.is_persistent else whole
    lines.append("return")
    given = ", ".join(f"%{name}: tile<ptr<{of[0]}>>" for name, of in arrays.items())
    text = "\n ".join(lines)
    hints = f"{asking(kernel.ctas)} " if kernel.ctas else ""
    return f"cuda_tile.module @m {{ entry @k({given}) {hints}{{ {text}\n }} }}"


def asking(ctas: int) -> str:
    """Hints for so many CTAs of a cluster on targets with tcgen05."""
    targets = ("sm_100", "sm_103", "sm_110")
    asked = ", ".join(f"{target} = {{num_cta_in_cga = {ctas}}}" for target in targets)
    return f"optimization_hints=<{asked}>"


def _persistent(kernel: ScaledGemm, whole: list[str]) -> list[str]:
    """Lines that make several tiles in each tile block, where `whole` makes that of %x, %y."""
    rows, columns = kernel.tiles
    text = "\n  ".join(whole)
    return [
        f"%rows = constant <i32: {rows}> : tile<i32>",
        f"%tiles = constant <i32: {rows * columns}> : tile<i32>",
        f"%blocks = constant <i32: {BLOCKS}> : tile<i32>",
        "for %n in (%bx to %tiles, step %blocks) : tile<i32> {\n"
        "  %x = remi %n, %rows unsigned : tile<i32>\n"
        f"  %y = divi %n, %rows unsigned : tile<i32>\n  {text}\n }}",
    ]


def _unpacked(name: str, shape: tuple[int, int], transposed: bool) -> list[str]:
    """Lines that make f4 of a tile of bytes of two along K, which is the first dim if
    `transposed`.
    """
    rows, columns = shape if not transposed else shape[::-1]
    flat, half = rows * columns, columns // 2
    own = f"{rows}x{half}" if not transposed else f"{half}x{rows}"
    lines, source = [], f"%{name}_x"
    if transposed:
        lines.append(
            f"%{name}_s = permute {source} [1, 0] : tile<{own}xi8> -> tile<{rows}x{half}xi8>"
        )
        source = f"%{name}_s"
    f4 = "f4E2M1FN"
    result = f"%{name}_w" if transposed else f"%{name}_u"
    lines += [
        f"%{name}_f = reshape {source} : tile<{rows}x{half}xi8> -> tile<{flat // 2}xi8>",
        f"%{name}_n = unpack %{name}_f : tile<{flat // 2}xi8> -> tile<{flat}x{f4}>",
        f"{result} = reshape %{name}_n : tile<{flat}x{f4}> -> tile<{rows}x{columns}x{f4}>",
    ]
    if transposed:
        lines.append(
            f"%{name}_u = permute %{name}_w [1, 0] : tile<{rows}x{columns}x{f4}> -> "
            f"tile<{columns}x{rows}x{f4}>"
        )
    return lines


SMALL = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def gemm_arguments(
    kernel: ScaledGemm,
    seed: int = 3,
    change: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Arrays for the kernel, and C in float64; `change` may alter the bytes of both scales."""
    if kernel.batches:
        alone = replace(kernel, batches=0)
        parts = [gemm_arguments(alone, seed + number) for number in range(kernel.batches)]
        arrays = [np.concatenate(each) for each in zip(*(given for given, _ in parts), strict=True)]
        m, n, _ = kernel.sizes
        arrays[-1] = arrays[-1].reshape(kernel.batches, m, n)
        return arrays, np.stack([wanted for _, wanted in parts])
    generator = np.random.default_rng(seed)
    (m, n, k), size = kernel.sizes, kernel.block
    a, b = (_codes(generator, shape, kernel.element) for shape in ((m, k), (n, k)))
    sa, sb = (_array(generator, (count, k // size), kernel.scale) for count in (m, n))
    if change is not None:
        change(sa.view(np.uint8), sb.view(np.uint8))
    values = [_numbers(codes, kernel.element) for codes in (a, b)]
    scales = [np.repeat(_numbers(codes, kernel.scale), size, axis=1) for codes in (sa, sb)]
    result = (values[0] * scales[0]) @ (values[1] * scales[1]).T
    if kernel.rows:
        b, sb = np.ascontiguousarray(b.T), np.ascontiguousarray(sb.T)
    if kernel.element == "f4E2M1FN":
        a, b = (codes[:, 0::2] | codes[:, 1::2] << 4 for codes in (a, b))
    flat = [np.ascontiguousarray(array).reshape(-1) for array in (a, b, sa, sb)]
    before = np.zeros((m, n), np.float32)
    if kernel.adds:
        before += generator.integers(-64, 65, (m, n))
    return [*flat, before], result + before


def _codes(generator: np.random.Generator, shape: tuple[int, int], type_: str) -> np.ndarray:
    if type_ == "f4E2M1FN":
        return generator.integers(0, 16, shape).astype(np.uint8)
    return _array(generator, shape, type_)


def _numbers(codes: np.ndarray, type_: str) -> np.ndarray:
    """The numbers that bytes stand for."""
    kinds: dict[str, Any] = {
        **SMALL,
        "f4E2M1FN": ml_dtypes.float4_e2m1fn,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    }
    return codes.view(kinds[type_]).astype(np.float64)
