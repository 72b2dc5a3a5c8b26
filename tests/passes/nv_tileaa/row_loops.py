"""Kernels that go over rows in tiles of columns, twice: what early loads are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROWS, COLUMNS = 2, 176


@dataclass(frozen=True)
class RowLoop:
    """One kernel: tile block r adds up the tiles of row r, then stores them minus the sum.

    `step` is the second loop's. `in_place` stores to what was loaded, behind the load in token
    order. `chained` puts each load behind the store of the iteration before.
    """

    element: str = "f32"
    width: int = 64
    padding: str = "zero"
    step: str = "%one"
    latency: int = 0
    occupancy: int = 0
    in_place: bool = False
    chained: bool = False
    unsigned: bool = False
    skip: str = ""

    @property
    def text(self) -> str:
        """The kernel `k(%p, %q, %rows, %columns, %lower, %tiles, %by)`."""
        tile, wide = f"tile<1x{self.width}x{self.element}>", f"tile<1x{self.width}xf32>"
        tensor = f"tensor_view<?x?x{self.element}, strides=[?, 1]>"
        view = f"partition_view<tile=(1x{self.width}), padding_value = {self.padding}, {tensor}>"
        shape = f"shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> {tensor}"
        hints = f"optimization_hints = <sm_90 = {{latency = {self.latency}}}>"
        load = f": {view}, tile<i32> -> {tile}, token"
        load = f"{hints if self.latency else ''} {load}"
        is_wide = self.element == "f32"
        widen = "" if is_wide else f"%xw = ftof %x : {tile} -> {wide}"
        value = "%x" if is_wide else "%xw"
        narrow = "" if is_wide else f"%dn = ftof %d : {wide} -> {tile}"
        stored = "%d" if is_wide else "%dn"
        target = "%u" if self.in_place else "%w"
        carried = "iter_values(%k = %t) -> (token)" if self.chained else ""
        before = "token = %k" if self.chained else "token = %t"
        handed = " %c : token" if self.chained else ""
        result = "%last = " if self.chained else ""
        occupancy = f"occupancy = {self.occupancy}" if self.occupancy else ""
        loop = "for unsigned" if self.unsigned else "for"
        bounds = "in (%lower to %tiles, step %one) : tile<i32>"
        return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{self.element}>>, %q: tile<ptr<{self.element}>>, %rows: tile<i32>,
           %columns0: tile<i32>, %lower: tile<i32>, %tiles: tile<i32>, %by: tile<i32>)
      optimization_hints=<sm_90 = {{{occupancy}}}> {{
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %p16 = assume div_by<16>, %p : tile<ptr<{self.element}>>
    %q16 = assume div_by<16>, %q : tile<ptr<{self.element}>>
    %columns = assume div_by<16>, %columns0 : tile<i32>
    %r, %b1, %b2 = get_tile_block_id : tile<i32>
    %xt = make_tensor_view %p16, {shape}
    %u = make_partition_view %xt : {view}
    %yt = make_tensor_view %q16, {shape}
    %w = make_partition_view %yt : {view}
    %none = constant <f32: 0.0> : {wide}
    %sum = {loop} %j {bounds} iter_values(%s = %none) -> ({wide}) {{
      {self.skip}
      %x, %a = load_view_tko weak %u[%r, %j] token = %t {load}
      {widen}
      %n = addf %s, {value} : {wide}
      continue %n : {wide}
    }}
    %row = reduce %sum dim=1 identities=[0.000000e+00 : f32] : {wide} -> tile<1xf32>
      (%l: tile<f32>, %m: tile<f32>) {{
        %o = addf %l, %m : tile<f32>
        yield %o : tile<f32>
      }}
    %row1 = reshape %row : tile<1xf32> -> tile<1x1xf32>
    %all = broadcast %row1 : tile<1x1xf32> -> {wide}
    {result}{loop} %j {bounds.replace("%one", self.step)} {carried} {{
      %x, %a = load_view_tko weak %u[%r, %j] {before} {load}
      {widen}
      %d = subf {value}, %all : {wide}
      {narrow}
      %c = store_view_tko weak {stored}, {target}[%r, %j] token = %a
        : {tile}, {view}, tile<i32> -> token
      continue{handed}
    }}
    return
  }}
}}"""


KERNELS = [
    RowLoop(),
    RowLoop("f16"),
    RowLoop("f16", 32, latency=10),
    RowLoop(step="%by"),
    RowLoop(padding="neg_inf"),
    RowLoop(in_place=True, latency=1),
    RowLoop(unsigned=True),
    RowLoop(width=2),
]


def arrays(kernel: RowLoop) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, so that sums are exact in any order."""
    numbers = np.random.default_rng(5).integers(-8, 9, (ROWS, COLUMNS))
    if kernel.element == "f32":
        return numbers.astype(np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    halves = numbers.astype(np.float16).view(np.uint16)
    return halves, np.zeros((ROWS, COLUMNS), np.uint16)
