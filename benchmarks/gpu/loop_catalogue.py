"""What is measured of `loop_kernels.py`: lists of matrices, other loops over K, routed tokens."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import (
    ITEM_BYTES,
    MOE_CHOSEN,
    MOE_EXPERTS,
    MOE_TILE,
    MOE_TOKENS,
    PERSISTENT_BLOCKS,
    Array,
    Entry,
    expert_counts,
    tiles,
)

MASK_SHARE = 2
"""Of so many tiles a mask keeps one, on average."""


def other_loops() -> Iterator[Entry]:
    """Products in loops that are not one `for` over K."""
    for tile, hints in (((128, 128, 128), {}), ((256, 256, 64), {"num_ctas": 2})):
        yield _lists(4, (2048, 2048, 2048), tile, hints)
    yield _batched(2, (2048, 2048, 2048), (128, 128, 64))
    for kernel in ("while", "break", "guarded", "masked"):
        yield _loop(kernel, (4096, 4096, 4096), (128, 128, 64))
    yield _routed("float16", (MOE_TILE, 128, 64))
    for tile in ((MOE_TILE, 128, 128), (MOE_TILE, 256, 128)):
        yield _routed("float8_e4m3fn", tile)


def _lists(
    count: int, size: tuple[int, int, int], tile: tuple[int, int, int], hints: dict[str, int]
) -> Entry:
    m, n, k = size
    blocks = PERSISTENT_BLOCKS // hints.get("num_ctas", 1)
    return Entry(
        f"f16 lists {count} of {m}x{n}x{k} {'x'.join(map(str, tile))}",
        "GEMM",
        "grouped_lists",
        (
            Array("float16", (count, m, k), listed=True),
            Array("float16", (count, k, n), listed=True),
            Array("float16", (count, m, n), "output", listed=True),
        ),
        (blocks, *tile),
        (blocks, 1, 1),
        "gemm",
        2 * count * m * n * k,
        2 * count * (m * k + k * n + m * n),
        hints=hints,
    )


def _batched(count: int, size: tuple[int, int, int], tile: tuple[int, int, int]) -> Entry:
    m, n, k = size
    return Entry(
        f"f16 batched {count}x{m}x{n}x{k} {'x'.join(map(str, tile))}",
        "GEMM",
        "batched_gemm",
        (
            Array("float16", (count, m, k)),
            Array("float16", (count, k, n)),
            Array("float16", (count, m, n), "output"),
        ),
        tile,
        (tiles(n, tile[1]), tiles(m, tile[0]), count),
        "gemm",
        2 * count * m * n * k,
        2 * count * (m * k + k * n + m * n),
    )


def _loop(kernel: str, size: tuple[int, int, int], tile: tuple[int, int, int]) -> Entry:
    m, n, k = size
    is_masked = kernel == "masked"
    mask = Array("int32", (tiles(m, tile[0]), tiles(k, tile[2])), f"below {MASK_SHARE}")
    return Entry(
        f"f16 {kernel} {m}x{n}x{k} {'x'.join(map(str, tile))}",
        "GEMM",
        f"{kernel}_gemm",
        (
            Array("float16", (m, k)),
            Array("float16", (k, n)),
            Array("float16", (m, n), "output"),
            *([mask] if is_masked else []),
        ),
        (*tile, 8),
        (tiles(m, tile[0]) * tiles(n, tile[1]), 1, 1),
        "masked_gemm" if is_masked else "gemm",
        2 * m * n * k // (MASK_SHARE if is_masked else 1),
        2 * (m * k + k * n + m * n),
    )


def _routed(dtype: str, tile: tuple[int, int, int]) -> Entry:
    """Experts on gathered tokens, in the client's order of blocks."""
    hidden, wide = 2048, 2816
    slots = MOE_TOKENS * MOE_CHOSEN
    row_tiles = sum(tiles(count, MOE_TILE) for count in expert_counts())
    size = ITEM_BYTES[dtype]
    name = "f16" if size == 2 else "fp8"
    return Entry(
        f"{name} routed experts 8192 tokens, 6 of 32 {'x'.join(map(str, tile))}",
        "GEMM",
        "routed_gemm",
        (
            Array(dtype, (MOE_TOKENS, hidden)),
            Array(dtype, (MOE_EXPERTS, wide, hidden)),
            Array("float16", (slots, wide), "output"),
            Array("int32", (row_tiles * MOE_TILE,), "slots"),
            Array("int32", (row_tiles,), "experts"),
        ),
        (MOE_CHOSEN, *tile),
        (tiles(wide, tile[1]) * row_tiles, 1, 1),
        "experts" if size == 2 else "fp8_experts",
        2 * slots * hidden * wide,
        size * (MOE_TOKENS * hidden + MOE_EXPERTS * hidden * wide) + 2 * slots * wide,
        name,
    )
