"""What is measured: kernels, shapes, grids and the work they do. Plain data; imports nothing else.

The manifest that `prepare.py` writes holds these entries as JSON, so that `run.py` needs neither
the client nor this file to agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

PERSISTENT_BLOCKS = 132
"""One block for each multiprocessor of an H100 SXM."""

GROUP_TILES = (3, 17, 8, 1, 12, 9, 6, 8)
"""Tiles of rows of the groups of a grouped product."""
MOE_EXPERTS, MOE_CHOSEN, MOE_TOKENS, MOE_TILE = 32, 6, 8192, 128

ITEM_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "int8": 1,
    "int32": 4,
}


@dataclass(frozen=True)
class Array:
    """An array argument. `fill` says what the worker puts in it; "output" is what is checked.

    A "sum" is an output that the kernel adds to: zero at first, and more with every launch. "below
    N" is random integers less than N, "roots N" powers of the N-th root of unity as pairs.

    `order` lists the dims from slowest to fastest; empty is row-major. A `listed` array is passed
    as a list of arrays, one for each index of its first dim.
    """

    dtype: str
    shape: tuple[int, ...]
    fill: str = "normal"
    order: tuple[int, ...] = ()
    listed: bool = False

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dim."""
        strides = [0] * len(self.shape)
        step = 1
        for dim in reversed(self.order or tuple(range(len(self.shape)))):
            strides[dim] = step
            step *= self.shape[dim]
        return tuple(strides)


@dataclass(frozen=True)
class Entry:
    """One measurement: a kernel on arguments, its work, and what it is compared with.

    `flops` and `bytes` are what the task needs, not what the kernel does; `rate` names the
    arithmetic's rate in the floor.
    """

    name: str
    group: str
    kernel: str
    arguments: tuple[Array | int | float, ...]
    constants: tuple[int | bool, ...]
    grid: tuple[int, int, int]
    reference: str
    flops: int
    bytes: int
    rate: str = "f16"
    hints: dict[str, int] = field(default_factory=dict[str, int])
    bytecode: str = "13.2"


