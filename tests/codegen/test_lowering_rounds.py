"""Layout conversions of tiles larger than shared memory."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i8, i32

from tests.kernels.kernel_builder import Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.random_layouts import random_layout
from tileiras.codegen.lowering.convert_layout import lower_convert_layout
from tileiras.codegen.lowering.rules import RULES
from tileiras.codegen.target import GpuTarget, get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.conversion import plan_conversion
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.offsets import bank_conflicts, offset_bases
from tileiras.dialects.layout.plans import SharedMemory
from tileiras.dialects.layout.rounds import plan_rounds
from tileiras.planning.layouts.conversions import way_between


@pytest.fixture
def small_memory() -> GpuTarget:
    """A target with 1024 bytes of shared memory."""
    return replace(get_target("sm_90"), static_shared_limit=1024)


def transposing_kernel(rows: int, columns: int, element) -> Kernel:
    """Loads a tile and stores its transpose."""
    kernel = Kernel(PointerType(element), PointerType(element))
    tile = kernel.load(kernel.args[0], (rows, columns))
    permutation = DenseArrayBase.from_list(i32, [1, 0])
    transposed = kernel.add(
        ct.PermuteOp, [tile], TileType(element, (columns, rows)), permutation=permutation
    )
    kernel.store(kernel.args[1], transposed)
    kernel.add(ct.ReturnOp, [[]])
    return kernel


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 64), (256, 16)])
@pytest.mark.parametrize(("element", "dtype"), [(i32, np.int32), (i8, np.int8)])
def test_transpose_in_rounds(small_memory, rows, columns, element, dtype):
    data = np.random.default_rng(rows).integers(-100, 100, (rows, columns)).astype(dtype)
    found = np.zeros((columns, rows), dtype)
    module = lower_to_llvm(transposing_kernel(rows, columns, element).module, small_memory)
    run_lowered(module, [data, found])
    np.testing.assert_array_equal(found, data.T)


@pytest.mark.parametrize("seed", range(12))
def test_random_conversions_in_rounds(small_memory, monkeypatch, seed):
    generator = random.Random(seed)

    def detour(ctx, op):
        """Lowers a conversion by way of two random layouts."""
        chain = [ctx.layout(op.source.type), ctx.layout(op.result.type)]
        for _ in range(2):
            mixed = bool(seed % 2)
            chain.insert(1, random_layout(chain[0].shape, chain[0], generator, mixed))
        value = op.source
        for layout in chain[1:]:
            step = tas.ConvertLayoutOp.create(
                operands=[value], result_types=[tas.encoded(op.source.type.element_type, layout)]
            )
            before = tas.layout_of(value.type)
            step.properties["by"] = way_between(before, layout, step.element_bits)
            lower_convert_layout(ctx, step)
            value = step.results[0]
        ctx.values[op.result] = ctx.values[value]

    monkeypatch.setitem(RULES, tas.ConvertLayoutOp, detour)
    data = np.arange(32 * 64, dtype=np.int32).reshape(32, 64)
    found = np.zeros((64, 32), np.int32)
    module = lower_to_llvm(transposing_kernel(32, 64, i32).module, small_memory)
    run_lowered(module, [data, found])
    np.testing.assert_array_equal(found, data.T)


def test_windows_are_told_apart_by_registers_and_free_of_conflicts():
    shape = (64, 64, 64)
    source, target = blocked(shape, (2, 1, 0), 4, 16), blocked(shape, (1, 2, 0), 4, 16)
    plan = plan_conversion(source, target, 32)
    assert isinstance(plan, SharedMemory)
    rounds = plan_rounds(source, target, plan, 32, 1 << 16)
    assert (rounds.count, rounds.window) == (16, 1 << 14)
    for layout, vector in ((source, plan.store_vector), (target, plan.load_vector)):
        bases = offset_bases(layout, rounds.shared)
        threads = (*bases.vectors("lane"), *bases.vectors("warp"))
        assert all(offset < rounds.window for offset in threads)
        before = bank_conflicts(layout, plan.shared, 32, vector)
        assert bank_conflicts(layout, rounds.shared, 32, vector) == before


def test_buffer_below_one_wavefront_is_refused():
    source, target = blocked((64, 64), (1, 0), 4, 4), blocked((64, 64), (0, 1), 4, 4)
    plan = plan_conversion(source, target, 32)
    assert isinstance(plan, SharedMemory)
    with pytest.raises(LayoutError, match="64 bytes do not hold one access of a warp"):
        plan_rounds(source, target, plan, 32, 64)
