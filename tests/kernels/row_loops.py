"""Kernels that go over rows in tiles of columns, twice: what pipelined loads are about."""

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
    def tile(self) -> str:
        """The type of a tile in memory."""
        return f"tile<1x{self.width}x{self.element}>"

    @property
    def wide(self) -> str:
        """The type of a tile that is computed with."""
        return f"tile<1x{self.width}xf32>"

    @property
    def tensor(self) -> str:
        """The type of the matrix."""
        return f"tensor_view<?x?x{self.element}, strides=[?, 1]>"

    @property
    def view(self) -> str:
        """The type of its tiles."""
        return (
            f"partition_view<tile=(1x{self.width}), padding_value = {self.padding}, {self.tensor}>"
        )

    @property
    def text(self) -> str:
        """The kernel `k(%p, %q, %rows, %columns, %lower, %tiles, %by)`."""
        shape = f"shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> {self.tensor}"
        occupancy = f"occupancy = {self.occupancy}" if self.occupancy else ""
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
    %u = make_partition_view %xt : {self.view}
    %yt = make_tensor_view %q16, {shape}
    %w = make_partition_view %yt : {self.view}
    {self._sum()}
    {self._difference()}
    return
  }}
}}"""

    def _load(self, token: str) -> str:
        """The load of a tile, as the numbers that are computed with."""
        hints = f"optimization_hints = <sm_90 = {{latency = {self.latency}}}>"
        types = f"{hints if self.latency else ''} : {self.view}, tile<i32> -> {self.tile}, token"
        if self.element == "f32":
            return f"%x, %a = load_view_tko weak %u[%r, %j] token = {token} {types}"
        return f"""%loaded, %a = load_view_tko weak %u[%r, %j] token = {token} {types}
      %x = ftof %loaded : {self.tile} -> {self.wide}"""

    def _loop(self, step: str) -> str:
        """The head of a loop over tiles."""
        loop = "for unsigned" if self.unsigned else "for"
        return f"{loop} %j in (%lower to %tiles, step {step}) : tile<i32>"

    def _sum(self) -> str:
        """The first loop, and `%all`: the sum of the row in every element of a tile."""
        return f"""%none = constant <f32: 0.0> : {self.wide}
    %sum = {self._loop("%one")} iter_values(%s = %none) -> ({self.wide}) {{
      {self.skip}
      {self._load("%t")}
      %n = addf %s, %x : {self.wide}
      continue %n : {self.wide}
    }}
    %row = reduce %sum dim=1 identities=[0.000000e+00 : f32] : {self.wide} -> tile<1xf32>
      (%l: tile<f32>, %m: tile<f32>) {{
        %o = addf %l, %m : tile<f32>
        yield %o : tile<f32>
      }}
    %row1 = reshape %row : tile<1xf32> -> tile<1x1xf32>
    %all = broadcast %row1 : tile<1x1xf32> -> {self.wide}"""

    def _difference(self) -> str:
        """The second loop."""
        carried = "iter_values(%k = %t) -> (token)" if self.chained else ""
        is_wide = self.element == "f32"
        narrow = "" if is_wide else f"%dn = ftof %d : {self.wide} -> {self.tile}"
        target = "%u" if self.in_place else "%w"
        return f"""{"%last = " if self.chained else ""}{self._loop(self.step)} {carried} {{
      {self._load("%k" if self.chained else "%t")}
      %d = subf %x, %all : {self.wide}
      {narrow}
      %c = store_view_tko weak {"%d" if is_wide else "%dn"}, {target}[%r, %j] token = %a
        : {self.tile}, {self.view}, tile<i32> -> token
      continue{" %c : token" if self.chained else ""}
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
