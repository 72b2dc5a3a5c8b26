"""LLVM IR text of wgmma: one inline assembly call for all instructions of a tile step.

Accumulators are tied operands, 128 registers and more in one call; taking the vector apart and
putting it together again is what costs time, so that happens once per call.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.wgmma import WgmmaAtom, get_wgmma_atom
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import PrintRule, asm_call
from tileiras.codegen.target import Feature
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of, scalar_of
from tileiras.dialects.nvvm import wgmma
from tileiras.errors import InternalError

_UNITS = {"f": "float", "r": "i32"}
_FENCE = "wgmma.fence.sync.aligned;"
_COMMIT = "wgmma.commit_group.sync.aligned;"


def _letter(value: SSAValue) -> str:
    """The constraint letter of a vector's registers: f32 in "f", anything else as 32-bit words."""
    element = scalar_of(value.type)
    return "f" if bit_width(element) == 32 and element != integer_type(32) else "r"


def _registers(text: FunctionText, value: SSAValue) -> list[str]:
    return text.lanes(value) if _letter(value) == "f" else text.words(value, 32)


def _bind(text: FunctionText, value: SSAValue, registers: list[str]) -> None:
    if lanes_of(value.type) == len(registers) and bit_width(scalar_of(value.type)) == 32:
        text.bind_lanes(value, registers)
    else:
        text.bind(value, text.uncut(registers, 32, value.type))


def _unpack(text: FunctionText, value: str, units: Sequence[str]) -> list[str]:
    if len(units) == 1:
        return [value]
    struct = _struct(units)
    return [text.define(f"extractvalue {struct} {value}, {i}") for i in range(len(units))]


def _struct(units: Sequence[str]) -> str:
    return units[0] if len(units) == 1 else "{ " + ", ".join(units) + " }"


def _pass_through(
    text: FunctionText,
    template: str,
    values: Sequence[SSAValue],
    results: Sequence[SSAValue],
    moved: bool = False,
) -> None:
    """An instruction that the registers of `values` go through, so that nothing crosses it.

    They are tied, or, where they are `moved`, come out in others.
    """
    if not values:
        text.emit(asm_call(template, "~{memory}", "void", (), "sc"))
        return
    letters: list[str] = []
    args: list[tuple[str, str]] = []
    for value in values:
        letter = _letter(value)
        refs = _registers(text, value)
        letters += [letter] * len(refs)
        args += [(_UNITS[letter], ref) for ref in refs]
    outputs = [f"=&{letter}" if moved else f"={letter}" for letter in letters]
    ties = letters if moved else [str(index) for index in range(len(letters))]
    units = [_UNITS[letter] for letter in letters]
    if moved:
        count = len(letters)
        moves = (f"mov.b32 ${index}, ${count + index};" for index in range(count))
        template = " ".join([template, *moves])
    call = asm_call(template, ",".join([*outputs, *ties, "~{memory}"]), _struct(units), args, "sc")
    registers = _unpack(text, text.define(call), units)
    for value, result in zip(values, results, strict=True):
        count = bit_width(value.type) // 32
        _bind(text, result, registers[:count])
        del registers[:count]


