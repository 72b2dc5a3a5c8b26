"""Right operands of 8 bits whose columns are contiguous, transposed by the threads of a
warpgroup.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.attention import attention
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.product_text import ProductKernel, products_in_turn
from tests.kernels.random_products import dense_case
from tests.kernels.stage_comparison import passes
from tileiras.dialects.layout.wgmma_k_order import K_OF_PLACE, k_of_place
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

F8 = ml_dtypes.float8_e4m3fn
SIZE, ROUNDS = 128, 2


def attention_of_f8(rows: int = SIZE, keys: int = SIZE, depth: int = SIZE) -> bytes:
    """`O = (Q K^T) V` for f8 operands and result; tiles of so many keys, heads of `depth`."""
    return attention(1, rows, keys, depth, "f8E4M3FN")


def test_k_of_places_is_an_order():
    assert sorted(k_of_place(place) for place in range(64)) == list(range(64))
    assert [k_of_place(place) for place in range(4)] == [0, 1, 8, 9]
    assert tuple(map(k_of_place, (1, 2, 4, 8))) == K_OF_PLACE


@pytest.mark.parametrize(
    ("rows", "step", "depth"),
    [
        (64, SIZE, SIZE),
        (128, SIZE, SIZE),
        (64, 64, 128),
        (128, 64, 64),
        (64, 128, 64),
        (64, 32, 64),
    ],
)
def test_threads_turn_the_values_of_attention(rows: int, step: int, depth: int) -> None:
    """Tiles of `step` keys: swizzles of 128, 64 and 32 bytes, as they come and transposed."""
    rng = np.random.default_rng(rows)
    length = ROUNDS * step
    queries = np.zeros((max(rows, length), depth), F8)
    queries[np.arange(len(queries)), rng.integers(0, depth, len(queries))] = 1
    keys = rng.integers(-8, 9, (length, depth)).astype(F8)
    values = rng.choice([1.0, 2.0], depth) * (rng.random((length, depth)) < 0.02)
    values = values.astype(F8)
    out = np.zeros_like(queries)
    bits = [array.view(np.uint8) for array in (queries, keys, values, out)]
    run_lowered(lowered(rows, step, depth), [*bits, length])
    wide = [array.astype(np.float64) for array in (queries[:rows], keys, values)]
    expected = (wide[0] @ wide[1].T) @ wide[2]
    assert np.abs(expected).max() < 448
    np.testing.assert_array_equal(out[:rows], expected.astype(F8))
    assert not out[rows:].astype(np.float64).any()


def lowered(rows: int, keys: int, depth: int) -> ModuleOp:
    """The llvm dialect of the kernel."""
    return lower_to_llvm(read_source(attention_of_f8(rows, keys, depth)))


@pytest.mark.parametrize("rows", [64, 128])
def test_a_kernel_with_transposed_values_is_specialised_without_spills(rows: int):
    """One warpgroup transposes beside its products, for two a pair of idle warps does."""
    options = replace(
        with_environment(CompileOptions(gpu_name="sm_90")), emit="nv_tileas", print_generic=True
    )
    text = compile_module(attention_of_f8(rows), options).output.decode()
    if rows == 64:
        turn, wait = text.index("nv_tileas.smem_transpose"), text.index("nv_tileas.dot_wait")
        assert text.index("nv_tileas.wgmma_dot") < turn < wait
    else:
        assert "nv_tileas.transpose_warps" in text and "nv_tileas.smem_transpose" not in text
    result = compile_module(attention_of_f8(rows), replace(options, emit="cubin"))
    assert "0 bytes spilled" in result.notes[0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_there_is_room_for_the_largest_tile(order: tuple[int, int]):
    """And every warpgroup keeps to its own part of it: others may still read theirs."""
    sizes = ((128, 64, 32), (128, 128, 128))
    kernels = [ProductKernel("i8", sizes[number], a="column") for number in order]
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    ptx = compile_module(products_in_turn(*kernels), options).output.decode()
    [room] = re.findall(r"turned\[(\d+)\];", ptx)
    assert int(room) == 2 * 128 * 128


@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 256, 32), (256, 128, 32), (64, 64, 32)])
@pytest.mark.parametrize("a", ["column", "transposed", "permuted"])
def test_words_are_transposed_while_products_run(tile: tuple[int, int, int], a: str) -> None:
    """By all consumers together, once for each tile; that with fewer words of both operands."""
    kernel = ProductKernel("f32", tile, a=a)
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    ptx = compile_module(kernel.text().encode(), options).output.decode()
    assert "mma.sync" not in ptx
    columns = min(tile[:2])
    loop = ptx[: ptx.rindex("wgmma.mma_async")]
    assert f"m64n{columns}k8.f32.tf32.tf32" in loop
    [room] = re.findall(r"turned\[(\d+)\];", ptx)
    assert int(room) == 2 * 4 * 32 * columns
    # All instructions of a tile are issued before the next one is transposed beside them.
    waits = [int(count) for count in re.findall(r"wgmma.wait_group.sync.aligned (\d)", ptx)]
    assert waits == [0, 0]
    result = compile_module(kernel.text().encode(), replace(options, emit="cubin"))
    assert "0 bytes spilled" in result.notes[0]
    assert "C75" not in "".join(result.notes)


def test_tiles_of_words_take_turns_in_the_same_copies() -> None:
    kernels = [ProductKernel("f32", (128, n, 32), a="column") for n in (64, 128)]
    source = products_in_turn(*kernels).decode()
    case = dense_case(kernels[0], (128, 128, 160), 1, 2)
    module = parse_text(source, "kernel.mlir")
    for _ in passes(module, (), "sm_90", to_threads=True):
        pass
    [room] = [
        op for op in module.walk() if isinstance(op, GlobalOp) and "turned" in op.sym_name.data
    ]
    assert room.size.data == 2 * 4 * 32 * 128
    arguments = case.arguments()
    run_lowered(module, arguments, case.grid, 0)
    assert not case.difference(arguments[2])


def test_large_rows_are_read_step_by_step() -> None:
    """Fragments of 128 K are more than a thread holds at once."""
    kernel = ProductKernel("f32", (64, 64, 128), a="column")
    text = compile_module(
        kernel.text().encode(),
        with_environment(CompileOptions(gpu_name="sm_90", emit="ptx")),
    ).output.decode()
    assert "mma.sync" not in text and "wgmma.wait_group.sync.aligned 1" in text
