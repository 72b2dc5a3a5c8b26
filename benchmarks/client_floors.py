"""The least time of each of the client's benchmarks on a GPU, from the sizes in its name.

The larger of: bytes that the work has to move / the memory's bandwidth; multiply-adds / the tensor
cores' rate; what an empty launch takes under the client's timer. Nothing is said of work that is
mostly Python (`moe`).
"""

from __future__ import annotations

from math import prod

RATES = {"f16": 798e12, "tf32": 399e12, "fp8": 1596e12}
"""Operations per second under load: those of `gpu/report.py`."""

BANDWIDTH = 4.17e12
"""Bytes per second: the copy that `make bench-gpu` measures on an H200."""

LAUNCH = 4.5e-6
"""Seconds that the client's timer (a graph of one launch between two events) has for a kernel that
fills four bytes, on an H200."""

ITEM_BYTES = {
    "f8e4m3fn": 1,
    "f8e5m2": 1,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "c32": 4,
    "c64": 8,
}
RATE_OF = {"f16": "f16", "bf16": "f16", "f32": "tf32", "f8e4m3fn": "fp8", "f8e5m2": "fp8"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
RESULT_BYTES = 4
"""Of an element of batched products of 8 bits."""


def number(word: str) -> int | None:
    """What a word of a name says, `8K` for one; None if it is no number."""
    digits, unit = (word[:-1], UNITS[word[-1]]) if word[-1:] in UNITS else (word, 1)
    return int(digits) * unit if digits.isdigit() else None


def floor_us(kind: str, work: str) -> float | None:
    """Microseconds that nothing can be faster than; None for work that this does not know."""
    words = work.split("-")
    dtype = next((word for word in words if word in ITEM_BYTES), None)
    sizes = [size for size in map(number, words) if size is not None]
    if dtype is None:
        return None
    found = bytes_and_operations(kind, words, sizes, ITEM_BYTES[dtype])
    if found is None:
        return None
    moved, operations = found
    seconds = moved / BANDWIDTH
    if operations:
        seconds = max(seconds, operations / RATES[RATE_OF[dtype]])
    return max(seconds, LAUNCH) * 1e6


def bytes_and_operations(
    kind: str, words: list[str], sizes: list[int], item: int
) -> tuple[int, int] | None:
    """Bytes that are read and written once, and operations of products."""
    match kind, sizes:
        case "vec_add", [count, *_]:
            return 3 * count * item, 0
        case "transpose" | "rms_norm", [rows, columns]:
            return 2 * rows * columns * item, 0
        case "fft", [batch, *lengths]:
            return 2 * batch * prod(lengths) * item, 0
        case "layer_norm", _:
            return (2 if "forward" in words else 3) * prod(sizes) * item, 0
        case "matmul" | "persistent_matmul" | "matmul_split_k", [m, n, k]:
            return (m * k + k * n + m * n) * item, 2 * m * n * k
        case "batch_matmul", [batch, m, n, k]:
            moved = (m * k + k * n) * item + m * n * RESULT_BYTES
            return batch * moved, 2 * batch * m * n * k
        case "fmha", [batch, heads, key_heads, queries, keys, depth]:
            moved = 2 * batch * (heads * queries + key_heads * keys) * depth * item
            operations = 4 * batch * heads * queries * keys * depth
            causal = queries == keys
            return moved, operations // 2 if causal else operations
        case _:
            return None
