"""Slices, concatenations and reinterpretations: simulation agrees with the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    IntegerAttr,
    IntegerType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

from tests.kernels.kernel_builder import Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.interpreter.formats import format_of

i4 = IntegerType(4)
Fill = Callable[[Kernel, Sequence[Any]], Any]


def check(
    inputs: Sequence[tuple[Any, Sequence[int]]],
    scalars: Sequence[int],
    fill: Fill,
    arch: str = "sm_90",
) -> str:
    """Random tiles of (element type, shape) go through `fill`; its one result is compared.

    `fill` gets the loaded tiles, then the i32 scalars.
    """
    kernel, result = build(inputs, len(scalars), fill)
    generator = np.random.default_rng(1)
    data = []
    for type_, shape in inputs:
        fmt = format_of(type_)
        high = 2 if type_ == i1 else min(1 << fmt.bits, 128)
        raw = generator.integers(0, high, shape).astype(np.uint8)
        data.append(raw.astype(fmt.storage))
    fmt = format_of(result.element_type)
    wanted = np.zeros(result.shape, fmt.storage)
    kernel.run(*[item.copy() for item in data], *scalars, wanted)
    has_f4 = "f4E2M1FN" in str(kernel.module)
    module = lower_to_llvm(kernel.module, "sm_100" if has_f4 else arch)
    found = np.full(result.shape, 0x55, fmt.storage)
    run_lowered(module, [*data, *scalars, found])
    np.testing.assert_array_equal(found, wanted)
    return str(module)


def build(
    inputs: Sequence[tuple[Any, Sequence[int]]], scalars: int, fill: Fill
) -> tuple[Kernel, TileType]:
    """The kernel and the type of its result; the result's element type is that of input 0."""
    types = [PointerType(type_) for type_, _ in inputs]
    kernel = Kernel(*types, *[i32] * scalars, types[0])
    tiles = [
        kernel.load(arg, shape)
        for arg, (_, shape) in zip(kernel.args[: len(inputs)], inputs, strict=True)
    ]
    result = fill(kernel, [*tiles, *kernel.args[len(inputs) : -1]])
    kernel.store(kernel.args[-1], result)
    return kernel, result.type


SLICES = [
    ((16, 64), (4, 64)),
    ((16, 64), (16, 1)),
    ((64, 64), (32, 16)),
    ((1024,), (32,)),
    ((4, 8, 16), (1, 8, 4)),
    ((64,), (64,)),
]


def start_indices(whole: Sequence[int], part: Sequence[int], last: bool) -> list[int]:
    """The first or the last slice but one."""
    return [(w // p - 1 if last else (w // p - 1) // 2) for w, p in zip(whole, part, strict=True)]


@pytest.mark.parametrize(("whole", "part"), SLICES)
@pytest.mark.parametrize("type_", [i1, i8, f16, f32, i64])
def test_slice_at_constant_indices(whole, part, type_):
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        indices = [kernel.constant(i32, i) for i in start_indices(whole, part, last=True)]
        return kernel.add(ct.ExtractOp, [values[0], indices], TileType(type_, part))

    check([(type_, whole)], [], fill)


@pytest.mark.parametrize(("whole", "part"), SLICES)
@pytest.mark.parametrize("type_", [i1, f16, f64])
def test_slice_at_dynamic_indices(whole, part, type_):
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        return kernel.add(ct.ExtractOp, [values[0], values[1:]], TileType(type_, part))

    check([(type_, whole)], start_indices(whole, part, last=False), fill)


def test_slice_of_registers_needs_no_shared_memory():
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        indices = [kernel.constant(i32, i) for i in (1, 0)]
        return kernel.add(ct.ExtractOp, [values[0], indices], TileType(f32, (32, 64)))

    text = check([(f32, (64, 64))], [], fill)
    assert "nvvm.barrier" not in text


@pytest.mark.parametrize(("whole", "part"), SLICES)
@pytest.mark.parametrize("type_", [i1, bf16, i32])
def test_inserted_slice(whole, part, type_):
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        whole_tile, part_tile, *indices = values
        return kernel.add(ct.InsertOp, [part_tile, whole_tile, indices], TileType(type_, whole))

    check([(type_, whole), (type_, part)], start_indices(whole, part, last=False), fill)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((64,), 0), ((16, 32), 0), ((16, 32), 1), ((1, 1), 1), ((512, 4), 1), ((512, 1), 1)],
)
@pytest.mark.parametrize("type_", [i1, f16, i32])
def test_tiles_behind_each_other(shape, dim, type_):
    result = [size * 2 if d == dim else size for d, size in enumerate(shape)]

    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        return kernel.add(ct.CatOp, values, TileType(type_, result), dim=IntegerAttr(dim, i64))

    check([(type_, shape), (type_, shape)], [], fill)


