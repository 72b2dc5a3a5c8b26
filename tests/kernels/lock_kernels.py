"""Kernels whose tile blocks add to tiles under a lock, as text."""

from __future__ import annotations

import numpy as np

ELEMENTS = 1024

LOOP = """
    %held = loop iter_values(%t = %t0) : token -> token {
      %old, %taken = atomic_cas_tko acquire device %lock, %c0, %c1 token=%t
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %busy = cmpi equal %old, %c1, signed : tile<i32> -> tile<i1>
      if %busy {
      } else {
        break %taken : token
      }
      continue %taken : token
    }"""
"""Waits for `%lock` as `%held`."""
RELEASE = """
    %done = join_tokens %stored, %counted : token
    %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%done
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""

TURNS = f"""
cuda_tile.module @kernels {{
  entry @add(%locks: tile<ptr<i32>>, %turns: tile<ptr<i32>>, %sums: tile<ptr<f32>>,
             %x: tile<ptr<f32>>, %parts: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %t0 = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [8192], strides = [1] : tensor_view<8192xf32, strides=[1]>
    %sp = make_partition_view %s : VIEW(8192)
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %vp = make_partition_view %v : VIEW(65536)
    %first = muli %by, %parts : tile<i32>
    %part = addi %first, %b : tile<i32>
    %mine, %r0 = load_view_tko weak %vp[%part] token = %t0 : VIEW(65536), tile<i32>
      -> tile<{ELEMENTS}xf32>, token
    %lock = offset %locks, %by : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %count = offset %turns, %by : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %is_there = cmpi less_than %by, %parts, signed : tile<i32> -> tile<i1>{LOOP}
    %turn, %seen = load_ptr_tko weak %count token=%held
      : tile<ptr<i32>> -> tile<i32>, token
    %is_first = cmpi equal %turn, %c0, signed : tile<i32> -> tile<i1>
    %stored = if %is_first -> (token) {{
      %w0 = store_view_tko weak %mine, %sp[%by] token = %held
        : tile<{ELEMENTS}xf32>, VIEW(8192), tile<i32> -> token
      yield %w0 : token
    }} else {{
      %there, %read = load_view_tko weak %sp[%by] token = %held : VIEW(8192), tile<i32>
        -> tile<{ELEMENTS}xf32>, token
      %more = addf %there, %mine : tile<{ELEMENTS}xf32>
      %w1 = store_view_tko weak %more, %sp[%by] token = %read
        : tile<{ELEMENTS}xf32>, VIEW(8192), tile<i32> -> token
      yield %w1 : token
    }}
    %next = addi %turn, %c1 : tile<i32>
    %again = remi %next, %parts signed : tile<i32>
    %counted = store_ptr_tko weak %count, %again token=%seen
      : tile<ptr<i32>>, tile<i32> -> token{RELEASE}
    return
  }}
}}
"""
"""Tile blocks along x add up: the first of `parts` stores its tile, the others add to it."""
for _size in (8192, 65536):
    TURNS = TURNS.replace(
        f"VIEW({_size})",
        f"partition_view<tile=({ELEMENTS}), tensor_view<{_size}xf32, strides=[1]>>",
    )


class SmemTransposeCase:
    """Arguments of TURNS for a number of parts and of tiles, and what must come out."""

    def __init__(self, parts: int, tiles: int):
        generator = np.random.default_rng(parts)
        self.tiles, self.parts = tiles, parts
        self.locks, self.turns = np.zeros(tiles, np.int32), np.zeros(tiles, np.int32)
        self.sums = np.full(8192, -1, np.float32)
        self.x = generator.integers(-99, 99, 65536).astype(np.float32)

    @property
    def grid(self) -> tuple[int, int, int]:
        """A tile block for each part of each tile."""
        return (self.parts, self.tiles, 1)

    @property
    def arguments(self) -> list[int | np.ndarray]:
        """In the order of the kernel's parameters."""
        return [self.locks, self.turns, self.sums, self.x, self.parts]

    def check(self) -> None:
        """All parts have been added, all locks given back, and the turns are over."""
        used = self.x[: self.tiles * self.parts * ELEMENTS]
        wanted = used.reshape(self.tiles, self.parts, ELEMENTS).sum(axis=1)
        found = self.sums[: self.tiles * ELEMENTS].reshape(self.tiles, ELEMENTS)
        np.testing.assert_array_equal(found, wanted)
        assert np.all(self.sums[self.tiles * ELEMENTS :] == -1)
        assert not self.locks.any()
        assert not self.turns.any()
