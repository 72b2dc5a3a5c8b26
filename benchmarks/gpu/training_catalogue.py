"""What is measured of `training_kernels.py`: five sizes of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catalogue import ITEM_BYTES, Array, Entry, tiles

GATED = ((2048, 5632), (4096, 11008), (8192, 8192), (8192, 14336), (16384, 4096))
"""Tokens, and columns of a layer's hidden values."""
SCORES = ((2048, 32000), (4096, 50304), (8192, 32000), (4096, 128256), (16384, 4096))
"""Tokens, and words of a vocabulary."""
TABLES = ((32000, 4096, 8192), (128256, 4096, 16384), (50304, 768, 65536), (50304, 1024, 32768))
TABLES = (*TABLES, (1024, 2048, 32768))
"""Words, columns, and tokens."""
NORMS = (
    (1000, 4000, "float32"),
    (4096, 1024, "float32"),
    (2048, 8192, "float32"),
    (2048, 8192, "bfloat16"),
    (8192, 16384, "bfloat16"),
)
"""Rows, columns and elements of layer norms."""
LOCKS = 64
"""Rows in which the gradients of a layer norm's weights are summed up, each under a lock."""


def training() -> Iterator[Entry]:
    """Gated activations, losses of language models, and what reads and updates embeddings."""
    for rows, columns in GATED:
        arrays = (Array("float16", (rows, columns)),) * 2
        yield _entry("geglu", (*arrays, Array("float16", (rows, columns), "output")), 1024)
    for rows, columns in SCORES:
        targets = Array("int32", (rows,), f"below {columns}")
        arrays = (Array("float16", (rows, columns)), targets, Array("float32", (rows,), "output"))
        yield _entry("cross_entropy", arrays, 2048, grid=(rows, 1, 1))
    for words, columns, tokens in TABLES:
        indices = Array("int32", (tokens,), f"below {words}")
        table, rows = Array("float16", (words, columns)), Array("float16", (tokens, columns))
        out = Array("float16", (tokens, columns), "output")
        tile = min(columns, 1024) if columns % 1024 == 0 else 256
        moved = 2 * ITEM_BYTES["float16"] * tokens * columns
        yield _entry("embedding", (table, indices, out), tile, moved=moved)
        total = Array("float32", (words, columns), "sum")
        moved = tokens * columns * (ITEM_BYTES["float16"] + 2 * ITEM_BYTES["float32"])
        yield _entry("index_add", (rows, indices, total), tile, moved=moved, bytecode="13.3")
    yield from layer_norms_backward()


def layer_norms_backward() -> Iterator[Entry]:
    """Gradients of layer norms; the sums of the weights' gradients are what is checked."""
    for rows, columns, dtype in NORMS:
        sums = Array("float32", (LOCKS, columns), "sum")
        whole = Array(dtype, (rows, columns))
        row = Array("float32", (rows,))
        short = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        yield Entry(
            f"layer norm backward {short} {rows}x{columns} tile 1024",
            "memory",
            "layer_norm_backward",
            (
                sums,
                replace(sums, fill="zeros"),
                replace(whole, fill="zeros"),
                whole,
                whole,
                Array(dtype, (columns,)),
                row,
                row,
                Array("int32", (LOCKS,), "zeros"),
            ),
            (1024,),
            (rows, 1, 1),
            "layer_norm_backward",
            0,
            3 * ITEM_BYTES[dtype] * rows * columns,
        )


def _entry(
    kernel: str,
    arrays: tuple[Array, ...],
    tile: int,
    *,
    grid: tuple[int, int, int] | None = None,
    moved: int | None = None,
    bytecode: str = "13.2",
) -> Entry:
    """One kernel on a row, or a part of one, a block; `moved` bytes, all of all arrays if None."""
    rows, columns = arrays[0].shape if kernel != "embedding" else arrays[-1].shape
    sizes = "x".join(str(size) for size in arrays[0].shape)
    if kernel in ("embedding", "index_add"):
        sizes += f" {'of' if kernel == 'embedding' else 'into'} {arrays[-1].shape[0]}"
    if moved is None:
        moved = sum(array.shape[0] * array.strides[0] * ITEM_BYTES[array.dtype] for array in arrays)
    return Entry(
        f"{kernel.replace('_', ' ')} f16 {sizes} tile {tile}",
        "memory",
        kernel,
        arrays,
        (tile,),
        grid or (rows, tiles(columns, tile), 1),
        kernel,
        0,
        moved,
        bytecode=bytecode,
    )