WIDTHS = [
    *((i1, 1), (i4, 4), (Float4E2M1FNType(), 4), (i8, 8), (Float8E4M3FNType(), 8)),
    *((f16, 16), (bf16, 16), (i16, 16), (i32, 32), (f32, 32), (i64, 64), (f64, 64)),
]


@pytest.mark.parametrize(("type_", "bits"), WIDTHS)
@pytest.mark.parametrize("size", [64, 2048])
def test_bytes_survive_a_change_of_type(type_, bits, size):
    """Bytes read as elements and taken apart again, with a rotation in between to see order."""

    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        count = size * 8 // bits
        elements = kernel.add(ct.UnpackOp, [values[0]], TileType(type_, (count,)))
        half = TileType(type_, (count // 2,))
        first, second = (
            kernel.add(ct.ExtractOp, [elements, [kernel.constant(i32, i)]], half) for i in (0, 1)
        )
        transposed = kernel.add(
            ct.CatOp, [second, first], TileType(type_, (count,)), dim=IntegerAttr(0, i64)
        )
        return kernel.add(ct.PackOp, [transposed], TileType(i8, (size,)))

    check([(i8, (size,))], [], fill)


LARGE_SLICES = [
    ((65536,), (8,)),
    ((65536,), (32768,)),
    ((256, 256), (128, 128)),
    ((8, 8192), (8, 64)),
]


@pytest.mark.parametrize(("whole", "part"), LARGE_SLICES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_slice_of_a_tile_larger_than_shared_memory(whole, part, arch):
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        return kernel.add(ct.ExtractOp, [values[0], values[1:]], TileType(f32, part))

    check([(f32, whole)], start_indices(whole, part, last=True), fill, arch)


def test_slice_of_which_each_thread_holds_a_part_needs_no_shared_memory():
    """An index that is not known yet chooses among registers as well."""

    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        return kernel.add(ct.ExtractOp, [values[0], values[1:]], TileType(f32, (32, 64)))

    text = check([(f32, (64, 64))], [1, 0], fill)
    assert "nvvm.barrier" not in text


@pytest.mark.parametrize(
    ("whole", "part"), [((256, 128), (128, 128)), ((128, 256), (128, 128)), ((32768,), (16384,))]
)
def test_inserted_slice_larger_than_shared_memory(whole, part):
    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        whole_tile, part_tile, *indices = values
        return kernel.add(ct.InsertOp, [part_tile, whole_tile, indices], TileType(f32, whole))

    check([(f32, whole), (f32, part)], start_indices(whole, part, last=True), fill, "sm_80")


@pytest.mark.parametrize(("shape", "dim"), [((128, 128), 0), ((128, 128), 1), ((16384,), 0)])
def test_concatenated_tiles_larger_than_shared_memory(shape, dim):
    result = [size * 2 if d == dim else size for d, size in enumerate(shape)]

    def fill(kernel: Kernel, values: Sequence[Any]) -> Any:
        return kernel.add(ct.CatOp, values, TileType(f32, result), dim=IntegerAttr(dim, i64))

    check([(f32, shape), (f32, shape)], [], fill, "sm_80")