class _Instructions:
    """Writes the instructions of one `WgmmaOp`: operand numbers, address steps, immediates."""

    def __init__(self, op: wgmma.WgmmaOp, atom: WgmmaAtom, a_count: int):
        self.op = op
        self.atom = atom
        self.total = op.reps_m.data * atom.accumulator_registers
        self.a_first = self.total
        self.b = self.total + a_count
        self.scale = self.b + 1
        self.lines: list[str] = []
        self._advanced: dict[tuple[int, int], str] = {}

    def template(self) -> str:
        """The whole text of the call."""
        op = self.op
        if op.fence is not None:
            self.lines.append(_FENCE)
        for step in range(len(op.b_offsets.data)):
            for rep in range(op.reps_m.data):
                self._instruction(step, rep)
        if op.commit is not None:
            self.lines.append(_COMMIT)
        if op.wait is not None:
            self.lines.append(f"wgmma.wait_group.sync.aligned {op.wait.data};")
        registers = "".join(f".reg .b64 {name}; " for name in self._advanced.values())
        return f"{{ {registers}{' '.join(self.lines)} }}"

    def _descriptor(self, operand: int, offset: int) -> str:
        """A descriptor operand moved by `offset` bytes, computed once."""
        if not offset:
            return f"${operand}"
        known = self._advanced.get((operand, offset))
        if known is None:
            known = self._advanced[operand, offset] = f"d{len(self._advanced)}"
            units = offset // wgmma.DESCRIPTOR_UNIT
            # In front of the fence: nothing but wgmma stands between it and the commit.
            self.lines.insert(0, f"add.s64 {known}, ${operand}, {units};")
        return known

    def _instruction(self, step: int, rep: int) -> None:
        op, atom = self.op, self.atom
        count = atom.accumulator_registers
        accumulators = ", ".join(f"${n}" for n in range(rep * count, (rep + 1) * count))
        if op.a_in_registers:
            first = self.a_first + (step + rep * len(op.b_offsets.data)) * atom.a_registers
            a = "{" + ", ".join(f"${first + i}" for i in range(atom.a_registers)) + "}"
        else:
            offset = op.a_offsets.data[step] + rep * op.m_stride.data
            a = self._descriptor(self.a_first, offset)
        b = self._descriptor(self.b, op.b_offsets.data[step])
        operands = [f"{{{accumulators}}}", a, b, self._scale_d(step), *self._immediates()]
        self.lines.append(f"{atom.mnemonic} {', '.join(operands)};")

    def _scale_d(self, step: int) -> str:
        """Are the old accumulators added? Only the first step of the op may leave them out."""
        if step:
            return "1"
        if self.op.accumulator is None:
            return "0"
        return "1" if self.op.scale_d is None else f"${self.scale}"

    def _immediates(self) -> list[str]:
        """Scales of A and B (always 1), and which descriptors are MN-major."""
        family = self.atom.family
        if family.is_integer:
            return []
        immediates = ["1", "1"]
        if family.transposes:
            if not self.op.a_in_registers:
                immediates.append("0" if self.op.a_transposed is None else "1")
            immediates.append("0" if self.op.b_transposed is None else "1")
        return immediates


def _print_wgmma(text: FunctionText, mma: wgmma.WgmmaOp) -> None:
    atom = get_wgmma_atom(mma.atom.data)
    total = mma.reps_m.data * atom.accumulator_registers
    letter = atom.accumulator_class
    a = text.words(mma.a, 32) if mma.a_in_registers else [text.ref(mma.a)]
    fragments = mma.reps_m.data * len(mma.b_offsets.data) * atom.a_registers
    if mma.a_in_registers and len(a) != fragments:
        raise InternalError(
            f"{atom.name}: A is {len(a)} registers, expected {fragments}", where="LLVM IR printer"
        )
    instructions = _Instructions(mma, atom, len(a))
    kind, kind_letter = ("i32", "r") if mma.a_in_registers else ("i64", "l")
    args = [(kind, ref) for ref in a] + [("i64", text.ref(mma.b))]
    constraints = [kind_letter] * len(a) + ["l"]
    if mma.scale_d is not None:
        args.append(("i1", text.ref(mma.scale_d)))
        constraints.append("b")
    # Without old accumulators the first instruction writes registers before the last reads inputs.
    output = f"=&{letter}" if mma.accumulator is None else f"={letter}"
    if mma.accumulator is not None:
        args += [(_UNITS[letter], ref) for ref in _registers(text, mma.accumulator)]
        constraints += [str(index) for index in range(total)]
    units = [_UNITS[letter]] * total
    everything = ",".join([*[output] * total, *constraints, "~{memory}"])
    call = asm_call(instructions.template(), everything, _struct(units), args, "sc")
    _bind(text, mma.result, _unpack(text, text.define(call), units))


def _print_fence(text: FunctionText, fence: wgmma.WgmmaFenceOp) -> None:
    _pass_through(text, _FENCE, fence.values, fence.results_)


def _print_commit(text: FunctionText, op: Operation) -> None:
    text.emit(asm_call(_COMMIT, "~{memory}", "void", (), "sc"))


def _print_wait(text: FunctionText, wait: wgmma.WgmmaWaitOp) -> None:
    template = f"wgmma.wait_group.sync.aligned {wait.pending.data};"
    _pass_through(text, template, wait.values, wait.results_, wait.moved is not None)


RULES: dict[type[Operation], PrintRule] = {
    wgmma.WgmmaOp: _print_wgmma,
    wgmma.WgmmaFenceOp: _print_fence,
    wgmma.WgmmaCommitOp: _print_commit,
    wgmma.WgmmaWaitOp: _print_wait,
}
"""How each op is printed."""

FEATURES: dict[type[Operation], Feature] = dict.fromkeys(wgmma.WGMMA_OPS, Feature.WGMMA)
"""What a target must have for each op."""
