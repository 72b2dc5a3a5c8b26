"""Attention of f8: products apart from their additions overlap the softmax of the next tile."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.attention_reference import reference
from tests.kernels.gemm import with_ctas
from tests.kernels.lowered import lower_to_llvm, run_lowered
from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tileiras.driver import compile_module, read_source
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

F8 = ml_dtypes.float8_e4m3fn
TILES = [(128, 128, 128), (128, 64, 64), (128, 64, 128), (64, 128, 64)]
"""Rows, keys and elements of a head: two warpgroups whose values others transpose, and one."""


@cache
def kernel(kind: str, rows: int, columns: int, depth: int) -> bytes:
    """The text of a kernel, for one CTA on an SM."""
    return with_ctas(softmax_attention(kind, rows, columns, depth, 1, "f8E4M3FN"), 1)


def emitted(source: bytes, stage: str) -> str:
    """The text of a stage."""
    return compile_module(source, CompileOptions(gpu_name="sm_90", emit=stage)).output.decode()


def on_tiles(source: bytes) -> Callable[..., None]:
    """Runs the kernel with its warp roles."""
    module: ModuleOp = parse_text(emitted(source, "nv_tileas"), "k.mlir")
    return lambda arguments, grid: run_entry(module, "attention", arguments, grid)


def by_threads(source: bytes) -> Callable[..., None]:
    """Runs the kernel's threads."""
    module = lower_to_llvm(read_source(source))
    return lambda arguments, grid: run_lowered(module, arguments, grid)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_attention_is_right(kind: str, tile: tuple[int, int, int], iterations: int) -> None:
    check(on_tiles(kernel(kind, *tile)), kind, tile, iterations)


@pytest.mark.parametrize("tile", [(128, 64, 64), (64, 128, 64)])
def test_threads_compute_it(tile: tuple[int, int, int]) -> None:
    check(by_threads(kernel("full", *tile)), "full", tile, 3)


def check(run: Callable[..., None], kind: str, tile: tuple[int, int, int], iterations: int) -> None:
    """Compares with float64; probabilities have the bits of f8."""
    rows, columns, depth = tile
    length = iterations * columns
    blocks = (-(-length // rows),) if kind == "causal" else ()
    arguments, grid = attention_arguments(rows, length, depth, 1, blocks, F8)
    with np.errstate(all="ignore"):
        run(arguments, grid)
    arrays = [bits.view(F8).astype(np.float64).reshape(2, -1, depth) for bits in arguments[:RESULT]]
    arrays[1:] = [array[:, :length] for array in arrays[1:]]
    wanted = reference(*arrays, 1, kind == "causal")
    found = arguments[RESULT].view(np.float16).astype(np.float64).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=0.05, atol=0.06)


@pytest.mark.parametrize("tile", [(128, 128, 128), (64, 128, 64), (256, 128, 64)])
@pytest.mark.parametrize("kind", ["full", "causal"])
def test_nothing_is_spilled(kind: str, tile: tuple[int, int, int]) -> None:
    options = CompileOptions(gpu_name="sm_90", emit="cubin")
    notes = compile_module(kernel(kind, *tile), options).notes
    assert "0 bytes spilled" in notes[0]
    assert not any("wgmma" in note for note in notes)
