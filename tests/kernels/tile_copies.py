"""Kernels that copy tiles of a matrix, by two axes of the grid."""

from __future__ import annotations

import numpy as np

FLAT = "partition_view<tile=(8x16), tensor_view<?x?xf32, strides=[?,1]>>"
"""The tiles of a matrix."""
ROWS, COLUMNS = 20, 75


def copy_kernel(place: str = "%bx, %by", target: str = "%bx, %by", between: str = "") -> str:
    """A kernel that copies tiles of a matrix; `between` stands in front of the store."""
    tensor = "tensor_view<?x?xf32, strides=[?,1]>"
    shape = f"shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> {tensor}"
    return f"""
cuda_tile.module @m {{
  entry @copy(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %v = make_tensor_view %x, {shape}
    %w = make_tensor_view %y, {shape}
    %p = make_partition_view %v : {FLAT}
    %q = make_partition_view %w : {FLAT}
    %a, %r = load_view_tko weak %p[{place}] token = %t : {FLAT}, tile<i32>
      -> tile<8x16xf32>, token
    {between}
    %z = store_view_tko weak %a, %q[{target}] token = %r : tile<8x16xf32>, {FLAT}, tile<i32>
      -> token
    return
  }}
}}
"""


def arrays() -> tuple[list[object], np.ndarray]:
    """Arguments of a copy, and what must come out."""
    source = np.arange(ROWS * COLUMNS, dtype=np.float32)
    return [source, np.zeros_like(source), np.int32(ROWS), np.int32(COLUMNS)], source
