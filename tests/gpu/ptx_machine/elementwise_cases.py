"""Instructions on one thread's values: integers, floats, conversions (exhaustive where a source
has 8 or 16 bits)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.gpu.ptx_machine.case import Case, load, make_case, store

BLOCK = 256
_PREFIX = {1: "%r", 2: "%h", 4: "%r", 8: "%d"}


def integers(rng: np.random.Generator, bits: int, count: int) -> np.ndarray:
    """Integers of every magnitude, with the interesting ones."""
    values = (
        rng.integers(0, 1 << bits, count, np.uint64, endpoint=False)
        if bits < 64
        else (rng.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True))
    )
    values = values >> rng.integers(0, bits, count, np.uint64)
    top = (1 << bits) - 1
    special = [0, 1, 2, 31, 32, 33, top, top >> 1, (top >> 1) + 1, top - 1]
    values[: len(special) ** 2] = [x for x in special for _ in special][: len(values)]
    return values.astype(f"u{bits // 8}")


def pair_of_integers(rng: np.random.Generator, bits: int, count: int) -> list[np.ndarray]:
    """Two arrays: every special value meets every other."""
    first, second = integers(rng, bits, count), integers(rng, bits, count)
    second[:100] = first[:100].reshape(10, 10).T.reshape(-1)
    return [first, second]


def floats(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Bits of floats: any pattern, and values near one another (so that sums cancel)."""
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind]
    values = integers(rng, bits, count)
    near = rng.standard_normal(count // 2) * 2.0 ** rng.integers(-12, 12, count // 2)
    if kind == "bf16":
        values[count // 2 :] = (near.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
        values[count // 2 :] = near.astype(dtype).view(values.dtype)
    one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}[kind]
    inf = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}[kind]
    special = [
        0,
        1 << (bits - 1),
        one,
        one | 1 << (bits - 1),
        inf,
        inf | 1 << (bits - 1),
        inf + 1,
        1,
        inf - 1,
        (one + 1),
    ]
    values[:100] = [x for x in special for _ in special]
    return values


def case(name: str, instruction: str, inputs: list[np.ndarray], size: int, tail: str = "") -> Case:
    """`instruction d, a, b{tail}` on every element."""
    count = len(inputs[0])
    body, names = "", []
    for number, array in enumerate(inputs, 1):
        width = array.dtype.itemsize
        register = f"{_PREFIX[width]}{number}"
        body += load(register, number, width)
        names.append(register)
    result = f"{_PREFIX[size]}20"
    body += f"{instruction} {result}, {', '.join(names)}{tail};\n" + store(result, size)
    assert count % BLOCK == 0
    out = np.zeros(count, f"u{size}")
    return make_case(name, body, [out, *inputs], count // BLOCK, BLOCK)


def _named(text: str) -> str:
    return "t_" + "".join(c if c.isalnum() else "_" for c in text)


def integer_cases() -> Iterator[Case]:
    """Integer arithmetic, logic, shifts."""
    rng = np.random.default_rng(1)
    names = [
        f"{op}.{t}{b}"
        for op in ("add", "sub", "min", "max", "mul.lo", "mul.hi")
        for t in "us"
        for b in (16, 32, 64)
    ]
    names += [f"{op}.b{b}" for op in ("and", "or", "xor") for b in (16, 32, 64)]
    names += ["add.sat.s32", "sub.sat.s32", "mul24.lo.u32", "mul24.hi.s32"]
    for name in names:
        bits = int(name[-2:])
        yield case(_named(name), name, pair_of_integers(rng, bits, 1024), bits // 8)
    for op, b in product(("div", "rem"), (32, 64)):
        for t in "us":
            a, divisor = pair_of_integers(rng, b, 1024)
            divisor[divisor == 0] = 3
            if t == "s":  # the most negative number by -1 overflows
                divisor[divisor == (1 << b) - 1] = 5
            yield case(f"t_{op}_{t}{b}", f"{op}.{t}{b}", [a, divisor], b // 8)
    for op, b in product(("shl.b", "shr.u", "shr.s"), (16, 32, 64)):
        a, amount = integers(rng, b, 1024), integers(rng, 32, 1024)
        amount[::2] %= 70
        yield case(_named(f"{op}{b}"), f"{op}{b}", [a, amount], b // 8)
    for op, b in product(("clz.b", "popc.b", "bfind.u", "bfind.s", "bfind.shiftamt.u"), (32, 64)):
        yield case(_named(f"{op}{b}"), f"{op}{b}", [integers(rng, b, 1024)], 4)
    for op in ("brev.b32", "brev.b64", "not.b32", "cnot.b32", "neg.s32", "abs.s32", "neg.s64"):
        bits = int(op[-2:])
        yield case(_named(op), op, [integers(rng, bits, 1024)], bits // 8)
    for op in ("mad.lo.s32", "mad.hi.u32", "mad.hi.sat.s32", "sad.u32", "sad.s32"):
        yield case(_named(op), op, [*pair_of_integers(rng, 32, 1024), integers(rng, 32, 1024)], 4)
    for op in ("mul.wide.u32", "mul.wide.s32"):
        yield case(_named(op), op, pair_of_integers(rng, 32, 1024), 8)
    for op in ("dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32", "dp2a.lo.s32.u32"):
        yield case(_named(op), op, [*pair_of_integers(rng, 32, 1024), integers(rng, 32, 1024)], 4)
    for op in ("u16x2", "s16x2"):
        for name in ("add", "min", "max"):
            yield case(f"t_{name}_{op}", f"{name}.{op}", pair_of_integers(rng, 32, 1024), 4)


def bit_cases() -> Iterator[Case]:
    """Bit fields, permutations, funnel shifts, tables."""
    rng = np.random.default_rng(2)
    for op, b in product(("bfe.u", "bfe.s"), (32, 64)):
        a, at, size = integers(rng, b, 2048), integers(rng, 32, 2048), integers(rng, 32, 2048)
        at[::2] %= 70
        size[::2] %= 70
        at, size = at & 255, size & 255  # more is not defined
        yield case(_named(f"{op}{b}"), f"{op}{b}", [a, at, size], b // 8)
    for b in (32, 64):
        a, other = pair_of_integers(rng, b, 2048)
        at, size = integers(rng, 32, 2048) % 70, integers(rng, 32, 2048) % 70
        yield case(f"t_bfi_b{b}", f"bfi.b{b}", [a, other, at, size], b // 8)
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        a, b, c = (integers(rng, 32, 1024) for _ in range(3))
        yield case(_named(f"prmt{mode}"), f"prmt.b32{mode}", [a, b, c], 4)
    for side, mode in product("lr", ("wrap", "clamp")):
        a, b, c = (integers(rng, 32, 1024) for _ in range(3))
        c[::2] %= 40
        yield case(f"t_shf_{side}_{mode}", f"shf.{side}.{mode}.b32", [a, b, c], 4)
    for table in (0xE8, 0x96, 0x1B, 0xCA):
        a, b, c = (integers(rng, 32, 512) for _ in range(3))
        yield case(f"t_lop3_{table}", "lop3.b32", [a, b, c], 4, f", {table}")
    for mode in ("clamp", "wrap"):
        a, b = integers(rng, 32, 1024), integers(rng, 32, 1024)
        a[::2] %= 40
        b[::2] %= 40
        yield case(f"t_bmsk_{mode}", f"bmsk.{mode}.b32", [a, b], 4)
        for t in ("u32", "s32"):
            yield case(f"t_szext_{mode}_{t}", f"szext.{mode}.{t}", [a, b], 4)


def float_cases() -> Iterator[Case]:
    """Float arithmetic in every rounding and with every modifier."""
    rng = np.random.default_rng(3)

    def inputs(kind: str, count: int) -> list[np.ndarray]:
        found = [floats(rng, kind, 2048) for _ in range(count)]
        if count > 1:
            found[1][:100] = found[0][:100].reshape(10, 10).T.reshape(-1)
        return found

    modes = ("rn", "rz", "rm", "rp")
    for op, mode, more in product(("add", "sub", "mul"), modes, ("", ".ftz", ".sat", ".ftz.sat")):
        name = f"{op}.{mode}{more}.f32"
        yield case(_named(name), name, inputs("f32", 2), 4)
    for mode, more in product(modes, ("", ".ftz", ".sat")):
        yield case(_named(f"fma.{mode}{more}"), f"fma.{mode}{more}.f32", inputs("f32", 3), 4)
    for op, mode, more in product(("div", "sqrt", "rcp"), modes, ("", ".ftz")):
        name = f"{op}.{mode}{more}.f32"
        yield case(_named(name), name, inputs("f32", 2 if op == "div" else 1), 4)
    for op, mode in product(("add", "mul", "fma"), modes):
        name = f"{op}.{mode}.f64"
        yield case(_named(name), name, inputs("f64", 3 if op == "fma" else 2), 8)
    for op in ("div.rn", "sqrt.rn", "rcp.rn", "min", "max"):
        count = 2 if op in ("div.rn", "min", "max") else 1
        yield case(_named(f"{op}.f64"), f"{op}.f64", inputs("f64", count), 8)
    for op, more in product(("min", "max"), ("", ".ftz", ".NaN", ".xorsign.abs")):
        yield case(_named(f"{op}{more}.f32"), f"{op}{more}.f32", inputs("f32", 2), 4)
    for kind in ("f16", "bf16"):
        names = [f"{op}.rn.{kind}" for op in ("add", "sub", "mul", "fma")]
        names += [f"fma.rn.relu.{kind}", f"min.{kind}", f"max.{kind}", f"max.NaN.{kind}"]
        if kind == "f16":
            names += ["add.rn.ftz.f16", "fma.rn.ftz.f16", "mul.rn.sat.f16"]
        for name in names:
            count = 3 if name.startswith("fma") else 2
            yield case(_named(name), name, inputs(kind, count), 2)
        for op in ("neg", "abs"):
            yield case(f"t_{op}_{kind}", f"{op}.{kind}", inputs(kind, 1), 2)
    for op in ("neg.f32", "abs.f32", "neg.ftz.f32", "abs.ftz.f32", "copysign.f32"):
        count = 2 if op.startswith("copysign") else 1
        yield case(_named(op), op, inputs("f32", count), 4)


def conversion_cases() -> Iterator[Case]:
    """`cvt`: every 16-bit source pattern, and a sample of the wider ones."""
    rng = np.random.default_rng(4)
    every = np.arange(1 << 16, dtype=np.uint16)
    for kind, to in product(("f16",), ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            size = max(int(to[1:]) // 8, 2)
            size = 4 if size < 4 and to.endswith("8") else size
            yield case(f"t_cvt_{mode}_{to}_{kind}", f"cvt.{mode}.{to}.{kind}", [every], size)
    for name, size in (
        ("cvt.f32.f16", 4),
        ("cvt.f64.f16", 8),
        ("cvt.f32.bf16", 4),
        ("cvt.rn.f16.s16", 2),
        ("cvt.rz.f16.u16", 2),
        ("cvt.rn.f32.s16", 4),
    ):
        yield case(_named(name), name, [every], size)
    pairs = (every.astype(np.uint32) << 16) | every[::-1]
    for small in ("e4m3", "e5m2"):
        for relu in ("", ".relu"):
            name = f"cvt.rn.satfinite{relu}.{small}x2.f16x2"
            yield case(_named(name), name, [pairs], 2)
            yield case(_named(f"up{relu}{small}"), f"cvt.rn{relu}.f16x2.{small}x2", [every], 4)
            name = f"cvt.rn.satfinite{relu}.{small}x2.f32"
            yield case(_named(name), name, [floats(rng, "f32", 4096) for _ in "ab"], 2)
    for to, mode, more in product(("f16", "bf16"), ("rn", "rz"), ("", ".relu")):
        name = f"cvt.{mode}{more}.{to}x2.f32"
        yield case(_named(name), name, [floats(rng, "f32", 4096) for _ in "ab"], 4)
        name = f"cvt.{mode}{more}.{to}.f32"
        yield case(_named(name), name, [floats(rng, "f32", 4096)], 2)
    for name in (
        "cvt.rna.tf32.f32",
        "cvt.rn.tf32.f32",
        "cvt.rz.tf32.f32",
        "cvt.rni.f32.f32",
        "cvt.rpi.ftz.f32.f32",
        "cvt.rzi.f32.f32",
        "cvt.rmi.f32.f32",
        "cvt.sat.f32.f32",
    ):
        values = floats(rng, "f32", 4096)
        if "rna" in name:  # what NaN becomes is not defined
            values[values & 0x7FFFFFFF > 0x7F800000] = 0
        yield case(_named(name), name, [values], 4)
    for to, mode in product(("u32", "s32", "u64", "s64"), ("rni", "rzi", "rmi", "rpi")):
        size = int(to[1:]) // 8
        for source in ("f32", "f64"):
            name = f"cvt.{mode}.{to}.{source}"
            yield case(_named(name), name, [floats(rng, source, 2048)], size)
    for source, to, mode in product(
        ("u32", "s32", "u64", "s64"), ("f16", "f32", "f64"), ("rn", "rz", "rm", "rp")
    ):
        size = {"f16": 2, "f32": 4, "f64": 8}[to]
        name = f"cvt.{mode}.{to}.{source}"
        yield case(_named(name), name, [integers(rng, int(source[1:]), 2048)], size)
    for mode in ("rn", "rz", "rm", "rp"):
        for name, size in ((f"cvt.{mode}.f32.f64", 4), (f"cvt.{mode}.f16.f64", 2)):
            yield case(_named(name), name, [floats(rng, "f64", 4096)], size)
        yield case(
            f"t_cvt_{mode}_f16_f32_all", f"cvt.{mode}.f16.f32", [floats(rng, "f32", 4096)], 2
        )
    for to, source in product(("u8", "s8", "u16", "s16", "u32", "s32"), ("u32", "s32", "s64")):
        size = 4 if to.endswith("8") else int(to[1:]) // 8
        for sat in ("", ".sat") if to != source else ("",):
            name = f"cvt{sat}.{to}.{source}"
            yield case(_named(name), name, [integers(rng, int(source[1:]), 1024)], size)


def comparison_cases() -> Iterator[Case]:
    """`set` and `setp` through `selp`."""
    rng = np.random.default_rng(5)
    names = (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "equ",
        "neu",
        "ltu",
        "leu",
        "gtu",
        "geu",
        "num",
        "nan",
    )
    for name, kind in product(names, ("f32", "f64", "f16")):
        size = {"f32": 4, "f64": 8, "f16": 2}[kind]
        a, b = floats(rng, kind, 512), floats(rng, kind, 512)
        b[:100] = a[:100].reshape(10, 10).T.reshape(-1)
        b[256:300] = a[256:300]
        body = load(f"{_PREFIX[size]}1", 1, size) + load(f"{_PREFIX[size]}2", 2, size)
        both = "%q1" if kind == "f16" else "%q1|%q2"
        body += "setp.ne.u32 %q2, %i, %i;\n"
        body += f"setp.{name}.{kind} {both}, {_PREFIX[size]}1, {_PREFIX[size]}2;\n"
        body += "selp.b32 %r3, 1, 0, %q1; selp.b32 %r4, 2, 0, %q2; or.b32 %r3, %r3, %r4;\n"
        body += store("%r3", 4)
        yield make_case(f"t_setp_{name}_{kind}", body, [np.zeros(512, np.uint32), a, b], 2, BLOCK)


def cases() -> Iterator[Case]:
    """All of this file."""
    yield from integer_cases()
    yield from bit_cases()
    yield from float_cases()
    yield from conversion_cases()
    yield from comparison_cases()
