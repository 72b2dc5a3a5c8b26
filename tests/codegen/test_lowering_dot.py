"""Matrix products by mma.sync: staged operands, every element type and orientation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, bf16, f8E4M3FN, f16, f32, f64, i8, i32

from tests.kernels.dot_kernels import check, dot_kernel
from tests.kernels.gemm import gemm
from tests.kernels.kernel_builder import Kernel
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.codegen.target import get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.mma import M16N8K16_F16, mma_operand_layout
from tileiras.dialects.layout.offsets import bank_conflicts
from tileiras.dialects.layout.operands import plan_operand
from tileiras.driver import compile_module
from tileiras.errors import CompileError
from tileiras.options import CompileOptions
from tileiras.planning.layouts import column_orders


@pytest.mark.parametrize("transposed", [(a, b) for a in (False, True) for b in (False, True)])
@pytest.mark.parametrize("operand", [f16, bf16, i8, f64])
def test_product_in_every_orientation(operand, transposed):
    acc = {i8: i32, f64: f64}.get(operand, f32)
    check(32, 16, 64, operand, acc, transposed)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(16, 8, 16), (128, 32, 32), (64, 128, 16), (16, 64, 256)]
)
def test_product_of_shapes(m, n, k):
    check(m, n, k)


@pytest.mark.parametrize(("m", "n", "k"), [(4, 8, 2), (32, 16, 8), (64, 64, 128)])
def test_product_of_f32(m, n, k):
    check(m, n, k, f32)


def test_batched_product():
    check(16, 16, 32, batch=2)


@pytest.mark.parametrize("transposed", [(a, b) for a in (False, True) for b in (False, True)])
def test_product_by_multiply_add(transposed):
    text = check(32, 16, 64, f32, f32, transposed, arch="sm_89")
    assert "nvvm.mma_tile" not in text


@pytest.mark.parametrize(("m", "n", "k"), [(4, 8, 2), (2, 2, 64), (64, 32, 16)])
def test_shapes_by_multiply_add(m, n, k):
    check(m, n, k, f32, f32, arch="sm_89")
    check(m, n, k, f32, f32, batch=2, arch="sm_89")


def test_multiply_add_with_operands_larger_than_shared_memory():
    check(32, 32, 256, f32, f32, arch="sm_80")


def test_half_precision_operands_are_read_by_ldmatrix():
    text = check(64, 64, 64)
    assert "nvvm.ldmatrix" in text and "transposed" in text


@pytest.mark.parametrize("transposed", [(a, b) for a in (False, True) for b in (False, True)])
def test_f8_operands_are_made_f16_where_only_wgmma_has_f8_units(transposed):
    assert "m16n8k16_f32_f16" in check(32, 16, 64, f8E4M3FN, f32, transposed, arch="sm_90")
    assert "m16n8k32_f32_e4m3" in check(32, 16, 64, f8E4M3FN, f32, transposed, arch="sm_89")


def test_target_without_ldmatrix_reads_elements():
    target = get_target("sm_90").without(["ldmatrix"])
    assert "nvvm.ldmatrix" not in check(32, 32, 32, arch=target)


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_larger_than_shared_memory_are_staged_in_parts(transposed):
    text = check(64, 32, 1024, arch="sm_80", transposed=(transposed, transposed))
    assert "nvvm.ldmatrix" in text


@pytest.mark.parametrize(("operand", "acc"), [(i8, i32), (f64, f64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_parts_of_one_atom(operand, acc, transposed):
    target = replace(get_target("sm_90"), static_shared_limit=4096)
    k = {i8: 128, f64: 32}[operand]
    check(32, 32, k, operand, acc, transposed=(transposed, not transposed), arch=target)


def test_operands_without_k_to_divide_are_refused():
    kernel = dot_kernel(2048, 16, 16, f16, f32, (False, False))
    kernel.add(ct.ReturnOp, [[]])
    with pytest.raises(
        CompileError, match="'mma_dot' op uses too much .* bytes of shared memory, sm_80 has 49152"
    ):
        lower_to_llvm(kernel.module, "sm_80")


@pytest.mark.parametrize("warps", [(4, 1), (2, 2), (2, 4)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(64, 16), (128, 64), (16, 128)])
def test_matrix_rows_lie_in_different_banks(warps, transposed, rows, depth):
    order = (0, 1) if transposed else (1, 0)
    source = blocked((rows, depth), order, 8, warps[0] * warps[1])
    fragment = mma_operand_layout(M16N8K16_F16.a, (rows, depth), warps, "A")
    tile = plan_operand(source, fragment, -1, 16, True)
    assert tile.is_matrix and tile.transposed == transposed and tile.store_vector == 8
    assert bank_conflicts(source, tile.shared, 16, 8) == 1
    row = [1 << b for b in range(3)] if transposed else [depth << b for b in range(3)]
    read = type(source).from_index_bases({"lane": [*row, 0, 0]}, source.shape)
    assert bank_conflicts(read, tile.shared, 16, 8) == 1


def chained_kernel(middle: int, *permutations: tuple[int, ...]) -> Kernel:
    """a @ turned(.. a @ turned(a @ b)), each turned among three dims of 16, `middle` and 16."""
    kernel = Kernel(*(PointerType(f16) for _ in range(3)))
    cube, columns = (16, middle, 16), 16 * middle
    a, b = (kernel.load(pointer, (16, n)) for pointer, n in zip(kernel.args, (16, columns)))
    wide, zero = TileType(f16, (16, columns)), kernel.constant(f16, 0.0, (16, columns))
    tile = kernel.add(ct.MmaFOp, [a, b, zero], wide)
    for permutation in permutations:
        turned = TileType(f16, tuple(cube[dim] for dim in permutation))
        order = DenseArrayBase.from_list(i32, list(permutation))
        tile = kernel.add(ct.ReshapeOp, [tile], TileType(f16, cube))
        tile = kernel.add(ct.PermuteOp, [tile], turned, permutation=order)
        tile = kernel.add(ct.MmaFOp, [a, kernel.add(ct.ReshapeOp, [tile], wide), zero], wide)
    kernel.store(kernel.args[2], tile)
    kernel.add(ct.ReturnOp, [[]])
    return kernel


def chained(middle: int, *permutations: tuple[int, ...]) -> list[str]:
    """The lines of a chain's module, which computes what it should."""
    module = lower_to_llvm(chained_kernel(middle, *permutations).module, "sm_90")
    generator = np.random.default_rng(1)
    shapes = ((16, 16), (16, 16 * middle))
    a, b = (generator.integers(-1, 2, shape).astype(np.float16) for shape in shapes)
    found = np.zeros(shapes[1], np.float16)
    run_lowered(module, [a, b, found])
    exact = a @ b
    for permutation in permutations:
        exact = a @ exact.reshape(16, middle, 16).transpose(permutation).reshape(shapes[1])
    np.testing.assert_array_equal(found, exact)
    return str(module).splitlines()


