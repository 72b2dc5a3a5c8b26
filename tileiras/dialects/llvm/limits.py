"""What LLVM's NVPTX backend cannot take: checked in text of this stage, where anything may stand.

LLVM ends the process, or takes minutes, on integers and vectors far beyond what a GPU has.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerType, ModuleOp, VectorType
from xdsl.ir import Attribute, Operation

from tileiras.dialects.llvm.types import StructType
from tileiras.dialects.locations import place_of
from tileiras.errors import BytecodeError

MAX_WIDTH = 128
"""Bits of an integer: PTX has none wider."""
MAX_LANES = 1 << 16
"""Elements of a vector: more than a thread can hold."""


def check_limits(module: ModuleOp) -> None:
    """Raises BytecodeError, with its place, for a value whose type LLVM cannot take."""
    seen: dict[Attribute, str] = {}
    for op in module.walk():
        for type in _types_of(op):
            if type not in seen:
                seen[type] = _mistake(type)
            if seen[type]:
                raise BytecodeError(f"'{op.name}' op has {seen[type]}", place_of(op))


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
