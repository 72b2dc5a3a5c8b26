"""Kernels whose tile blocks take a lock in every iteration of a loop, as text, and their arguments.

Tile block b adds x[b] to row b % GROUPS of sums, tile by tile, and stores 2 x[b] in y[b]. What it
has done under the lock before reaches its next iteration through the lock alone.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.lock_kernels import LOOP
from tests.kernels.stage_comparison import passes
from tileiras.driver import compile_module
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

GROUPS, ROWS, COLUMNS, WIDTH = 2, 5, 1600, 128
TENSOR = f"tensor_view<ROWSx{COLUMNS}xf32, strides=[{COLUMNS},1]>"
VIEW = f"partition_view<tile=(1x{WIDTH}), padding_value = zero, {TENSOR}>"
TILE = f"tile<1x{WIDTH}xf32>"
X, Y, SUMS = (VIEW.replace("ROWS", str(rows)) for rows in (ROWS, ROWS, GROUPS))
LOCKED_LOOP = f"""
cuda_tile.module @kernels {{
  entry @add(%locks: tile<ptr<i32>>, %sums: tile<ptr<f32>>, %x: tile<ptr<f32>>,
             %y: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: {GROUPS}> : tile<i32>
    %first = make_token : token
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %group = remi %b, %c2 signed : tile<i32>
    %a0 = assume div_by<16>, %sums : tile<ptr<f32>>
    %s = make_tensor_view %a0, shape = [{GROUPS}, {COLUMNS}], strides = [{COLUMNS}, 1]
      : {TENSOR.replace("ROWS", str(GROUPS))}
    %sp = make_partition_view %s : {SUMS}
    %a1 = assume div_by<16>, %x : tile<ptr<f32>>
    %v = make_tensor_view %a1, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1]
      : {TENSOR.replace("ROWS", str(ROWS))}
    %vp = make_partition_view %v : {X}
    %a2 = assume div_by<16>, %y : tile<ptr<f32>>
    %w = make_tensor_view %a2, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1]
      : {TENSOR.replace("ROWS", str(ROWS))}
    %wp = make_partition_view %w : {Y}
    %lock = offset %locks, %group : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %end = for %j in (%from to %to, step %c1) : tile<i32> iter_values(%t0 = %first) -> (token) {{
      %mine, %r0 = load_view_tko weak %vp[%b, %j] token = %t0 : {X}, tile<i32> -> {TILE}, token
      %twice = addf %mine, %mine : {TILE}
      %w0 = store_view_tko weak %twice, %wp[%b, %j] token = %t0
        : {TILE}, {Y}, tile<i32> -> token{LOOP}
      %there, %read = load_view_tko weak %sp[%group, %j] token = %held
        : {SUMS}, tile<i32> -> {TILE}, token
      %more = addf %there, %mine : {TILE}
      %w1 = store_view_tko weak %more, %sp[%group, %j] token = %read
        : {TILE}, {SUMS}, tile<i32> -> token
      %done = join_tokens %w0, %w1 : token
      %was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%done
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      continue %free : token
    }}
    return
  }}
}}
"""
ALWAYS_THE_FIRST_TILE = LOCKED_LOOP.replace("%sp[%group, %j]", "%sp[%group, %c0]")
"""All iterations add to one tile, so each reads what the one before has stored."""


WIDE = 256
"""Columns of tiles that a CTA keeps the sums of."""
SUMMED_LOOP = LOCKED_LOOP.replace(f"1x{WIDTH}", f"1x{WIDE}").replace("(%from to", "(%c0 to")
"""The same in wider tiles, from the first one on: sums that a CTA may add up by itself."""


def of_rows(text: str, rows: int) -> str:
    """The kernel for so many rows of x and y."""
    return text.replace(f"{ROWS}x{COLUMNS}", f"{rows}x{COLUMNS}").replace(
        f"[{ROWS}, {COLUMNS}]", f"[{rows}, {COLUMNS}]"
    )


class LockedLoopCase:
    """Arguments of the kernel, and what must come out; numbers small enough to be exact."""

    def __init__(self, lower: int, upper: int, rows: int = ROWS, width: int = WIDTH):
        generator = np.random.default_rng(lower + 31 * upper)
        self.rows, self.width = rows, width
        self.bounds = (lower, upper)
        self.locks = np.zeros(GROUPS, np.int32)
        self.sums = generator.integers(-9, 9, (GROUPS, COLUMNS)).astype(np.float32)
        self.x = generator.integers(-9, 9, (rows, COLUMNS)).astype(np.float32)
        self.y = np.full((rows, COLUMNS), -1, np.float32)
        self.grid = (rows, 1, 1)
        self.start = self.sums.copy()

    def arguments(self) -> list[np.ndarray | np.int32]:
        """In the order of the kernel's parameters."""
        arrays = [self.locks, *(array.reshape(-1) for array in (self.sums, self.x, self.y))]
        return [*arrays, *map(np.int32, self.bounds)]

    def check(self, text: str = LOCKED_LOOP) -> None:
        """All has been added up, all locks are free, and nothing else has changed."""
        lower, upper = self.bounds
        sums, y = self.start.copy(), np.full((self.rows, COLUMNS), -1, np.float32)
        for row in range(self.rows):
            for tile in range(lower, upper):
                part = slice(tile * self.width, (tile + 1) * self.width)
                added = self.x[row, part]
                place = slice(0, self.width) if "%sp[%group, %c0]" in text else part
                sums[row % GROUPS, place][: added.size] += added
                y[row, part] = 2 * added
        np.testing.assert_array_equal(self.sums, sums)
        np.testing.assert_array_equal(self.y, y)
        assert not self.locks.any()


@cache
def behind(text: str, name: str, left_out: tuple[str, ...] = ()) -> ModuleOp:
    """A kernel for sm_90 when a pass has run; passes that are left out do not run before it."""
    module = parse_text(text, "kernel.mlir")
    for done, _ in passes(module, (), "sm_90", left_out=left_out):
        if done == name:
            module.verify()
            return module
    raise AssertionError(f"{name} does not run")


@cache
def ptx_of(text: str) -> str:
    """Its PTX."""
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_90")
    return compile_module(text.encode(), options).output.decode()
