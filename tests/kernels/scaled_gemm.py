"""Block-scaled matrix products in a loop over K, as text and with arguments.

`C = (A * SA) @ (B * SB)`: a scale belongs to `block` elements along K. Extents are parameters, so
tiles may be ragged. Operands and scales are such that every sum is exact in f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

FORMATS: dict[str, Any] = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}
UNTOUCHED = 77.0
"""What is in the result before a kernel runs."""


@dataclass(frozen=True)
class _Array:
    """An operand: elements, names of its extents, its tile, whether it is stored transposed."""

    element: str
    extents: tuple[str, str]
    tile: tuple[int, int]
    is_transposed: bool = False
    is_padded: bool = True

    @property
    def tile_type(self) -> str:
        """What is loaded."""
        rows, columns = self.tile
        return f"tile<{rows}x{columns}x{self.element}>"

    @property
    def tensor(self) -> str:
        """The view of the whole."""
        return f"tensor_view<?x?x{self.element}, strides=[?,1]>"

    @property
    def view(self) -> str:
        """The view of tiles."""
        rows, columns = self.tile
        padding = "padding_value = zero, " if self.is_padded else ""
        order = ", dim_map=[1, 0]" if self.is_transposed else ""
        return f"partition_view<tile=({rows}x{columns}), {padding}{self.tensor}{order}>"

    def lines(self, name: str) -> list[str]:
        """`%vNAME`, of a dense array that starts at a multiple of 16 bytes."""
        rows, columns = reversed(self.extents) if self.is_transposed else self.extents
        return [
            f"%p{name} = assume div_by<16>, %{name} : tile<ptr<{self.element}>>",
            f"%w{name} = make_tensor_view %p{name}, shape = [{rows}, {columns}], "
            f"strides = [{columns}, 1] : tile<i32> -> {self.tensor}",
            f"%v{name} = make_partition_view %w{name} : {self.view}",
        ]


@dataclass(frozen=True)
class ScaledGemm:
    """One form of the product; `b_transposed`: B and its scales are stored N by K; `scales_step`:
    rows of scales are known to have a multiple of it.
    """

    element: str
    scale: str
    block: int
    tile: tuple[int, int, int]
    b_transposed: bool = True
    scales_step: int = 1

    def _arrays(self) -> dict[str, _Array]:
        m, n, k = self.tile
        scales, transposed = k // self.block, self.b_transposed
        return {
            "a": _Array(self.element, ("%M", "%K"), (m, k)),
            "b": _Array(self.element, ("%K", "%N"), (k, n), transposed),
            "sa": _Array(self.scale, ("%M", "%S"), (m, scales)),
            "sb": _Array(self.scale, ("%S", "%N"), (scales, n), transposed),
            "c": _Array("f32", ("%M", "%N"), (m, n), is_padded=False),
        }

    def text(self) -> str:
        """The module; parameters a, b, scales of a, scales of b, c, then m, n, k, k / block."""
        arrays = self._arrays()
        total = arrays["c"].tile_type
        lines = [
            "%c0 = constant <i32: 0> : tile<i32>",
            "%c1 = constant <i32: 1> : tile<i32>",
            "%t0 = make_token : token",
            "%x, %y, %z = get_tile_block_id : tile<i32>",
            f"%zero = constant <f32: 0.0> : {total}",
            "%M = assume div_by<1>, %m : tile<i32>",
            "%N = assume div_by<32>, %n : tile<i32>",
            "%K = assume div_by<32>, %k : tile<i32>",
            f"%S = assume div_by<{self.scales_step}>, %s : tile<i32>",
        ]
        for name, array in arrays.items():
            lines += array.lines(name)
        lines += [
            f"%space:2 = get_index_space_shape %va : {arrays['a'].view} -> tile<i32>",
            "%sum = for %i in (%c0 to %space#1, step %c1) : tile<i32>",
            f"    iter_values(%before = %zero) -> ({total}) {{",
        ]
        for name, index in (("a", "%x, %i"), ("b", "%i, %y"), ("sa", "%x, %i"), ("sb", "%i, %y")):
            array = arrays[name]
            lines.append(
                f"%l{name}, %o{name} = load_view_tko weak %v{name}[{index}] token = %t0 : "
                f"{array.view}, tile<i32> -> {array.tile_type}, token"
            )
        kinds = ", ".join(arrays[name].tile_type for name in ("a", "b", "c", "sa", "sb"))
        lines += [
            f"%after = mmaf_scaled %la, %lb, %before, %lsa, %lsb : {kinds}",
            f"continue %after : {total}",
            "}",
            f"%stored = store_view_tko weak %sum, %vc[%x, %y] token = %t0 : {total}, "
            f"{arrays['c'].view}, tile<i32> -> token",
            "return",
        ]
        parameters = [f"%{name}: tile<ptr<{array.element}>>" for name, array in arrays.items()]
        parameters += [f"%{name}: tile<i32>" for name in "mnks"]
        body = "\n    ".join(lines)
        head = f"cuda_tile.module @m {{\n  entry @scaled({', '.join(parameters)})"
        return f"{head} {{\n    {body}\n  }}\n}}\n"

    def grid(self, extents: tuple[int, int, int]) -> tuple[int, int, int]:
        """A tile block for every tile of the result."""
        return -(-extents[0] // self.tile[0]), -(-extents[1] // self.tile[1]), 1

    def arguments(self, extents: tuple[int, int, int]) -> tuple[list[Any], np.ndarray]:
        """The arguments and the result in float64; n and k are multiples of 32.

        Values are multiples of 1/2 up to 4, scales of few bits around 1.
        """
        m, n, k = extents
        rng = np.random.default_rng(m + n + k)
        scales = k // self.block
        values = np.array([-4, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4])
        powers = [0.25, 0.5, 1, 2, 4] if self.scale == "f8E8M0FNU" else [0.5, 0.75, 1, 1.25, 2]
        a, b = rng.choice(values, (m, k)), rng.choice(values, (k, n))
        sa, sb = rng.choice(powers, (m, scales)), rng.choice(powers, (scales, n))
        wide_a, wide_b = a * np.repeat(sa, self.block, 1), b * np.repeat(sb, self.block, 0)
        wanted = wide_a @ wide_b
        if self.b_transposed:
            b, sb = b.T, sb.T
        memory: list[Any] = [self._bits(a, self.element), self._bits(b, self.element)]
        memory += [self._bits(sa, self.scale), self._bits(sb, self.scale)]
        memory.append(np.full((m, n), UNTOUCHED, np.float32))
        return [*memory, *(np.int32(size) for size in (*extents, scales))], wanted

    @staticmethod
    def _bits(values: np.ndarray, element: str) -> np.ndarray:
        """The bytes of an array; two elements of 4 bits share one, the even one in its low half."""
        bits = np.ascontiguousarray(values).astype(FORMATS[element]).view(np.uint8)
        if element != "f4E2M1FN":
            return bits
        return np.ascontiguousarray(bits[:, 0::2] & 15 | (bits[:, 1::2] & 15) << 4)
