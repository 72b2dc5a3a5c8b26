"""Random kernels: integer and float arithmetic, branches that part warps, loops, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.gpu.ptx_machine.case import Case, load, make_case, store

THREADS = 64
VALUES = 8
"""Registers that instructions read and write: %r1 to %r8 integers, %r11 to %r18 floats."""

_INTEGER = (
    "add.s32",
    "sub.s32",
    "mul.lo.s32",
    "mul.hi.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "min.s32",
    "max.u32",
    "shl.b32",
    "shr.u32",
    "shr.s32",
)
_FLOAT = (
    "add.rn.f32",
    "sub.rz.f32",
    "mul.rn.f32",
    "mul.rp.f32",
    "min.f32",
    "max.f32",
    "add.rm.ftz.f32",
    "add.rn.f16x2",
    "mul.rn.f16x2",
    "fma.rn.f32",
    "fma.rz.ftz.f32",
    "fma.rn.bf16x2",
)
_COPIES = ("min.f32", "max.f32")
"""What ptxas makes a copy of where both operands are one register: a NaN keeps its bits there."""


class _Maker:
    """Writes one kernel."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng([12, seed])
        self.lines: list[str] = []
        self.labels = 0

    def integer(self) -> str:
        return f"%r{self.rng.integers(1, VALUES + 1)}"

    def real(self) -> str:
        return f"%r{self.rng.integers(11, 11 + VALUES)}"

    def instruction(self) -> None:
        match int(self.rng.integers(0, 9)):
            case 0 | 1 | 2:
                name = str(self.rng.choice(_INTEGER))
                self.lines.append(f"{name} {self.integer()}, {self.integer()}, {self.integer()};")
            case 3 | 4 | 5:
                name = str(self.rng.choice(_FLOAT))
                result, left, right = (self.real() for _ in range(3))
                while left == right and name in _COPIES:
                    right = self.real()
                more = f", {self.real()}" if name.startswith("fma") else ""
                self.lines.append(f"{name} {result}, {left}, {right}{more};")
            case 6:
                i, mode = self.integer(), self.rng.choice(["rni", "rzi", "rmi"])
                if self.rng.integers(0, 2):
                    self.lines.append(f"cvt.{mode}.s32.f32 {i}, {self.real()};")
                else:
                    self.lines.append(f"cvt.rn.f32.s32 {self.real()}, {i};")
            case 7:
                control = int(self.rng.integers(0, 1 << 16))
                i = self.integer()
                self.lines.append(f"prmt.b32 {i}, {self.integer()}, {self.real()}, {control};")
            case _:
                self.lines.append(f"setp.lt.s32 %q1, {self.integer()}, {self.integer()};")
                self.lines.append(f"selp.b32 {self.real()}, {self.real()}, {self.real()}, %q1;")

    def block(self, depth: int) -> None:
        for _ in range(int(self.rng.integers(2, 7))):
            kind = int(self.rng.integers(0, 8)) if depth else 7
            match kind:
                case 0:
                    self.branch(depth)
                case 1:
                    self.loop(depth)
                case 2 if depth == 3:
                    self.exchange()
                case _:
                    self.instruction()

    def label(self) -> str:
        self.labels += 1
        return f"B{self.labels}"

    def branch(self, depth: int) -> None:
        other, end = self.label(), self.label()
        self.lines.append(f"setp.gt.s32 %q2, {self.integer()}, {self.integer()};")
        self.lines.append(f"@%q2 bra {other};")
        self.block(depth - 1)
        self.lines += [f"bra {end};", f"{other}:"]
        self.block(depth - 1)
        self.lines.append(f"{end}:")

    def loop(self, depth: int) -> None:
        """At most seven rounds, a number that differs from thread to thread."""
        top, counter = self.label(), f"%r{200 + self.labels}"
        self.lines += [f"and.b32 {counter}, {self.integer()}, 7;", f"{top}:"]
        self.block(depth - 1)
        self.lines += [
            f"sub.s32 {counter}, {counter}, 1;",
            f"setp.gt.s32 %q3, {counter}, 0;",
            f"@%q3 bra {top};",
        ]

    def exchange(self) -> None:
        """All threads: a value from another thread through shared memory, and a shuffle."""
        value, result = self.integer(), self.real()
        turn = int(self.rng.integers(1, THREADS))
        self.lines += [
            "bar.sync 0;",
            f"st.shared.b32 [%r101], {value};",
            "bar.sync 0;",
            f"add.u32 %r102, %i, {turn}; and.b32 %r102, %r102, {THREADS - 1};",
            "shl.b32 %r102, %r102, 2; add.u32 %r102, %r102, %r100;",
            f"ld.shared.b32 {result}, [%r102];",
            f"shfl.sync.bfly.b32 {self.integer()}, {result}, {int(self.rng.integers(1, 32))}, 31,"
            " 0xffffffff;",
        ]


def random_case(seed: int) -> Case:
    """The random kernel of a seed."""
    maker = _Maker(seed)
    while len(maker.lines) < 60:
        maker.block(3)
    name = f"t_random_{seed}"
    shared = f".shared .align 16 .b8 s_{name}[{4 * THREADS}];\n"
    registers = [*range(1, 1 + VALUES), *range(11, 11 + VALUES)]
    body = "".join(load(f"%r{r}", 1, 4, i, 2 * VALUES) for i, r in enumerate(registers))
    body += f"mov.u32 %r100, s_{name}; shl.b32 %r101, %i, 2; add.u32 %r101, %r101, %r100;\n"
    body += "\n".join(maker.lines) + "\n"
    body += "".join(store(f"%r{r}", 4, i, 2 * VALUES) for i, r in enumerate(registers))
    rng = np.random.default_rng([13, seed])
    values = np.concatenate(
        (
            rng.integers(-40, 40, (THREADS, VALUES)).astype(np.int32).view(np.uint32),
            (rng.standard_normal((THREADS, VALUES)) * 16).astype(np.float32).view(np.uint32),
        ),
        axis=1,
    )
    out = np.zeros(THREADS * 2 * VALUES, np.uint32)
    return make_case(
        name, body, [out, np.ascontiguousarray(values).reshape(-1)], 1, THREADS, shared
    )


def cases(count: int = 200) -> Iterator[Case]:
    """Random kernels."""
    return (random_case(seed) for seed in range(count))
