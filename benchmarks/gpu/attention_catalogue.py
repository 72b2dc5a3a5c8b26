"""What is measured of `attention_kernels.py`: variants of attention, and its gradients."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import ITEM_BYTES, Array, Entry, tiles

HEADS, LENGTH = 16, 8192
"""Of one sequence, where nothing else is said."""


def attention_variants() -> Iterator[Entry]:
    """Attention as models have it, with tiles that suit it."""
    yield _variant("soft cap 50", 128, cap=50)
    yield _variant("window 1024", 128, window=1024)
    yield _variant("ALiBi", 128, slopes=True)
    yield _variant("sinks, window 128", 64, heads=64, share=8, window=128, sinks=True)
    yield _variant("", 192, wide=128)
    yield _variant("", 256, (128, 64), causal=False)
    yield _variant("", 96, causal=False)
    yield _variant("", 32, heads=32, causal=False)
    yield _paged(32, 4096, 64)
    for batch, length in ((128, 1024), (132, 8192)):
        yield _latent(batch, length, (16, 64))
    for causal in (False, True):
        yield _queries_backward((128, 64), causal)
        yield _keys_backward((64, 128), causal)


def _variant(
    name: str,
    depth: int,
    tile: tuple[int, int] = (128, 128),
    *,
    wide: int | None = None,
    heads: int = HEADS,
    share: int = 1,
    causal: bool = True,
    window: int = 0,
    cap: int = 0,
    sinks: bool = False,
    slopes: bool = False,
) -> Entry:
    """A sequence's attention; tiles have the power of two of columns that holds the depth."""
    wide = wide or depth
    shape = (1, heads, LENGTH, depth)
    keys = Array("float16", (1, heads // share, LENGTH, depth))
    values = Array("float16", (1, heads // share, LENGTH, wide))
    pairs = LENGTH * (window or LENGTH // (2 if causal else 1))
    label = f"D={depth}" + (f"/{wide}" if wide != depth else "")
    kind = "causal" if causal else "full"
    words = f"{kind}, {name}" if name else kind
    return Entry(
        f"{label} 1x{heads}x{LENGTH}{f' GQA {share}' if share > 1 else ''} {words} "
        f"{tile[0]}x{tile[1]}",
        "attention variants",
        "variant_attention",
        (
            Array("float16", shape),
            keys,
            values,
            Array("float32", (heads,)),
            Array("float16", (1, heads, LENGTH, wide), "output"),
            depth**-0.5,
        ),
        (*tile, _power(depth), _power(wide), heads, share, causal, window, cap, sinks, slopes),
        (tiles(LENGTH, tile[0]), heads, 1),
        "variant_attention",
        2 * heads * pairs * (depth + wide),
        2 * LENGTH * (depth + wide) * (heads + heads // share),
    )


def _power(size: int) -> int:
    """The power of two at or above a size."""
    return 1 << (size - 1).bit_length()


def _paged(batch: int, length: int, page: int) -> Entry:
    """One new token, 64 query heads and 8 of keys; pages in an order of their own."""
    heads, share, depth = 8, 8, 128
    count = batch * length // page
    cache = Array("float16", (count, page, heads, depth))
    rows = (batch, heads, share, depth)
    return Entry(
        f"paged decode D={depth} {batch}x{heads * share}x{length} GQA {share} 16x{page}",
        "attention variants",
        "paged_decode",
        (
            Array("float16", rows),
            cache,
            cache,
            Array("int32", (batch, length // page), f"below {count}"),
            Array("float16", rows, "output"),
            depth**-0.5,
        ),
        (16, page, depth, heads),
        (batch * heads, 1, 1),
        "paged_decode",
        4 * batch * heads * share * length * depth,
        2 * 2 * batch * heads * length * depth,
    )


def _latent(batch: int, length: int, tile: tuple[int, int]) -> Entry:
    """One new token of 16 query heads, latent vectors of 512 elements and 64 rotated ones."""
    heads, depth, rope = 16, 512, 64
    return Entry(
        f"latent decode {depth}+{rope} {batch}x{heads}x{length} {tile[0]}x{tile[1]}",
        "attention variants",
        "latent_decode",
        (
            Array("float16", (batch, heads, depth)),
            Array("float16", (batch, heads, rope)),
            Array("float16", (batch, length, depth)),
            Array("float16", (batch, length, rope)),
            Array("float16", (batch, heads, depth), "output"),
            (depth + rope) ** -0.5,
        ),
        (*tile, depth, rope),
        (batch, heads // tile[0], 1),
        "latent_decode",
        2 * batch * heads * length * (2 * depth + rope),
        2 * batch * length * (depth + rope),
    )


def _backward(
    kernel: str, outputs: int, tile: tuple[int, int], causal: bool, products: int, block: int
) -> Entry:
    """Gradients of one sequence's attention, D = 128; `products` of its five are computed."""
    depth = 128
    shape = (1, HEADS, LENGTH, depth)
    array = Array("float16", shape)
    flops = 2 * products * HEADS * LENGTH * LENGTH * depth // (2 if causal else 1)
    return Entry(
        f"{kernel.replace('_', ' ')} D={depth} 1x{HEADS}x{LENGTH} "
        f"{'causal' if causal else 'full'} {tile[0]}x{tile[1]}",
        "attention variants",
        kernel,
        (
            *(array,) * 4,
            Array("float32", shape[:3], "around 14"),
            Array("float32", shape[:3]),
            *(Array("float16", shape, "output"),) * outputs,
            depth**-0.5,
        ),
        (*tile, depth, HEADS, causal),
        (tiles(LENGTH, block), HEADS, 1),
        kernel,
        flops,
        (4 + outputs) * ITEM_BYTES["float16"] * HEADS * LENGTH * depth,
    )


def _queries_backward(tile: tuple[int, int], causal: bool) -> Entry:
    return _backward("attention_queries_backward", 1, tile, causal, 3, tile[0])


def _keys_backward(tile: tuple[int, int], causal: bool) -> Entry:
    return _backward("attention_keys_backward", 2, tile, causal, 4, tile[1])