def tiles(size: int, tile: int) -> int:
    """How many tiles cover a size."""
    return -(-size // tile)


def _gemm(
    name: str,
    size: tuple[int, int, int],
    tile: tuple[int, int, int],
    dtype: str = "float16",
    *,
    kernel: str = "gemm",
    rate: str = "f16",
    out: str | None = None,
    depth_first: bool = False,
    rows_first: bool = False,
    blocks: int | None = None,
    hints: dict[str, int] | None = None,
) -> Entry:
    """A product of two matrices.

    `depth_first` stores b with its depth contiguous, `rows_first` a with its rows.
    """
    (m, n, k), (tm, tn, tk) = size, tile
    a = Array(dtype, (m, k), order=(1, 0) if rows_first else ())
    b = Array(dtype, (k, n), order=(1, 0) if depth_first else ())
    c = Array(out or dtype, (m, n), "output")
    count = tiles(m, tm) * tiles(n, tn)
    return Entry(
        f"{name} {tm}x{tn}x{tk}",
        "GEMM",
        kernel,
        (a, b, c),
        (*tile, 8),
        (min(count, blocks or count), 1, 1),
        "gemm",
        2 * m * n * k,
        (m * k + k * n) * ITEM_BYTES[dtype] + m * n * ITEM_BYTES[c.dtype],
        rate,
        hints or {},
    )


def plain_gemms() -> Iterator[Entry]:
    """Products of f16 and bf16 matrices: tiles, sizes, clusters, persistent."""
    big = (8192, 8192, 8192)
    for tile in ((128, 128, 64), (64, 256, 64), (128, 256, 64), (256, 128, 64), (256, 256, 64)):
        yield _gemm("f16 8192^3", big, tile)
    for tile in ((128, 128, 64), (128, 256, 64)):
        yield _gemm("bf16 8192^3", big, tile, "bfloat16")
    for tile in ((128, 128, 64), (128, 256, 64)):
        yield _gemm(
            "f16 8192^3 persistent",
            big,
            tile,
            kernel="persistent_gemm",
            blocks=PERSISTENT_BLOCKS,
        )
    yield _gemm("f16 8192^3 2 CTAs", big, (256, 128, 64), hints={"num_ctas": 2})
    for tile in ((128, 128, 64), (128, 256, 64)):
        yield _gemm("f16 4096^3", (4096, 4096, 4096), tile)
        yield _gemm("f16 12288x4096x2560", (12288, 4096, 2560), tile)
    for tile in ((128, 128, 64), (64, 128, 64)):
        yield _gemm("f16 1024^3", (1024, 1024, 1024), tile)


def other_gemms() -> Iterator[Entry]:
    """Products in other types and forms."""
    big = (8192, 8192, 8192)
    for tile in ((128, 128, 32), (128, 256, 32)):
        yield _gemm("tf32 8192^3", big, tile, "float32", rate="tf32")
        yield _gemm(
            "tf32 column-major a 8192^3", big, tile, "float32", rate="tf32", rows_first=True
        )
    for tile in ((128, 128, 32), (128, 64, 32), (64, 64, 32)):
        size = (4096, 4096, 4096)
        exact = _gemm("f32 4096^3", size, tile, "float32", kernel="f32_gemm", rate="f32")
        yield replace(exact, reference="f32_gemm")
    for rows in (16, 32):
        yield _gemm(f"f16 {rows}x8192x8192", (rows, 8192, 8192), (rows, 128, 64))
    yield from _split_gemms()
    yield _batched("f16 batched 8x4096x4096x2048", "float16", (8, 4096, 4096, 2048), (128, 256, 64))
    for name, order in (("", (0, 2, 1)), (" row-major b", ())):
        yield _batched(
            f"fp8 batched{name} 8x12288x4096x2560",
            "float8_e4m3fn",
            (8, 12288, 4096, 2560),
            (128, 256, 128),
            order=order,
        )
    for name, is_depth_first in (("", True), (" row-major b", False)):
        yield _gemm(
            f"int8{name} 8192^3",
            big,
            (128, 256, 128),
            "int8",
            kernel="integer_gemm",
            rate="int8",
            out="int32",
            depth_first=is_depth_first,
        )
    for tile in ((128, 128, 64), (128, 256, 64)):
        yield _grouped(tile)
    yield _experts()


def _split_gemms() -> Iterator[Entry]:
    """Products of small matrices along a large depth, which several tile blocks share."""
    for m, n, k, parts in ((256, 256, 4096, 4), (128, 128, 8192, 16)):
        tile = (64, 64, 64)
        count = tiles(m, 64) * tiles(n, 64)
        locks = Array("int32", (count,), "zeros")
        plain = _gemm(f"f16 split-K {m}x{n}x{k}", (m, n, k), tile)
        yield Entry(
            plain.name,
            "GEMM",
            "split_gemm",
            (*plain.arguments, locks, locks),
            (*plain.constants, parts),
            (count, parts, 1),
            "split_gemm",
            plain.flops,
            plain.bytes,
        )
        yield Entry(
            f"f16 split-K by atomics {m}x{n}x{k} 64x64x64",
            "GEMM",
            "split_gemm_atomic",
            (*plain.arguments[:2], Array("float32", (m, n), "sum")),
            (*plain.constants, parts),
            (count, parts, 1),
            "split_gemm",
            plain.flops,
            plain.bytes + m * n * (ITEM_BYTES["float32"] - ITEM_BYTES["float16"]),
            bytecode="13.3",
        )


def _batched(
    name: str,
    dtype: str,
    size: tuple[int, int, int, int],
    tile: tuple[int, int, int],
    order: tuple[int, ...] = (),
) -> Entry:
    (batch, m, n, k), (tm, tn, tk) = size, tile
    out = "float16"
    return Entry(
        f"{name} {tm}x{tn}x{tk}",
        "GEMM",
        "batched_gemm",
        (
            Array(dtype, (batch, m, k)),
            Array(dtype, (batch, k, n), order=order),
            Array(out, (batch, m, n), "output"),
        ),
        tile,
        (tiles(n, tn), tiles(m, tm), batch),
        "gemm",
        2 * batch * m * n * k,
        batch * ((m + n) * k * ITEM_BYTES[dtype] + m * n * 2),
        "fp8" if ITEM_BYTES[dtype] == 1 else "f16",
    )


def _grouped(tile: tuple[int, int, int]) -> Entry:
    """Products of uneven groups of rows with a matrix each; the library has one matrix for all."""
    rows, (n, k) = sum(GROUP_TILES) * tile[0], (4096, 4096)
    count = sum(GROUP_TILES) * tiles(n, tile[1])
    return Entry(
        f"f16 {len(GROUP_TILES)} groups {rows}x{n}x{k} {tile[0]}x{tile[1]}x{tile[2]}",
        "GEMM",
        "grouped_gemm",
        (
            Array("float16", (rows, k)),
            Array("float16", (len(GROUP_TILES), k, n)),
            Array("float16", (rows, n), "output"),
            Array("int32", (sum(GROUP_TILES),), "groups"),
        ),
        (*tile, 8),
        (min(count, PERSISTENT_BLOCKS), 1, 1),
        "grouped_gemm",
        2 * rows * n * k,
        2 * (rows * k + len(GROUP_TILES) * n * k + rows * n),
    )


def expert_counts() -> list[int]:
    """How many slots each expert gets: uneven, all slots in all."""
    even = MOE_TOKENS * MOE_CHOSEN // MOE_EXPERTS
    counts = [even + 64 * (expert % 3 - 1) for expert in range(MOE_EXPERTS)]
    counts[-1] += MOE_TOKENS * MOE_CHOSEN - sum(counts)
    return counts


def _experts() -> Entry:
    """A layer of experts on gathered tokens; slots are padded to whole tiles for each expert."""
    hidden, wide = 2048, 2816
    slots = MOE_TOKENS * MOE_CHOSEN
    row_tiles = sum(tiles(count, MOE_TILE) for count in expert_counts())
    tile = (MOE_TILE, 128, 64)
    return Entry(
        "f16 experts 8192 tokens, 6 of 32, 2048 to 2816",
        "GEMM",
        "expert_gemm",
        (
            Array("float16", (MOE_TOKENS, hidden)),
            Array("float16", (MOE_EXPERTS, wide, hidden)),
            Array("float16", (slots, wide), "output"),
            Array("int32", (row_tiles * MOE_TILE,), "slots"),
            Array("int32", (row_tiles,), "experts"),
        ),
        (MOE_CHOSEN, *tile),
        (tiles(wide, 128), row_tiles, 1),
        "experts",
        2 * slots * hidden * wide,
        2 * (MOE_TOKENS * hidden + MOE_EXPERTS * hidden * wide + slots * wide),
    )


def _attention(
    shape: tuple[int, int, int, int],
    tile: tuple[int, int],
    causal: bool,
    *,
    share: int = 1,
    occupancy: int = 1,
    dtype: str = "float16",
) -> Entry:
    """Attention of (batch, heads, length, depth), as many keys as queries; the result is f16."""
    batch, heads, length, depth = shape
    small = Array(dtype, (batch, heads // share, length, depth))
    is_small = ITEM_BYTES[dtype] == 1
    flops = 4 * batch * heads * length * length * depth // (2 if causal else 1)
    label = f"{'fp8 ' if is_small else ''}D={depth} {batch}x{heads}x{length}" + (
        f" GQA {share}" if share > 1 else ""
    )
    return Entry(
        f"{label} {'causal' if causal else 'full'} {tile[0]}x{tile[1]}",
        "attention",
        "attention",
        (Array(dtype, shape), small, small, Array("float16", shape, "output"), depth**-0.5),
        (*tile, depth, heads, share, causal),
        (tiles(length, tile[0]), batch * heads, 1),
        "causal_attention" if causal else "attention",
        flops,
        batch * heads * length * depth * (3 * ITEM_BYTES[dtype] + 2),
        "fp8" if is_small else "f16",
        hints={"occupancy": occupancy},
    )


def attentions() -> Iterator[Entry]:
    """Forward attention: tiles, head sizes, shared keys, decoding."""
    big = (1, 16, 8192, 128)
    for tile, occupancy in (((64, 128), 2), ((64, 64), 2), ((128, 64), 1), ((128, 128), 1)):
        for causal in (False, True):
            yield _attention(big, tile, causal, occupancy=occupancy)
    yield _attention(big, (256, 128), False)
    yield _attention(big, (64, 256), False)
    yield _attention((1, 16, 16384, 128), (128, 128), False)
    yield _attention((4, 32, 2048, 128), (128, 128), False)
    for causal in (False, True):
        yield _attention((1, 32, 8192, 64), (128, 128), causal)
    yield _attention((1, 32, 8192, 128), (128, 128), True, share=8)
    for causal in (False, True):
        yield _attention(big, (128, 128), causal, dtype="float8_e4m3fn")
    for batch, length, keys in ((64, 4096, 128), (32, 4096, 64), (8, 16384, 64)):
        yield _decode(batch, length, keys)


def _decode(batch: int, length: int, keys: int) -> Entry:
    """Attention of one new token; a tile block for each of eight key heads of a sequence."""
    heads, share, depth = 8, 8, 128
    cache = Array("float16", (batch, heads, length, depth))
    rows = (batch, heads, share, depth)
    return Entry(
        f"decode D={depth} {batch}x{heads * share}x{length} GQA {share} 16x{keys}",
        "attention",
        "decode",
        (Array("float16", rows), cache, cache, Array("float16", rows, "output"), depth**-0.5),
        (16, keys, depth, heads),
        (batch * heads, 1, 1),
        "attention",
        4 * batch * heads * share * length * depth,
        2 * 2 * batch * heads * length * depth,
    )


def memory_bound() -> Iterator[Entry]:
    """Kernels whose floor is memory."""
    count = 1 << 26
    vector = Array("float32", (count,))
    yield Entry(
        "vector add f32 2^26",
        "memory",
        "vector_add",
        (vector, vector, Array("float32", (count,), "output")),
        (1024,),
        (tiles(count, 1024), 1, 1),
        "vector_add",
        count,
        3 * 4 * count,
    )
    yield _rows("row softmax f16", "row_softmax", (65536, 4096), (1, 4096), "float16", "softmax")
    yield _rows("rms norm f16", "rms_norm", (65536, 1024), (1024,), "float16", "rms_norm")
    yield _rows(
        "rms norm, pointers, f16", "rms_norm_gather", (65536, 1024), (1024,), "float16", "rms_norm"
    )
    for rows, blocks in ((4, 264), (16, 132)):
        entry = _rows(
            f"rms norm f16 persistent {rows} rows",
            "persistent_rms_norm",
            (65536, 1024),
            (rows, 1024),
            "float16",
            "rms_norm",
        )
        yield replace(entry, grid=(blocks, 1, 1))
    yield _rows(
        "chunked softmax f16", "chunked_softmax", (8192, 32768), (2048,), "float16", "softmax"
    )
    for shape, tile in (((65536, 16384), 4096), ((1000, 4000), 4096)):
        yield _rows("layer norm bf16", "layer_norm", shape, (tile,), "bfloat16", "layer_norm")
    for rows, columns in ((8192, 16384), (8192, 4096), (2048, 65536), (65536, 2048), (32768, 1024)):
        yield Entry(
            f"column sums f16 {rows}x{columns} 64x128",
            "memory",
            "column_sums",
            (Array("float16", (rows, columns)), Array("float32", (columns,), "output")),
            (64, 128),
            (columns // 128, 1, 1),
            "column_sums",
            0,
            2 * rows * columns,
        )
    rows, columns = 12288, 4096
    yield Entry(
        "transpose f16 12288x4096 64x64",
        "memory",
        "transpose",
        (Array("float16", (rows, columns)), Array("float16", (columns, rows), "output")),
        (64, 64),
        (columns // 64, rows // 64, 1),
        "transpose",
        0,
        4 * rows * columns,
    )


def _rows(
    name: str,
    kernel: str,
    shape: tuple[int, int],
    constants: tuple[int, ...],
    dtype: str,
    reference: str,
) -> Entry:
    """A kernel that normalises rows; weights are vectors of a row's length."""
    vectors = {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[reference]
    weights = (Array(dtype, (shape[1],)),) * vectors
    eps = (1e-5,) if vectors else ()
    return Entry(
        f"{name} {shape[0]}x{shape[1]}",
        "memory",
        kernel,
        (Array(dtype, shape), *weights, Array(dtype, shape, "output"), *eps),
        constants,
        (shape[0], 1, 1),
        reference,
        0,
        2 * ITEM_BYTES[dtype] * shape[0] * shape[1],
    )


def entries() -> list[Entry]:
    """Everything, in the order of the report."""
    from attention_catalogue import attention_variants
    from axis_catalogue import scans_and_extremes
    from elementwise_catalogue import elementwise
    from loop_catalogue import other_loops
    from training_catalogue import training
    from transform_catalogue import transforms

    rows = [*memory_bound(), *elementwise(), *training(), *transforms()]
    rows += scans_and_extremes()
    products = [*plain_gemms(), *other_gemms(), *other_loops()]
    return [*products, *attentions(), *attention_variants(), *rows]
