"""Rejects programs with types, atomics and names that the target does not have, first of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, ModuleOp
from xdsl.ir import Attribute, Operation

from tileiras.codegen.target import TARGET_NAMES, Feature, GpuTarget, get_target
from tileiras.codegen.target.ptx_names import name_mistake
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import AtomicRMWMode, PointerKind, PointerKindAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.types import (
    PointerType,
    TensorViewType,
    TileType,
    ViewType,
)
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext, IrPass

_NEEDED: dict[str, Feature] = {
    "f8E4M3FN": Feature.FP8_CONVERT,
    "f8E5M2": Feature.FP8_CONVERT,
    "f8E8M0FNU": Feature.FP4_CONVERT,
    "f4E2M1FN": Feature.FP4_CONVERT,
    "fnv8E5M3FNU": Feature.FP8_E5M3_CONVERT,
}
"""Element types that not every target has, and what they need."""


MAX_ALIGNMENT = 1 << 32
"""Fixed: bytes; what LLVM can express."""


@dataclass(frozen=True)
class CheckTargetPass(IrPass):
    """Raises an error for the first value or atomic that the target does not have.

    Before   a program that may use any element type, multicast pointers and atomics
    After    the same program
    Requires nothing.
    Leaves   everything; does nothing where the pipeline stops before a target matters.
    """

    name = "check-target"
    title: ClassVar[str] = "Check that the target has all types and atomics"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at the type of every value and at every atomic."""
        if ctx.target is None:
            return
        checked: dict[int, Attribute] = {}
        for inner in op.walk():
            if isinstance(inner, ct.EntryOp | ct.GlobalOp):
                _check_name(inner)
            if isinstance(inner, ct.GlobalOp | ct.AllocaOp):
                _check_alignment(inner)
            for type in _types_of(inner):
                if id(type) not in checked:
                    checked[id(type)] = type
                    _check_type(inner, type, ctx.target)
            _check_atomic(inner, ctx.target)


def _check_name(op: ct.EntryOp | ct.GlobalOp) -> None:
    """The host looks entries and globals up by their names, which must be PTX's."""
    mistake = name_mistake("entry" if isinstance(op, ct.EntryOp) else "global", op.sym_name.data)
    if mistake:
        raise CompileError(mistake, place_of(op))


def _check_alignment(op: ct.GlobalOp | ct.AllocaOp) -> None:
    """LLVM's alignments end at 2^32."""
    alignment = op.alignment.value.data
    if alignment > MAX_ALIGNMENT:
        raise CompileError(
            f"'{op.name}' op has alignment {alignment}, expected at most {MAX_ALIGNMENT}",
            place_of(op),
        )


def _types_of(op: Operation) -> list[Attribute]:
    """The types of the values that an operation defines."""
    types = [result.type for result in op.results]
    for region in op.regions:
        for block in region.blocks:
            types += [argument.type for argument in block.args]
    if isinstance(op, ct.GlobalOp):
        types.append(op.value.type)
    return types


def _check_type(op: Operation, type: Attribute, target: GpuTarget) -> None:
    match type:
        case TileType(element_type=PointerType() as pointer):
            _check_kind(op, pointer.kind, target)
            element = pointer.pointee
        case TileType():
            element = type.element_type
        case TensorViewType():
            _check_kind(op, type.kind, target)
            element = type.element_type
        case ViewType():
            _check_kind(op, type.tensor_view.kind, target)
            element = type.tensor_view.element_type
        case _:
            return
    text = element_text(element)
    needed = _NEEDED.get(text)
    if needed is not None and not target.has(needed):
        error = CompileError(
            f"Incompatibility with architecture '{target.name}': unsupported type '{text}'",
            place_of(op),
        )
        having = [name for name in TARGET_NAMES if get_target(name).has(needed)]
        error.notes.append(f"'{text}' is a type of {', '.join(having)}")
        raise error


def _check_atomic(op: Operation, target: GpuTarget) -> None:
    """The oldest targets have no atomic addition of bf16."""
    match op:
        case ct.AtomicRMWTkoOp():
            value = op.arg.type
        case ct.AtomicRedViewTkoOp():
            value = op.value.type
        case _:
            return
    if op.mode.data is not AtomicRMWMode.ADDF or target.has(Feature.BF16_ATOMIC):
        return
    if isinstance(value, TileType) and isinstance(value.element_type, BFloat16Type):
        first = next(name for name in TARGET_NAMES if get_target(name).has(Feature.BF16_ATOMIC))
        raise CompileError(
            f"Incompatibility with architecture '{target.name}': atomicRMW ADDF with bf16 "
            f"is not supported (it is since {first})",
            place_of(op),
        )


def _check_kind(op: Operation, kind: Attribute, target: GpuTarget) -> None:
    """Multicast memory exists on few targets."""
    if not isinstance(kind, PointerKindAttr) or kind.data is not PointerKind.MULTICAST:
        return
    if not target.has(Feature.MULTIMEM):
        names = (name for name in TARGET_NAMES if get_target(name).has(Feature.MULTIMEM))
        raise CompileError(
            f"Incompatibility with architecture '{target.name}': multicast pointers require "
            + " or ".join(names),
            place_of(op),
        )
