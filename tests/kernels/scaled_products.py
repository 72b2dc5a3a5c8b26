"""Kernels with block-scaled products, their arguments and what they should compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ScaledKernel:
    """A product of one tile: element types, elements a scale, (M, N, K); `batches` 0: rank 2."""

    element: str
    scale: str
    block: int
    shape: tuple[int, int, int]
    batches: int = 0

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"{self.element}-{self.scale}-{self.block}-{sizes}-{self.batches}"

    def tiles(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and element type of each tile, in the order of the arguments."""
        m, n, k = self.shape
        lead = (self.batches,) if self.batches else ()
        return {
            "a": ((*lead, m, k), self.element),
            "b": ((*lead, k, n), self.element),
            "sa": ((*lead, m, k // self.block), self.scale),
            "sb": ((*lead, k // self.block, n), self.scale),
            "c": ((*lead, m, n), "f32"),
        }


def product(kernel: ScaledKernel) -> str:
    """A kernel with one product; arguments a, b, scales of a, scales of b, and the sum."""
    lines, tiles, views = [], {}, {}
    for name, (shape, type_) in kernel.tiles().items():
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        sizes = "x".join(map(str, shape))
        tensor = f"tensor_view<{sizes}x{type_}, strides={strides}>".replace(" ", "")
        views[name] = f"partition_view<tile=({sizes}), {tensor}>"
        tiles[name] = f"tile<{sizes}x{type_}>"
        zeros = ", ".join(["%z"] * len(shape))
        lines += [
            f"%{name}_t = make_tensor_view %{name}, shape = {list(shape)}, "
            f"strides = {strides} : {tensor}",
            f"%{name}_v = make_partition_view %{name}_t : {views[name]}",
            f"%{name}_x, %{name}_k = load_view_tko weak %{name}_v[{zeros}] : {views[name]}, "
            f"tile<i32> -> {tiles[name]}, token",
        ]
    kinds = ", ".join(tiles[name] for name in ("a", "b", "c", "sa", "sb"))
    lines += [
        f"%r = mmaf_scaled %a_x, %b_x, %c_x, %sa_x, %sb_x : {kinds}",
        f"%w = store_view_tko weak %r, %c_v[{zeros}] token = %c_k : {tiles['c']}, {views['c']}, "
        "tile<i32> -> token",
    ]
    kept = ", ".join(f"%{name}: tile<ptr<{type_}>>" for name, (_, type_) in kernel.tiles().items())
    body = "\n ".join(["%z = constant <i32: 0> : tile<i32>", *lines])
    return f"cuda_tile.module @m {{ entry @k({kept}) {{ {body}\n return }} }}"


def arguments(kernel: ScaledKernel, seed: int = 7) -> list[np.ndarray]:
    """Arrays of bytes for operands and scales, of floats for the sum."""
    generator = np.random.default_rng(seed)
    return [_array(generator, shape, type_) for shape, type_ in kernel.tiles().values()]


def _array(generator: np.random.Generator, shape: tuple[int, ...], type_: str) -> np.ndarray:
    match type_:
        case "f32":
            return generator.integers(-4, 4, shape).astype(np.float32)
        case "f8E8M0FNU":
            return generator.integers(124, 131, shape).astype(np.uint8)
        case "f4E2M1FN":
            return generator.integers(0, 256, int(np.prod(shape)) // 2).astype(np.uint8)
        case _:
            signs = generator.integers(0, 2, shape).astype(np.uint8) << 7
            return generator.integers(0x30, 0x40, shape).astype(np.uint8) | signs
