"""Reductions, scans, slices: the result does not depend on where the tiles lie.

Random layouts are put around the operation between placement and lowering.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i32, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue

from tests.kernels.combining import combining_kernel, integer_sum, matrix_product, numbers
from tests.kernels.kernel_builder import Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.random_layouts import random_layout
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.dialects.layout import LinearLayout

MOVED = (aa.ReduceOp, aa.ScanOp, aa.ExtractOp, aa.InsertOp, aa.CatOp)
ChooseLayout = Callable[[Sequence[int], LinearLayout], LinearLayout]


def relayout(module: ModuleOp, choose: ChooseLayout) -> None:
    """Moves the operands and results of the operations under test to other layouts."""
    for op in [op for op in module.walk() if isinstance(op, MOVED)]:
        block = op.parent_block()
        assert block is not None
        moved: list[SSAValue] = []
        chosen: dict[tuple[int, ...], LinearLayout] = {}
        for operand in op.operands:
            old = tas.layout_of(operand.type)
            if old is None:
                moved.append(operand)
                continue
            if old.shape not in chosen or not isinstance(op, aa.ReduceOp | aa.ScanOp):
                chosen[old.shape] = choose(old.shape, old)
            convert = tas.ConvertLayoutOp.create(
                operands=[operand], result_types=[_typed(operand.type, chosen[old.shape])]
            )
            block.insert_op_before(convert, op)
            moved.append(convert.results[0])
        regions = [Region() for _ in op.regions]
        for source, target in zip(op.regions, regions, strict=True):
            source.move_blocks(target)
        types = [_result_type(op, moved[0], result.type, choose) for result in op.results]
        made = type(op).create(
            operands=moved, result_types=types, properties=op.properties, regions=regions
        )
        block.insert_op_before(made, op)
        for old_result, new_result in zip(op.results, made.results, strict=True):
            value: SSAValue = new_result
            if isinstance(old_result.type, TensorType):
                back = tas.ConvertLayoutOp.create(
                    operands=[new_result], result_types=[old_result.type]
                )
                block.insert_op_before(back, op)
                value = back.results[0]
            old_result.replace_all_uses_with(value)
        op.detach()
        op.erase()


def _typed(type_: Attribute, layout: LinearLayout) -> Attribute:
    assert isinstance(type_, TensorType)
    return tas.encoded(type_.element_type, layout)


def _result_type(
    op: Operation, operand: SSAValue, type_: Attribute, choose: ChooseLayout
) -> Attribute:
    """Scans keep the layout, reductions slice it, others may give any."""
    if not isinstance(type_, TensorType):
        return type_
    source = tas.layout_of(operand.type)
    assert source is not None
    if isinstance(op, aa.ScanOp):
        return _typed(type_, source)
    if isinstance(op, aa.ReduceOp):
        sliced = source.slice(op.dim.value.data).without_register_duplicates()
        return _typed(type_, sliced)
    old = tas.layout_of(type_)
    assert old is not None
    return _typed(type_, choose(old.shape, old))


def run_relaid(kernel: Kernel, arrays: Sequence[np.ndarray], seed: int, mixed: bool) -> None:
    """Compares the interpreter with the simulation of relaid tiles."""
    wanted = [array.copy() for array in arrays]
    kernel.run(*wanted)
    generator = random.Random(seed)

    def choose(shape: Sequence[int], like: LinearLayout) -> LinearLayout:
        return random_layout(shape, like, generator, mixed)

    module = lower_to_llvm(kernel.module, after_placement=lambda m: relayout(m, choose))
    found = [array.copy() for array in arrays]
    run_lowered(module, found)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


CASES = [(shape, seed) for seed in range(4) for shape in ((64,), (1024,), (16, 64), (4, 8, 32))]


@pytest.mark.parametrize(("shape", "seed"), CASES)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("reverse", [None, False, True])
def test_reductions_and_scans(shape, seed, mixed, reverse):
    dim = seed % len(shape)
    kernel = combining_kernel(shape, dim, [i32, i32], matrix_product, reverse)
    kept = [s for d, s in enumerate(shape) if reverse is not None or d != dim]
    results = [np.full(kept, -1, np.int32) for _ in range(2)]
    run_relaid(kernel, [numbers(shape, 1), numbers(shape, 2), *results], seed, mixed)


@pytest.mark.parametrize(("shape", "seed"), CASES)
@pytest.mark.parametrize("mixed", [False, True])
def test_commutative_reductions(shape, seed, mixed):
    dim = seed % len(shape)
    kernel = combining_kernel(shape, dim, [i32], integer_sum, None)
    kept = [s for d, s in enumerate(shape) if d != dim]
    run_relaid(kernel, [numbers(shape, 1), np.full(kept, -1, np.int32)], seed, mixed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mixed", [False, True])
def test_slices_and_joints(seed, mixed):
    """An extracted slice is inserted elsewhere, then tiles are joined."""
    whole, part, dim = (16, 64), (4, 16), seed % 2
    joined = (32, 64) if dim == 0 else (16, 128)
    kernel = Kernel(PointerType(i32), PointerType(i32), PointerType(i32))
    source, result, places = kernel.args
    tile = kernel.load(source, whole)
    known = [kernel.constant(i32, index) for index in (3, 1)]
    first = kernel.load(places, ())
    slice_ = kernel.add(ct.ExtractOp, [tile, known], TileType(i32, part))
    indices = [first, kernel.constant(i32, 2)]
    other = kernel.add(ct.ExtractOp, [tile, indices], TileType(i32, part))
    changed = kernel.add(ct.InsertOp, [slice_, tile, indices], TileType(i32, whole))
    changed = kernel.add(ct.InsertOp, [other, changed, known], TileType(i32, whole))
    both = kernel.add(ct.CatOp, [tile, changed], TileType(i32, joined), dim=IntegerAttr(dim, i64))
    kernel.store(result, both)
    place = np.array(seed % 3, np.int32)
    run_relaid(kernel, [numbers(whole), np.zeros(joined, np.int32), place], seed, mixed)


@pytest.mark.parametrize("seed", range(24))
def test_slice_that_one_bit_tells_apart(seed):
    """Often a register bit, in a mixed layout one that moves within the slice as well."""
    whole, part = (16, 64), (8, 64)
    kernel = Kernel(PointerType(i32), PointerType(i32))
    tile = kernel.load(kernel.args[0], whole)
    known = [kernel.constant(i32, index) for index in (seed & 1, 0)]
    slice_ = kernel.add(ct.ExtractOp, [tile, known], TileType(i32, part))
    kernel.store(kernel.args[1], slice_)
    run_relaid(kernel, [numbers(whole), np.zeros(part, np.int32)], seed, mixed=seed > 8)
