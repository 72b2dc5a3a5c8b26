"""Instructions of a warp: shuffles, votes, matches, reductions, matrices, mma.sync, atomics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.gpu.ptx_machine.case import Case, load, make_case, store

WARPS = 4
THREADS = 32 * WARPS


def _words(rng: np.random.Generator, per_thread: int = 1) -> np.ndarray:
    return rng.integers(0, 1 << 32, THREADS * per_thread, np.uint32)


def exchange_cases() -> Iterator[Case]:
    """shfl, vote, match, redux, elect."""
    rng = np.random.default_rng(6)
    out = np.zeros(2 * THREADS, np.uint32)
    for mode, width in product(("up", "down", "bfly", "idx"), (32, 16, 8)):
        clamp = ((32 - width) << 8) | (0 if mode == "up" else 31)
        body = load("%r1", 1, 4) + load("%r2", 2, 4)
        body += f"shfl.sync.{mode}.b32 %r3|%q1, %r1, %r2, {clamp}, 0xffffffff;\n"
        body += "selp.b32 %r4, 1, 0, %q1;\n" + store("%r3", 4, 0, 2) + store("%r4", 4, 1, 2)
        amounts = rng.integers(0, 40, THREADS).astype(np.uint32)
        yield make_case(
            f"t_shfl_{mode}_{width}", body, [out.copy(), _words(rng), amounts], 1, THREADS
        )
    for name in (
        "add.u32",
        "add.s32",
        "min.u32",
        "min.s32",
        "max.u32",
        "max.s32",
        "and.b32",
        "or.b32",
        "xor.b32",
    ):
        body = load("%r1", 1, 4) + f"redux.sync.{name} %r3, %r1, 0xffffffff;\n"
        body += store("%r3", 4)
        yield make_case(
            f"t_redux_{name.replace('.', '_')}",
            body,
            [np.zeros(THREADS, np.uint32), _words(rng)],
            1,
            THREADS,
        )
    few = rng.integers(0, 5, THREADS).astype(np.uint32)
    body = load("%r1", 1, 4) + "setp.gt.u32 %q1, %r1, 1;\n"
    for i, name in enumerate(("all", "any", "uni")):
        body += f"vote.sync.{name}.pred %q2, %q1, 0xffffffff; selp.b32 %r{10 + i}, 1, 0, %q2;\n"
    body += "vote.sync.ballot.b32 %r13, %q1, 0xffffffff; activemask.b32 %r14;\n"
    body += "match.any.sync.b32 %r15, %r1, 0xffffffff;\n"
    body += "match.all.sync.b32 %r16|%q3, %r1, 0xffffffff; selp.b32 %r17, 1, 0, %q3;\n"
    body += "".join(store(f"%r{10 + i}", 4, i, 8) for i in range(8))
    yield make_case("t_votes", body, [np.zeros(8 * THREADS, np.uint32), few], 1, THREADS)


def matrix_memory_cases() -> Iterator[Case]:
    """ldmatrix, stmatrix, movmatrix on random bytes of shared memory."""
    rng = np.random.default_rng(7)
    for count, trans in product((1, 2, 4), ("", ".trans")):
        registers = ", ".join(f"%r{10 + i}" for i in range(count))
        shared = f".shared .align 16 .b8 s_{count}{trans[1:]}[{THREADS * 16}];\n"
        name = f"s_{count}{trans[1:]}"
        body = "mov.u32 %r2, " + name + "; shl.b32 %r3, %i, 4; add.u32 %r4, %r2, %r3;\n"
        for i in range(4):
            body += load("%r5", 1, 4, i, 4) + f"st.shared.b32 [%r4+{4 * i}], %r5;\n"
        body += "bar.sync 0;\n"
        body += load("%r6", 2, 4) + "shl.b32 %r6, %r6, 4; add.u32 %r7, %r2, %r6;\n"
        body += f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r7];\n"
        body += "".join(store(f"%r{10 + i}", 4, i, count) for i in range(count))
        rows = rng.permutation(THREADS).astype(np.uint32)
        yield make_case(
            f"t_ldmatrix_x{count}{trans[1:]}",
            body,
            [np.zeros(count * THREADS, np.uint32), _words(rng, 4), rows],
            1,
            THREADS,
            shared,
        )
        body = "mov.u32 %r2, " + name + "; shl.b32 %r3, %i, 4; add.u32 %r4, %r2, %r3;\n"
        body += "".join(f"st.shared.b32 [%r4+{4 * i}], 0;\n" for i in range(4)) + "bar.sync 0;\n"
        body += "".join(load(f"%r{10 + i}", 1, 4, i, count) for i in range(count))
        body += load("%r6", 2, 4) + "shl.b32 %r6, %r6, 4; add.u32 %r7, %r2, %r6;\n"
        body += f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r7], {{{registers}}};\n"
        body += "bar.sync 0;\n"
        for i in range(4):
            body += f"ld.shared.b32 %r5, [%r4+{4 * i}];\n" + store("%r5", 4, i, 4)
        yield make_case(
            f"t_stmatrix_x{count}{trans[1:]}",
            body,
            [np.zeros(4 * THREADS, np.uint32), _words(rng, count), rows],
            1,
            THREADS,
            shared,
        )
    body = load("%r1", 1, 4) + "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n"
    body += store("%r2", 4)
    yield make_case("t_movmatrix", body, [np.zeros(THREADS, np.uint32), _words(rng)], 1, THREADS)


_PRODUCTS: tuple[tuple[str, str, str, str], ...] = (
    ("m16n8k8", "f16", "f16", "f32"),
    ("m16n8k16", "f16", "f16", "f32"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "bf16", "bf16", "f32"),
    ("m16n8k16", "bf16", "bf16", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"),
    ("m16n8k8", "tf32", "tf32", "f32"),
    ("m16n8k16", "s8", "s8", "s32"),
    ("m16n8k32", "s8", "u8", "s32"),
    ("m16n8k32", "u8", "s8", "s32"),
    ("m8n8k16", "s8", "s8", "s32"),
    ("m16n8k32", "s4", "s4", "s32"),
    ("m16n8k64", "u4", "s4", "s32"),
    ("m8n8k32", "u4", "u4", "s32"),
    ("m16n8k32", "e4m3", "e4m3", "f32"),
    ("m16n8k32", "e5m2", "e4m3", "f32"),
)
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "e4m3": 8,
    "e5m2": 8,
}


def small_values(rng: np.random.Generator, kind: str, words: int) -> np.ndarray:
    """Words of small values, so that sums are exact in any order."""
    import ml_dtypes

    count = words * 32 // _BITS[kind]
    if kind in ("s8", "u8", "s4", "u4"):
        return rng.integers(0, 256, 4 * words).astype(np.uint8).view(np.uint32)
    numbers = rng.integers(-8, 9, count) / 4
    dtypes = {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "tf32": np.float32,
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
    }
    if kind in ("e5m2",):
        numbers = rng.integers(-4, 5, count) / 4
    return numbers.astype(dtypes[kind]).view(np.uint32)


def product_cases() -> Iterator[Case]:
    """mma.sync of every type of Hopper, with exact sums."""
    rng = np.random.default_rng(8)
    for shape, a, b, c in _PRODUCTS:
        m, k = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
        in_a, in_b = m * k * _BITS[a] // 1024, 8 * k * _BITS[b] // 1024
        in_c = m // 4 // (2 if c == "f16" else 1)
        first = 10 + in_a
        names = [f"%r{i}" for i in range(10, first + in_b + in_c)]
        body = "".join(load(names[i], 1, 4, i, in_a) for i in range(in_a))
        body += "".join(load(names[in_a + i], 2, 4, i, in_b) for i in range(in_b))
        body += "".join(load(names[in_a + in_b + i], 3, 4, i, in_c) for i in range(in_c))
        groups = (names[:in_a], names[in_a : in_a + in_b], names[in_a + in_b :])
        joined = [f"{{{', '.join(group)}}}" for group in groups]
        results = [f"%r{100 + i}" for i in range(in_c)]
        body += f"mma.sync.aligned.{shape}.row.col.{c}.{a}.{b}.{c} {{{', '.join(results)}}}, "
        body += f"{joined[0]}, {joined[1]}, {joined[2]};\n"
        body += "".join(store(results[i], 4, i, in_c) for i in range(in_c))
        c_kind = {"f16": "f16", "f32": "tf32", "s32": "s8"}[c]
        arrays = [
            small_values(rng, a, THREADS * in_a),
            small_values(rng, b, THREADS * in_b),
            small_values(rng, c_kind, THREADS * in_c),
        ]
        yield make_case(
            f"t_mma_{shape}_{a}_{b}_{c}",
            body,
            [np.zeros(in_c * THREADS, np.uint32), *arrays],
            1,
            THREADS,
        )


def atomic_cases() -> Iterator[Case]:
    """Atomics of shared and global memory whose results do not depend on the order."""
    rng = np.random.default_rng(9)
    for op in ("add.u32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32"):
        body = load("%r1", 2, 4) + load("%r2", 1, 4)
        body += "mad.wide.u32 %d1, %r2, 4, %p0;\n" + f"red.global.{op} [%d1], %r1;\n"
        places = rng.integers(0, 7, THREADS).astype(np.uint32)
        start = _words(rng)[:8]
        yield make_case(
            f"t_red_{op.replace('.', '_')}", body, [start, places, _words(rng)], 1, THREADS
        )
    body = load("%r1", 1, 4) + load("%r3", 2, 4)
    body += "mad.wide.u32 %d1, %i, 4, %p3;\natom.global.cas.b32 %r2, [%d1], %r1, %r3;\n"
    body += "ld.global.b32 %r4, [%d1]; xor.b32 %r2, %r2, %r4;\n" + store("%r2", 4)
    wanted = _words(rng)
    memory = wanted.copy()
    memory[::3] ^= 1
    yield make_case(
        "t_cas", body, [np.zeros(THREADS, np.uint32), wanted, _words(rng), memory], 1, THREADS
    )


def cases() -> Iterator[Case]:
    """All of this file."""
    yield from exchange_cases()
    yield from matrix_memory_cases()
    yield from product_cases()
    yield from atomic_cases()
