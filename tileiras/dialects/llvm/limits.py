"""What LLVM's NVPTX backend cannot take: checked in text of this stage, where anything may stand.

LLVM ends the process, or takes minutes, on integers and vectors far beyond what a GPU has, on
launch dimensions of more than 32 bits, and on inline assembly that does not fit its constraints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import IntAttr, IntegerType, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation

from tileiras.dialects.llvm.calls import InlineAsmOp
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import StructType, bit_width
from tileiras.dialects.locations import place_of
from tileiras.errors import BytecodeError

MAX_WIDTH = 128
"""Bits of an integer: PTX has none wider."""
MAX_LANES = 1 << 16
"""Elements of a vector: more than a thread can hold."""
MAX_THREADS = 1024
"""Of a CTA (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
MAX_REGISTERS = 255
"""Of a thread, in the same table."""
MAX_CTAS = 32
"""Of an SM, in the same table; of a cluster there are fewer."""

_ARGUMENT_ATTRIBUTE = re.compile(
    r"(?:noundef|nonnull|noalias|readonly|writeonly|readnone|nocapture|inreg"
    r"|(?:align|dereferenceable)[ (]\d{1,9}\)?|byval\(\[\d{1,6} x i\d{1,2}\]\)|)"
)
_CONSTRAINT = re.compile(r"(?P<out>=&?)?(?:(?P<kind>[bchrlqfd])|(?P<same>\d{1,2}))|~\{memory\}")
_REGISTER_BITS = {"b": 1, "c": 16, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64, "q": 128}
"""What a constraint's register holds; LLVM ends on a wider value, and on any other of b and q."""
_HOLE = re.compile(r"\$(?:\$|(\d{1,3})|\{(\d{1,3})\}|.|\Z)", re.DOTALL)


def check_limits(module: ModuleOp) -> None:
    """Raises BytecodeError, with its place, for what LLVM cannot take."""
    seen: dict[Attribute, str] = {}
    for op in module.walk():
        for type in _types_of(op):
            if type not in seen:
                seen[type] = _mistake(type)
            if seen[type]:
                raise BytecodeError(f"'{op.name}' op has {seen[type]}", place_of(op))
        check = _CHECKS.get(op.__class__)
        wrong = check(op) if check is not None else ""
        if wrong:
            raise BytecodeError(f"'{op.name}' op {wrong}", place_of(op))


def _types_of(op: Operation) -> Iterator[Attribute]:
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region.blocks:
            yield from (argument.type for argument in block.args)


def _mistake(type: Attribute) -> str:
    """What is wrong with a type; empty if it is fine."""
    match type:
        case IntegerType() if type.width.data > MAX_WIDTH:
            return f"an integer of {type.width.data} bits, expected at most {MAX_WIDTH}"
        case VectorType():
            lanes = [size.data for size in type.shape.data]
            if len(lanes) != 1 or not 1 <= lanes[0] <= MAX_LANES:
                return f"a vector of shape {lanes}, expected one size of 1 to {MAX_LANES}"
            return _mistake(type.element_type)
        case StructType():
            return next(filter(None, map(_mistake, type.fields)), "")
        case _:
            return ""


def _function_mistake(op: Operation) -> str:
    """What is wrong with how a function is launched; empty if it is fine."""
    assert isinstance(op, FuncOp)
    limits = (
        ("reqntid", op.reqntid, MAX_THREADS),
        ("cluster_dim", op.cluster_dim, MAX_CTAS),
        ("min_ctas", op.min_ctas, MAX_CTAS),
        ("max_registers", op.max_registers, MAX_REGISTERS),
    )
    for name, given, most in limits:
        if given is None:
            continue
        values = (given.data,) if isinstance(given, IntAttr) else given.data
        product = 1
        for value in values:
            product *= value
        if min(values) < 1 or product > most:
            return f"has a {name} of {list(values)}, expected 1 to {most}"
    for text in op.arg_attrs.data if op.arg_attrs is not None else ():
        for word in _attribute_words(text.data):
            if _ARGUMENT_ATTRIBUTE.fullmatch(word) is None:
                return f"has an unknown argument attribute '{word[:40]}'"
    return ""


def _attribute_words(text: str) -> list[str]:
    """LLVM's parameter attributes one by one; `align 16` and `byval([128 x i8])` stay whole."""
    return re.findall(r"align \d+|byval\([^)]*\)|[^\s(]+(?:\([^)]*\))?", text)


def _assembly_mistake(op: Operation) -> str:
    """What is wrong with inline assembly beside its PTX; empty if it is fine."""
    assert isinstance(op, InlineAsmOp)
    outputs = inputs = 0
    letters: list[str] = []
    for text in filter(None, op.constraints.data.split(",")):
        found = _CONSTRAINT.fullmatch(text)
        if found is None:
            return f"has an unknown constraint '{text[:40]}'"
        if text.startswith("~"):
            continue
        if found["out"] and (inputs or found["same"]):
            return f"has a misplaced output constraint '{text}'"
        if found["same"] and int(found["same"]) >= outputs:
            return f"has a constraint '{text}' without such an output"
        letters.append(found["kind"] or letters[int(found["same"])])
        outputs, inputs = outputs + bool(found["out"]), inputs + (not found["out"])
    result = op.result.type if op.result is not None else None
    results = len(tuple(result.fields)) if isinstance(result, StructType) else result is not None
    if outputs != results:
        return f"has constraints of {outputs} outputs, but {int(results)} of them"
    if inputs != len(op.arguments):
        return f"has constraints of {inputs} inputs, but {len(op.arguments)} of them"
    fields = tuple(result.fields) if isinstance(result, StructType) else (result,) * results
    types = (*fields, *(argument.type for argument in op.arguments))
    for letter, type in zip(letters, types, strict=True):
        if type is not None and (wrong := _register_mistake(letter, type, op)):
            return wrong
    for hole in _HOLE.finditer(op.template.data):
        number = hole[1] or hole[2]
        if hole[0] != "$$" and (number is None or int(number) >= outputs + inputs):
            return f"has '{hole[0][:40]}' in its text, expected $0 to ${outputs + inputs - 1}"
    return ""


def _register_mistake(letter: str, type: Attribute, op: InlineAsmOp) -> str:
    """Why a value does not fit into the register of a constraint; empty if it does."""
    if op.elementwise is not None and isinstance(type, VectorType):
        type = type.element_type
    bits, room = bit_width(type), _REGISTER_BITS[letter]
    if bits == room or (bits < room and letter != "q"):
        return ""
    return f"has a constraint '{letter}' for a value of {bits} bits, expected {room}"


_CHECKS: dict[type[Operation], Callable[[Operation], str]] = {
    FuncOp: _function_mistake,
    InlineAsmOp: _assembly_mistake,
}
