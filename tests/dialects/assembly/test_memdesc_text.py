"""Tiles in memory as text: read back as printed, and refused where nothing lies so."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import Float8E8M0FNUType, f16, f32
from xdsl.ir import Attribute

from tileiras.dialects.assembly import print_module
from tileiras.dialects.nv_tileas.memdesc import (
    MemDescType,
    NvmmaSharedAttr,
    ScaleChunksAttr,
    TensorMemoryAttr,
    accumulator_type,
    is_in_smem,
    is_in_tmem,
)
from tileiras.dialects.nv_tileas.memory import AllocTensorOp, byte_range
from tileiras.errors import BytecodeError, InternalError
from tileiras.ir_text import parse_text

OPERAND = "!nv_tileas.memdesc<128x64xf16, #nv_tileas.nvmma_shared<swizzle = 128, major = 1>, smem>"
SCALES = "!nv_tileas.memdesc<128x4xf8E8M0FNU, #nv_tileas.scale_chunks<k_axis = 1>, smem>"
SUM = "!nv_tileas.memdesc<128x128xf32, #nv_tileas.tensor_memory<block_m = 128>, tmem>"
LINEAR = (
    "!nv_tileas.memdesc<2x2x2xf16, #nv_tileas.shared_linear<layout = "
    "#nv_tileas.layout<{offset = [[0, 0, 1], [0, 1, 0], [1, 0, 1]]} -> 2x2x2>>, smem>"
)
CELLS = (
    "!nv_tileas.memdesc<64xf16, #nv_tileas.thread_cells<layout = #nv_tileas.layout<"
    "{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0]]} -> 64>>, smem>"
)
GENERIC = (
    "!nv_tileas.memdesc<#cuda_tile.ints<[128, 64]>, f16, "
    "#nv_tileas.nvmma_shared<#builtin.int<128>, #builtin.int<1>, "
    "#builtin.int<16>>, #nv_tileas.memory_space<smem>>"
)


WIDE = OPERAND.replace("major = 1", "major = 1, atom = 32")


def waited_for(*types: str) -> Attribute:
    """The type of the first tile of a stage, in a kernel that waits for tiles of these types."""
    tiles = ", ".join(types)
    offsets = ", ".join("0" for _ in types)
    text = f"""builtin.module {{
  nv_tileaa.func @k(%a: i32) {{
    %p = nv_tileas.async.pipeline.create_pipeline
      {{stages = 2, stage_bytes = 32768, consumers = 1, gather_threads = 0}}
    %t:{len(types)} = nv_tileas.async.pipeline.consumer_wait %p at [{offsets}]
      : (!nv_tileas.pipeline) -> ({tiles})
    nv_tileaa.return
  }}
}}
"""
    module = parse_text(text, "k.mlir")
    assert print_module(parse_text(print_module(module))) == print_module(module)
    results = [result for op in module.walk() for result in op.results]
    return results[1].type


def read_accumulator(type: str, columns: int = 512) -> None:
    """Reads a kernel with sums of this type in tensor memory."""
    numbers = f"{{stages = 1, column = 0, columns = {columns}, readers = 4}}"
    body = f"%s = nv_tileas.create_accumulator {numbers} : {type}\n    nv_tileaa.return"
    parse_text(f"builtin.module {{\n  nv_tileaa.func @k() {{\n    {body}\n  }}\n}}\n", "k.mlir")


@pytest.mark.parametrize(
    ("text", "type"),
    [
        (OPERAND, MemDescType((128, 64), f16, NvmmaSharedAttr(128, 1))),
        (OPERAND.replace("r = 1", "r = 0"), MemDescType((128, 64), f16, NvmmaSharedAttr(128, 0))),
        (SCALES, MemDescType((128, 4), Float8E8M0FNUType(), ScaleChunksAttr(1))),
        (GENERIC, MemDescType((128, 64), f16, NvmmaSharedAttr(128, 1))),
        (WIDE, MemDescType((128, 64), f16, NvmmaSharedAttr(128, 1, 32))),
    ],
)
def test_tile_of_a_stage_is_read(text: str, type: Attribute) -> None:
    """In its own form, with and without aliases, and in generic form."""
    found = waited_for(text)
    assert found == type
    assert is_in_smem(found)
    assert not is_in_tmem(found)


def test_stage_may_have_tiles_of_several_kinds() -> None:
    """Operands and their scales."""
    waited_for(OPERAND, SCALES, GENERIC)


@pytest.mark.parametrize(("type", "stage", "all"), [(LINEAR, 128, 256), (CELLS, 1024, 2048)])
def test_buffer_of_tiles_that_lie_as_a_layout_says(type: str, stage: int, all: int) -> None:
    """Is read back as printed, and knows its size: each thread has whole cells of its own."""
    text = f"""builtin.module {{
  nv_tileaa.func @k() {{
    %b = nv_tileas.alloc_tensor {{stages = 2, offset = 128}} : {type}
    nv_tileaa.return
  }}
}}
"""
    module = parse_text(text, "k.mlir")
    assert print_module(parse_text(print_module(module))) == print_module(module)
    [buffer] = [op for op in module.walk() if isinstance(op, AllocTensorOp)]
    assert (buffer.stage_bytes, buffer.bytes, byte_range(buffer)) == (
        stage,
        all,
        f"128 to {all + 127}",
    )


def test_sums_are_read() -> None:
    """Blocks of 128 rows side by side, or one of 64."""
    read_accumulator(SUM)
    read_accumulator(SUM.replace("128x128", "256x256"))
    read_accumulator(SUM.replace("128x128", "64x128").replace("m = 128", "m = 64"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("m = 128", "m = 32", "nv_tileas.tensor_memory: blocks of 32 rows, expected 64 or 128"),
        ("128x128", "192x128", "nv_tileas.memdesc: 192 rows in blocks of 128"),
        ("128x128", "64x128", "nv_tileas.memdesc: 64 rows in blocks of 128"),
        ("128x128", "512x256", "a tile of 1024 columns, expected at most 512"),
        ("128x128", "128x1x128", "nv_tileas.memdesc: a tile of rank 3, expected 2"),
        ("128x128", "128x?", "nv_tileas.memdesc: a tile of shape [128, "),
        (SUM, OPERAND, "Expected attribute #nv_tileas.memory_space<tmem> but got"),
        (", tmem", ", smem", "found 'smem', expected 'tmem' for nv_tileas.tensor_memory"),
        (", tmem", "", "expected ','"),
    ],
)
def test_sums_that_no_tensor_memory_holds(old: str, new: str, said: str) -> None:
    """Are refused where the type stands."""
    with pytest.raises(BytecodeError) as caught:
        read_accumulator(SUM.replace(old, new))
    assert said in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line == 3


@pytest.mark.parametrize(
    ("type", "said"),
    [
        (GENERIC.replace("<smem>", "<tmem>"), "a tile in tmem that lies as nv_tileas.nvmma_shared"),
        (GENERIC.replace("<smem>", "<dram>"), "expected `smem`, or `tmem`"),
        (SCALES.replace("k_axis = 1", "k_axis = 2"), "a tile of rank 2 with dim 2 contiguous"),
        (OPERAND.replace("major", "minor"), "expected 'major'"),
        (OPERAND.replace("swizzle = 128", "swizzle = 16"), "a swizzle of 16 bytes, expected one"),
        (WIDE.replace("= 128", "= 64"), "atoms of 32 bytes in a swizzle of 64"),
        (WIDE.replace("= 32", "= 64"), "atoms of 64 bytes in a swizzle of 128"),
        (OPERAND.replace("x64x", "x48x"), "rows of 96 bytes in panels of 128"),
        (OPERAND.replace("smem", "dram"), "expected `smem`, or `tmem`"),
        (SUM, "Expected attribute #nv_tileas.memory_space<smem> but got"),
        (CELLS.replace("<64xf16", "<128xf16"), "a tile of shape [128] in a layout of [64]"),
        (CELLS.replace("warp =", "offset ="), "a layout of register, lane, offset, expected reg"),
        (CELLS.replace("smem", "tmem"), "found 'tmem', expected 'smem' for nv_tileas.thread_cells"),
        (LINEAR.replace("offset", "lane"), "a layout of lane, expected offset"),
        (LINEAR.replace("[1, 0, 1]", "[0, 1, 1]"), "in a layout without an inverse"),
    ],
)
def test_tiles_that_no_stage_holds(type: str, said: str) -> None:
    """Are refused, with their place."""
    with pytest.raises(BytecodeError) as caught:
        waited_for(type)
    assert said in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.line in (5, 6)


def test_only_tiles_in_tensor_memory_take_columns() -> None:
    """And only those in shared memory have a contiguous dim."""
    sums = accumulator_type((256, 64), f32)
    operand = MemDescType((8, 64), f16, NvmmaSharedAttr(128, 1))
    assert sums == MemDescType((256, 64), f32, TensorMemoryAttr(128))
    assert (sums.tmem_columns, operand.major, operand.swizzle) == (128, 1, 128)
    with pytest.raises(InternalError, match="is not in tensor memory"):
        _ = operand.tmem_columns
    with pytest.raises(InternalError, match="is contiguous"):
        _ = sums.major
