"""LLVM IR text of tcgen05: each op is one inline assembly call."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from tileiras.codegen.llvmir.asm_operands import AsmOperands
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import PrintRule
from tileiras.codegen.llvmir.type_text import type_text
from tileiras.codegen.target import Feature
from tileiras.dialects.llvm.types import scalar_of
from tileiras.dialects.nvvm import tcgen05
from tileiras.dialects.nvvm.wgmma import DESCRIPTOR_UNIT


def _group(op: Operation) -> str:
    """The CTAs that act together."""
    return f"cta_group::{2 if 'pair' in op.properties else 1}"


def _print_alloc(text: FunctionText, op: Operation) -> None:
    alloc, asm = cast(tcgen05.Tcgen05AllocOp, op), AsmOperands(text)
    at, count = asm.shared(alloc.address), alloc.columns.data
    asm.emit(f"tcgen05.alloc.{_group(op)}.sync.aligned.shared::cta.b32 [{at}], {count};", "sc")


def _print_dealloc(text: FunctionText, op: Operation) -> None:
    dealloc, asm = cast(tcgen05.Tcgen05DeallocOp, op), AsmOperands(text)
    at, count = asm.value(dealloc.tmem), dealloc.columns.data
    asm.emit(f"tcgen05.dealloc.{_group(op)}.sync.aligned.b32 {at}, {count};", "sc")


def _print_relinquish(text: FunctionText, op: Operation) -> None:
    asm = AsmOperands(text)
    asm.emit(f"tcgen05.relinquish_alloc_permit.{_group(op)}.sync.aligned;", "sc")


def _print_mma(text: FunctionText, op: Operation) -> None:
    mma, asm = cast(tcgen05.Tcgen05MmaOp, op), AsmOperands(text)
    d, a, b = (asm.value(value) for value in (mma.d, mma.a, mma.b))
    accumulates, guard = asm.value(mma.accumulates), asm.guard(mma.predicate)
    descriptor = asm.register("i32", str(mma.descriptor.data))
    moves: list[str] = []
    names: dict[tuple[str, int], str] = {}
    columns = _Moved("c", "s32")

    def moved(base: str, offset: int) -> str:
        """A descriptor moved by bytes, computed once."""
        if not offset:
            return base
        if (base, offset) not in names:
            name = names[base, offset] = f"d{len(names)}"
            moves.append(f"add.s64 {name}, {base}, {offset // DESCRIPTOR_UNIT};")
        return names[base, offset]

    def left(offset: int) -> str:
        """A descriptor of A, or its address in tensor memory."""
        return f"[{columns.get(a, offset)}]" if mma.has_a_in_tmem else moved(a, offset)

    instruction = f"tcgen05.mma.{_group(op)}.kind::{mma.kind.data} [{d}]"
    steps: list[str] = []
    pairs = zip(mma.a_offsets.data, mma.b_offsets.data, strict=True)
    for number, (to_a, to_b) in enumerate(pairs):
        enable = "t" if number else accumulates
        operands = f"{left(to_a)}, {moved(b, to_b)}, {descriptor}, {enable}"
        steps.append(f"{guard}{instruction}, {operands};")
    registers = "".join([*(f".reg .b64 {name}; " for name in names.values()), *columns.lines])
    always = ".reg .pred t; setp.eq.u32 t, 0, 0; " if len(steps) > 1 else ""
    asm.emit(f"{{ {registers}{always}{' '.join([*moves, *steps])} }}", "sc")


def _print_commit(text: FunctionText, op: Operation) -> None:
    commit, asm = cast(tcgen05.Tcgen05CommitOp, op), AsmOperands(text)
    at, mask = asm.shared(commit.barrier), ""
    arrive = f"tcgen05.commit.{_group(op)}.mbarrier::arrive::one.shared::cluster"
    if commit.multicast is not None:
        arrive += ".multicast::cluster"
        mask = f", {asm.value(commit.multicast)}"
    guard = asm.guard(commit.predicate)
    asm.emit(f"{guard}{arrive}.b64 [{at}]{mask};", "sc")


def _print_fence(text: FunctionText, fence: tcgen05.Tcgen05FenceOp) -> None:
    AsmOperands(text).emit(f"tcgen05.fence::{fence.kind.data};", "sc")


def _print_ld(text: FunctionText, ld: tcgen05.Tcgen05LdOp) -> None:
    each = tcgen05.SHAPES[ld.shape.data] * ld.repeats.data
    total = each * len(ld.offsets.data)
    unit = type_text(scalar_of(ld.result.type))
    letter = "f" if unit == "float" else "r"
    asm = AsmOperands(text, outputs=total)
    at = asm.value(ld.tmem)
    lines: list[str] = []
    for number, offset in enumerate(ld.offsets.data):
        registers = ", ".join(f"${i}" for i in range(number * each, (number + 1) * each))
        address = f"[{at} + {offset}]" if offset else f"[{at}]"
        name = f"tcgen05.ld.sync.aligned.{ld.shape.data}.x{ld.repeats.data}.b32"
        lines.append(f"{name} {{{registers}}}, {address};")
    lines.append("tcgen05.wait::ld.sync.aligned;")
    # The first load writes registers before the last one reads the address.
    outputs = [f"=&{letter}"] * total
    struct = unit if total == 1 else "{ " + ", ".join([unit] * total) + " }"
    value = asm.define(" ".join(lines), outputs, struct, "sc")
    text.bind_lanes(ld.result, _unpacked(text, value, struct, total))


def _print_st(text: FunctionText, st: tcgen05.Tcgen05StOp) -> None:
    asm = AsmOperands(text)
    each = tcgen05.SHAPES[st.shape.data] * st.repeats.data
    at = asm.value(st.tmem)
    unit = type_text(scalar_of(st.words.type))
    words = [asm.register(unit, lane) for lane in text.lanes(st.words)]
    lines: list[str] = []
    for number, offset in enumerate(st.offsets.data):
        registers = ", ".join(words[number * each : (number + 1) * each])
        address = f"[{at} + {offset}]" if offset else f"[{at}]"
        name = f"tcgen05.st.sync.aligned.{st.shape.data}.x{st.repeats.data}.b32"
        lines.append(f"{name} {address}, {{{registers}}};")
    lines.append("tcgen05.wait::st.sync.aligned;")
    asm.emit(" ".join(lines), "sc")


def _unpacked(text: FunctionText, value: str, struct: str, total: int) -> list[str]:
    """The registers of an assembly call."""
    if total == 1:
        return [value]
    return [text.define(f"extractvalue {struct} {value}, {i}") for i in range(total)]


class _Moved:
    """Values moved by constants, each computed once, in registers of the assembly call."""

    def __init__(self, prefix: str, type: str) -> None:
        self.prefix, self.type = prefix, type
        self.names: dict[tuple[str, int], str] = {}
        self.lines: list[str] = []

    def get(self, base: str, offset: int) -> str:
        """The register with `base` plus `offset`."""
        if not offset:
            return base
        if (base, offset) not in self.names:
            name = self.names[base, offset] = f"{self.prefix}{len(self.names)}"
            self.lines.append(f".reg .b{self.type[1:]} {name}; ")
            self.lines.append(f"add.{self.type} {name}, {base}, {offset}; ")
        return self.names[base, offset]


def _print_cp(text: FunctionText, op: Operation) -> None:
    copy, asm = cast(tcgen05.Tcgen05CpOp, op), AsmOperands(text)
    to, source = asm.value(copy.tmem), asm.value(copy.source)
    guard, moved = asm.guard(copy.predicate), _Moved("s", "s64")
    lines: list[str] = []
    for offset, column in zip(copy.offsets.data, copy.columns.data, strict=True):
        address = f"[{to} + {column}]" if column else f"[{to}]"
        chunk = moved.get(source, offset // DESCRIPTOR_UNIT)
        lines.append(f"{guard}tcgen05.cp.{_group(op)}.32x128b.warpx4 {address}, {chunk};")
    asm.emit(f"{{ {''.join(moved.lines)}{' '.join(lines)} }}", "sc")


def _print_mma_scaled(text: FunctionText, op: Operation) -> None:
    mma, asm = cast(tcgen05.Tcgen05MmaScaledOp, op), AsmOperands(text)
    d, a, b, scales = (asm.value(value) for value in (mma.d, mma.a, mma.b, mma.scales))
    accumulates, guard = asm.value(mma.accumulates), asm.guard(mma.predicate)
    words = {word: asm.register("i32", str(word)) for word in mma.descriptors.data}
    descriptors, places = _Moved("d", "s64"), _Moved("s", "s32")
    name = (
        f"tcgen05.mma.{_group(op)}.kind::{mma.kind.data}.block_scale.scale_vec::{mma.vector.data}X"
    )
    if mma.collector is not None:
        name += f".collector::a::{mma.collector.data}"
    steps: list[str] = []
    each = (mma.descriptors, mma.a_offsets, mma.b_offsets, mma.a_scales, mma.b_scales)
    rows = zip(*(values.data for values in each), strict=True)
    for number, (word, to_a, to_b, scale_a, scale_b) in enumerate(rows):
        operands = (
            f"[{d}]",
            descriptors.get(a, to_a // DESCRIPTOR_UNIT),
            descriptors.get(b, to_b // DESCRIPTOR_UNIT),
            words[word],
            f"[{places.get(scales, scale_a)}]",
            f"[{places.get(scales, scale_b)}]",
            "t" if number else accumulates,
        )
        steps.append(f"{guard}{name} {', '.join(operands)};")
    always = ".reg .pred t; setp.eq.u32 t, 0, 0; " if len(steps) > 1 else ""
    moves = "".join([*descriptors.lines, *places.lines])
    asm.emit(f"{{ {moves}{always}{' '.join(steps)} }}", "sc")


RULES: dict[type[Operation], PrintRule] = {
    tcgen05.Tcgen05CpOp: _print_cp,
    tcgen05.Tcgen05MmaScaledOp: _print_mma_scaled,
    tcgen05.Tcgen05AllocOp: _print_alloc,
    tcgen05.Tcgen05DeallocOp: _print_dealloc,
    tcgen05.Tcgen05RelinquishOp: _print_relinquish,
    tcgen05.Tcgen05MmaOp: _print_mma,
    tcgen05.Tcgen05CommitOp: _print_commit,
    tcgen05.Tcgen05FenceOp: _print_fence,
    tcgen05.Tcgen05LdOp: _print_ld,
    tcgen05.Tcgen05StOp: _print_st,
}
"""How each op is printed."""

FEATURES: dict[type[Operation], Feature] = {
    **dict.fromkeys(tcgen05.TCGEN05_OPS, Feature.TCGEN05),
    **dict.fromkeys(tcgen05.TCGEN05_SCALED_OPS, Feature.TCGEN05_SCALED),
}
"""What a target must have for each op."""
