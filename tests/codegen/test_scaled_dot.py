"""Block-scaled matrix products: the simulated kernel computes what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.errors import CompileError
from tileiras.interpreter import run_entry
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.passes.cuda_tile_to_nv_tileaa import ConvertCudaTileToTileAAPass


def program(element: str, scale: str, block: int, shape: tuple[int, int, int]) -> str:
    """A kernel with one product; arguments a, b, scales of a, scales of b, and the sum."""
    m, n, k = shape
    types = {
        "a": ((m, k), element),
        "b": ((k, n), element),
        "sa": ((m, k // block), scale),
        "sb": ((k // block, n), scale),
        "c": ((m, n), "f32"),
    }
    lines, tiles, views = [], {}, {}
    for name, ((rows, columns), type_) in types.items():
        tensor = f"tensor_view<{rows}x{columns}x{type_}, strides=[{columns},1]>"
        views[name] = f"partition_view<tile=({rows}x{columns}), {tensor}>"
        tiles[name] = f"tile<{rows}x{columns}x{type_}>"
        lines += [
            f"%{name}_t = make_tensor_view %{name}, shape = [{rows}, {columns}], "
            f"strides = [{columns}, 1] : {tensor}",
            f"%{name}_v = make_partition_view %{name}_t : {views[name]}",
            f"%{name}_x, %{name}_k = load_view_tko weak %{name}_v[%z, %z] : {views[name]}, "
            f"tile<i32> -> {tiles[name]}, token",
        ]
    kinds = ", ".join(tiles[name] for name in ("a", "b", "c", "sa", "sb"))
    lines += [
        f"%r = mmaf_scaled %a_x, %b_x, %c_x, %sa_x, %sb_x : {kinds}",
        f"%w = store_view_tko weak %r, %c_v[%z, %z] token = %c_k : {tiles['c']}, {views['c']}, "
        "tile<i32> -> token",
    ]
    arguments = ", ".join(f"%{name}: tile<ptr<{type_}>>" for name, (_, type_) in types.items())
    body = "\n ".join(["%z = constant <i32: 0> : tile<i32>", *lines])
    return f"cuda_tile.module @m {{ entry @k({arguments}) {{ {body}\n return }} }}"


CASES = [
    ("f8E4M3FN", "f8E8M0FNU", 32, (16, 8, 64)),
    ("f8E5M2", "f8E8M0FNU", 32, (32, 16, 32)),
]


@pytest.mark.parametrize(("element", "scale", "block", "shape"), CASES)
def test_scaled_product(element: str, scale: str, block: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    generator = np.random.default_rng(7)
    arguments = [
        generator.integers(0x30, 0x40, (m, k)).astype(np.uint8),
        generator.integers(0x30, 0x40, (k, n)).astype(np.uint8) | np.uint8(0x80),
        generator.integers(124, 131, (m, k // block)).astype(np.uint8),
        generator.integers(124, 131, (k // block, n)).astype(np.uint8),
        generator.integers(-4, 4, (m, n)).astype(np.float32),
    ]
    text = program(element, scale, block, shape)
    wanted = [array.copy() for array in arguments]
    run_entry(parse_module(text), None, wanted, (1, 1, 1))
    run_lowered(lower_to_llvm(parse_module(text), "sm_120"), arguments)
    np.testing.assert_allclose(arguments[-1], wanted[-1], rtol=1e-5, atol=1e-5)
    assert np.abs(wanted[-1]).max() > 1


@pytest.mark.parametrize(
    ("element", "scale", "block"),
    [("f4E2M1FN", "f8E4M3FN", 16), ("f4E2M1FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32)],
)
def test_operands_are_scaled_in_f32_and_multiplied_in_bf16(
    element: str, scale: str, block: int
) -> None:
    module = parse_module(program(element, scale, block, (16, 8, 64)))
    context = CompileContext(target=get_target("sm_100"), options=CompileOptions())
    ConvertCudaTileToTileAAPass().apply(context, module)
    ops = [op for op in module.walk() if op.name in ("nv_tileaa.mulf", "nv_tileaa.dot")]
    assert [op.name for op in ops] == ["nv_tileaa.mulf", "nv_tileaa.mulf", "nv_tileaa.dot"]
    shapes = [str(op.results[0].type) for op in ops]
    assert shapes == ["tensor<16x64xf32>", "tensor<64x8xf32>", "tensor<16x8xf32>"]
    assert [str(value.type) for value in ops[2].operands[:2]] == [
        "tensor<16x64xbf16>",
        "tensor<64x8xbf16>",
    ]


def test_targets_without_the_scale_type_reject_it() -> None:
    text = program("f8E4M3FN", "f8E8M0FNU", 32, (16, 8, 64))
    with pytest.raises(CompileError, match="unsupported type 'f8E8M0FNU'"):
        lower_to_llvm(parse_module(text), "sm_90")
