"""wgmma with every layout of its descriptors, and TMA with maps built on the device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.gpu.ptx_machine.case import Case, load, make_case, store
from tests.gpu.ptx_machine.warp_cases import small_values

THREADS = 128
A_BYTES, B_BYTES = 16384, 32768 - 2048
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def _fill(array: int, words: int, base: str) -> str:
    """Copies `words` words of an array to shared memory at a register, by all threads."""
    body = ""
    for i in range(0, words, THREADS):
        body += f"ld.global.b32 %r5, [%d10+{4 * i}]; st.shared.b32 [{base}+{4 * i}], %r5;\n"
    return f"mad.wide.u32 %d10, %i, 4, %p{array};\n" + body


def _descriptor(register: str, base: str, width: int, leading: int, stride: int) -> str:
    """Builds a descriptor of the matrix at the 32-bit shared address in `base`."""
    high = (leading // 16) << 16 | (stride // 16) << 32 | _MODES[width] << 62
    return (
        f"shr.u32 %r6, {base}, 4; and.b32 %r6, %r6, 0x3fff; cvt.u64.u32 {register}, %r6;\n"
        f"or.b64 {register}, {register}, {high};\n"
    )


def _strides(width: int, rows: int, is_mn: bool) -> tuple[int, int]:
    """Leading and stride byte offsets of a dense canonical layout of 16-bit elements."""
    if not is_mn:
        return (rows * 16, 128) if width == 0 else (16, 8 * width)
    if width == 0:
        return rows // 8 * 128, 128
    return 16 * width, 8 * width


def wgmma_cases() -> Iterator[Case]:
    """Products from shared memory and from registers, every swizzle and both majors."""
    rng = np.random.default_rng(10)
    kinds = (("f16", "f32"), ("bf16", "f32"), ("f16", "f16"))
    for (kind, result), width, majors in product(
        kinds, (0, 32, 64, 128), ((0, 0), (0, 1), (1, 0), (1, 1))
    ):
        yield _wgmma(rng, kind, result, width, majors, 64)
    for kind, result in (
        ("tf32", "f32"),
        ("e4m3", "f32"),
        ("e5m2", "f16"),
        ("s8", "s32"),
        ("u8", "s32"),
    ):
        for width in (0, 32, 64, 128):
            yield _wgmma(rng, kind, result, width, (0, 0), 64)
    for n in (8, 24, 96, 128):
        yield _wgmma(rng, "f16", "f32", 128, (0, 0), n)
    for kind, n in (("f16", 64), ("bf16", 32), ("e4m3", 64), ("tf32", 16), ("s8", 32)):
        yield _wgmma(rng, kind, "s32" if kind == "s8" else "f32", 64, (0, 0), n, True)


def _wgmma(
    rng: np.random.Generator,
    kind: str,
    result: str,
    width: int,
    majors: tuple[int, int],
    n: int,
    from_registers: bool = False,
) -> Case:
    depth = {"tf32": 8, "f16": 16, "bf16": 16}.get(kind, 32)
    registers = n // 4 if result == "f16" else n // 2
    name = f"t_wgmma_{kind}_{result}_{width}_{majors[0]}{majors[1]}_n{n}"
    name += "_rs" if from_registers else ""
    shared = f".shared .align 1024 .b8 s_{name}[{A_BYTES + B_BYTES}];\n"
    body = f"mov.u32 %r1, s_{name}; shl.b32 %r2, %i, 2; add.u32 %r3, %r1, %r2;\n"
    body += _fill(1, A_BYTES // 4, "%r3")
    body += f"add.u32 %r4, %r3, {A_BYTES};\n" + _fill(2, B_BYTES // 4, "%r4")
    body += "fence.proxy.async; bar.sync 0;\n"
    body += _descriptor("%d1", "%r1", width, *_strides(width, 64, bool(majors[0])))
    body += f"add.u32 %r7, %r1, {A_BYTES};\n"
    body += _descriptor("%d2", "%r7", width, *_strides(width, n, bool(majors[1])))
    results = [f"%r{100 + i}" for i in range(registers)]
    body += "".join(load(r, 3, 4, i, registers) for i, r in enumerate(results))
    a = "%d1"
    if from_registers:
        body += "".join(load(f"%r{20 + i}", 4, 4, i, 4) for i in range(4))
        a = "{%r20, %r21, %r22, %r23}"
    body += "setp.eq.u32 %q1, %r1, %r1;\nwgmma.fence.sync.aligned;\n"
    tail = ""
    if kind not in ("s8", "u8"):
        tail = ", 1, 1"
        if kind in ("f16", "bf16"):
            tail += f", {majors[1]}" if from_registers else f", {majors[0]}, {majors[1]}"
    body += f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{result}.{kind}.{kind} "
    body += f"{{{', '.join(results)}}}, {a}, %d2, %q1{tail};\n"
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
    body += "".join(store(r, 4, i, registers) for i, r in enumerate(results))
    start = {"f16": "f16", "f32": "tf32", "s32": "s8"}[result]
    arrays = [
        np.zeros(registers * THREADS, np.uint32),
        small_values(rng, kind, A_BYTES // 4),
        small_values(rng, kind, B_BYTES // 4),
        small_values(rng, start, registers * THREADS),
        small_values(rng, kind, 4 * THREADS),
    ]
    return make_case(name, body, arrays, 1, THREADS, shared)


_ELEMENTS = {
    "u8": (0, 1),
    "u16": (1, 2),
    "s32": (3, 4),
    "f16": (6, 2),
    "f32": (7, 4),
    "bf16": (10, 2),
}
_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}


def _map(element: str, shape: list[int], box: list[int], swizzle: int, nan: bool) -> str:
    """Builds a map of array 1 in shared memory at %r30 and copies it to array 2."""
    code, size = _ELEMENTS[element]
    fields = [
        ("rank", None, len(shape) - 1),
        ("elemtype", None, code),
        ("interleave_layout", None, 0),
        ("swizzle_mode", None, _SWIZZLE[swizzle]),
        ("fill_mode", None, int(nan)),
    ]
    for axis, (extent, side) in enumerate(zip(shape, box)):
        fields += [
            ("box_dim", axis, side),
            ("global_dim", axis, extent),
            ("element_stride", axis, 1),
        ]
    step = size
    text = "setp.eq.u32 %q5, %i, 0;\nshl.b32 %r31, %i, 2; add.u32 %r31, %r30, %r31;\n"
    text += "setp.lt.u32 %q6, %i, 32; @%q6 st.shared.b32 [%r31], 0; bar.sync 0;\n"
    prefix, suffix = "@%q5 tensormap.replace.tile.", ".shared::cta.b1024"
    text += f"{prefix}global_address{suffix}.b64 [%r30], %p1;\n"
    for name, axis, value in fields:
        place = "" if axis is None else f" {axis},"
        text += f"{prefix}{name}{suffix}.b32 [%r30],{place} {value};\n"
    for axis, extent in enumerate(shape[:-1]):
        step *= extent
        text += f"mov.b64 %d40, {step}; {prefix}global_stride{suffix}.b64 [%r30], {axis}, %d40;\n"
    text += "bar.sync 0;\nsetp.lt.u32 %q6, %i, 32;\n"
    text += "@%q6 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
    text += ".sync.aligned [%p2], [%r30], 128;\n"
    text += "fence.proxy.tensormap::generic.acquire.gpu [%p2], 128;\nbar.sync 0;\n"
    return text


def tma_cases() -> Iterator[Case]:
    """Tensor loads, stores and reductions: swizzles, edges, ranks, element types."""
    rng = np.random.default_rng(11)
    for swizzle, element in product((0, 32, 64, 128), ("u8", "f16", "f32")):
        inner = (swizzle or 64) // _ELEMENTS[element][1]
        unit = 16 // _ELEMENTS[element][1]
        for at in ((0, 0), (-unit, 5), (inner // 2, -2), (-3, 5)):
            yield _tma(rng, "load", element, [4 * inner, 40], [inner, 16], swizzle, list(at))
        yield _tma(rng, "store", element, [4 * inner, 40], [inner, 16], swizzle, [inner // 2, 30])
    yield _tma(rng, "load", "f32", [32, 12, 6], [16, 4, 3], 64, [20, -1, 4])
    yield _tma(rng, "load", "u16", [32, 12, 6, 4], [32, 4, 2, 2], 64, [0, 3, 5, 3])
    yield _tma(rng, "load", "f16", [512], [128], 0, [450])
    yield _tma(rng, "nan", "f16", [64, 20], [32, 16], 64, [48, 10])
    yield _tma(rng, "nan", "f32", [64, 20], [32, 16], 128, [48, 10])
    for op, element in (
        ("add", "s32"),
        ("add", "f32"),
        ("add", "f16"),
        ("add", "bf16"),
        ("min", "s32"),
        ("max", "s32"),
        ("or", "s32"),
        ("xor", "s32"),
        ("min", "f16"),
        ("max", "bf16"),
    ):
        inner = 64 // _ELEMENTS[element][1]
        yield _tma(rng, op, element, [2 * inner, 24], [inner, 16], 64, [inner, 12])


def _tma(
    rng: np.random.Generator,
    what: str,
    element: str,
    shape: list[int],
    box: list[int],
    swizzle: int,
    at: list[int],
) -> Case:
    size = _ELEMENTS[element][1]
    data = int(np.prod(box)) * size
    total = int(np.prod(shape)) * size
    name = f"t_tma_{what}_{element}_{swizzle}_{'_'.join(str(i).replace('-', 'm') for i in at)}"
    shared = f".shared .align 1024 .b8 b_{name}[{data}];\n"
    shared += f".shared .align 128 .b8 m_{name}[128];\n.shared .align 8 .b8 w_{name}[8];\n"
    body = f"mov.u32 %r30, m_{name}; mov.u32 %r40, b_{name}; mov.u32 %r41, w_{name};\n"
    body += _map(element, shape, box, swizzle, what == "nan")
    body += "".join(f"mov.b32 %r{50 + i}, {value};\n" for i, value in enumerate(at))
    place = f"[%p2, {{{', '.join(f'%r{50 + i}' for i in range(len(at)))}}}]"
    rank = f"{len(at)}d"
    kind = {"f32": "tf32", "f16": "f16", "bf16": "bf16", "s32": "s8"}.get(element, "u8")
    words = small_values(rng, kind, total // 4)
    copy = f"shl.b32 %r42, %i, 2; mov.u32 %r43, {data // 4};\n"
    if what in ("load", "nan"):
        body += "@%q5 mbarrier.init.shared.b64 [%r41], 1;\n@%q5 fence.proxy.async;\nbar.sync 0;\n"
        body += f"@%q5 mbarrier.arrive.expect_tx.shared.b64 _, [%r41], {data};\n"
        body += f"@%q5 cp.async.bulk.tensor.{rank}.shared::cluster.global.tile"
        body += f".mbarrier::complete_tx::bytes [%r40], {place}, [%r41];\n"
        body += f"W_{name}: mbarrier.try_wait.parity.shared.b64 %q7, [%r41], 0;\n"
        body += f"@!%q7 bra W_{name};\n" + copy
        body += f"mov.u32 %r44, %i;\nL_{name}: setp.ge.u32 %q8, %r44, %r43; @%q8 bra E_{name};\n"
        body += "shl.b32 %r45, %r44, 2; add.u32 %r46, %r40, %r45; ld.shared.b32 %r47, [%r46];\n"
        body += "cvt.u64.u32 %d41, %r45; add.u64 %d41, %d41, %p0; st.global.b32 [%d41], %r47;\n"
        body += f"add.u32 %r44, %r44, {THREADS}; bra L_{name};\nE_{name}:\n"
        arrays = [np.zeros(data // 4, np.uint32), words, np.zeros(128, np.uint8)]
        case = make_case(name, body, arrays, 1, THREADS, shared)
        case.is_fatal = at[0] * size % 16 != 0
        return case
    body = body.replace("[%r30], %p1;", "[%r30], %p0;")
    body += copy + f"mov.u32 %r44, %i;\nL_{name}: setp.ge.u32 %q8, %r44, %r43;\n"
    body += f"@%q8 bra E_{name};\nshl.b32 %r45, %r44, 2; add.u32 %r46, %r40, %r45;\n"
    body += "cvt.u64.u32 %d41, %r45; add.u64 %d41, %d41, %p1; ld.global.b32 %r47, [%d41];\n"
    body += f"st.shared.b32 [%r46], %r47; add.u32 %r44, %r44, {THREADS}; bra L_{name};\n"
    body += f"E_{name}:\nfence.proxy.async; bar.sync 0;\n"
    ends = f".{rank}.global.shared::cta"
    if what == "store":
        body += f"@%q5 cp.async.bulk.tensor{ends}.tile.bulk_group {place}, [%r40];\n"
    else:
        body += f"@%q5 cp.reduce.async.bulk.tensor{ends}.{what}.tile.bulk_group {place}, [%r40];\n"
    body += "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
    arrays = [words, small_values(rng, kind, data // 4), np.zeros(128, np.uint8)]
    return make_case(name, body, arrays, 1, THREADS, shared)


def cases() -> Iterator[Case]:
    """All of this file."""
    yield from wgmma_cases()
    yield from tma_cases()