@pytest.mark.parametrize(
    ("middle", "permutations", "stored"),
    [
        (4, [(0, 1, 2)], None),
        (4, [(0, 2, 1)], "transposed"),
        (16, [(1, 2, 0), (1, 2, 0)], "plain"),
    ],
)
def test_products_of_products_are_stored_as_matrices(middle, permutations, stored):
    lines = [line for line in chained(middle, *permutations) if "nvvm.stmatrix" in line]
    assert bool(lines) == (stored is not None)
    assert all(("transposed" in line) == (stored == "transposed") for line in lines)
    before = lower_to_llvm(chained_kernel(middle, *permutations).module, "sm_80")
    assert "nvvm.stmatrix" not in str(before)


@pytest.mark.parametrize(
    ("middle", "permutations", "is_direct"),
    [
        (4, [(2, 1, 0)], True),
        (4, [(2, 1, 0), (2, 1, 0)], True),
        (16, [(1, 2, 0)], True),
        (16, [(1, 2, 0), (1, 2, 0)], True),
        (16, [(2, 0, 1), (1, 2, 0)], True),
        (4, [(0, 1, 2)], False),
        (4, [(0, 2, 1)], False),
    ],
)
def test_products_compute_columns_as_the_next_one_sums_them(
    monkeypatch, middle, permutations, is_direct
):
    """So fewer operands go through shared memory."""

    def stores() -> int:
        lines = chained(middle, *permutations)
        return sum("llvm.store" in line or "nvvm.stmatrix" in line for line in lines)

    ordered = stores()
    monkeypatch.setattr(column_orders, "order_columns", lambda dots: None)
    assert (ordered < stores()) == is_direct


def test_a_sum_that_no_instruction_leaves_is_refused():
    """Columns may come in any order, rows not."""

    def compiled(source: bytes, emit: str) -> str:
        options = CompileOptions(gpu_name="sm_80", emit=emit)
        return compile_module(source, options).output.decode()

    text = compiled(gemm(64, 64, 64), "nv_tileas")
    mma = re.search(r"#mma0 = .*?\]\]} -> 64x64>", text, re.DOTALL)
    assert mma is not None
    swapped = {"[1, 0]": "[2, 0]", "[2, 0]": "[1, 0]", "[0, 2]": "[0, 4]", "[0, 4]": "[0, 2]"}

    def with_swapped(*which: str) -> bytes:
        pattern = "|".join(map(re.escape, which))
        layout = re.sub(pattern, lambda found: swapped[found.group()], mma.group())
        assert layout != mma.group()
        return text.replace(mma.group(), layout).encode()

    with pytest.raises(CompileError, match="does not leave its sum as instructions do") as caught:
        compiled(with_swapped("[1, 0]", "[2, 0]"), "ptx")
    assert caught.value.location is not None
    assert "mma.sync" in compiled(with_swapped("[0, 2]", "[0, 4]"), "ptx")


def test_matrices_that_are_stored_lie_in_different_banks():
    wide = LinearLayout(
        {
            "register": ((0, 64), (8, 0), (0, 8)),
            "lane": ((0, 16), (0, 32), (0, 1), (0, 2), (0, 4)),
            "warp": ((1, 0), (2, 0), (4, 0)),
        },
        (16, 128),
    )
    fragment = mma_operand_layout(M16N8K16_F16.b, (16, 128), (1, 8), "B")
    tile = plan_operand(wide, fragment, -2, 16, True, use_stmatrix=True)
    assert tile.stores_matrices and tile.is_matrix
    stored = type(wide).from_index_bases({"lane": [64, 16, 32, 0, 0]}, wide.shape)
    read = type(wide).from_index_bases({"lane": [128, 256, 512, 0, 0]}, wide.shape)
    assert bank_conflicts(stored, tile.shared, 16, 8) == 1
    assert bank_conflicts(read, tile.shared, 16, 8) == 1
    parted = plan_operand(wide, fragment, -2, 16, True, parts=2, use_stmatrix=True)
    assert not parted.stores_matrices
