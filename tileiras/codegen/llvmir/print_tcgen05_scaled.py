"""LLVM IR text of block-scaled products by tcgen05 and of the copies of their scales."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_hopper_ops import AsmOperands
from tileiras.codegen.llvmir.print_llvm_ops import PrintRule
from tileiras.dialects.nvvm import tcgen05_scaled
from tileiras.dialects.nvvm.wgmma import DESCRIPTOR_UNIT

_GROUP = "cta_group::1"


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
    copy, asm = cast(tcgen05_scaled.Tcgen05CpOp, op), AsmOperands(text)
    to, source = asm.value(copy.tmem), asm.value(copy.source)
    guard, moved = asm.guard(copy.predicate), _Moved("s", "s64")
    lines: list[str] = []
    for offset, column in zip(copy.offsets.data, copy.columns.data, strict=True):
        address = f"[{to} + {column}]" if column else f"[{to}]"
        chunk = moved.get(source, offset // DESCRIPTOR_UNIT)
        lines.append(f"{guard}tcgen05.cp.{_GROUP}.32x128b.warpx4 {address}, {chunk};")
    asm.emit(f"{{ {''.join(moved.lines)}{' '.join(lines)} }}", "sc")


def _print_mma_scaled(text: FunctionText, op: Operation) -> None:
    mma, asm = cast(tcgen05_scaled.Tcgen05MmaScaledOp, op), AsmOperands(text)
    d, a, b, scales = (asm.value(value) for value in (mma.d, mma.a, mma.b, mma.scales))
    accumulates, guard = asm.value(mma.accumulates), asm.guard(mma.predicate)
    words = {word: asm.register("i32", str(word)) for word in mma.descriptors.data}
    descriptors, places = _Moved("d", "s64"), _Moved("s", "s32")
    name = f"tcgen05.mma.{_GROUP}.kind::{mma.kind.data}.block_scale.scale_vec::{mma.vector.data}X"
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


TCGEN05_SCALED_RULES: dict[type[Operation], PrintRule] = {
    tcgen05_scaled.Tcgen05CpOp: _print_cp,
    tcgen05_scaled.Tcgen05MmaScaledOp: _print_mma_scaled,
}
"""How each op is printed."""
