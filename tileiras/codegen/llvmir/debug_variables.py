"""Variables of one function: a place in local memory for each, and what DWARF says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.ir import Attribute, Operation

from tileiras.codegen.llvmir.debug_info import Metadata
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.type_text import type_text
from tileiras.dialects.cuda_tile.debug_info import InlineFrame, inline_frames
from tileiras.dialects.llvm.memory import DebugValueOp
from tileiras.dialects.llvm.types import (
    bit_width,
    integer_type,
    is_integer,
    lanes_of,
    scalar_of,
    vector_type,
)

_BYTE = 8


@dataclass(frozen=True)
class _Variable:
    """What makes values those of one variable: its name and the call that it belongs to."""

    name: str
    calls: tuple[InlineFrame, ...]
    scope: Attribute | None


class DebugVariables:
    """The variables of a function, and the registers with the addresses of their places.

    A name that has values of two types in one call is left out: a debugger would show one of them
    as the other.
    """

    def __init__(self, metadata: Metadata, subprogram: int, home: str):
        self._metadata = metadata
        self._subprogram = subprogram
        self._home = home
        self._places: dict[_Variable, str] = {}

    def reserve(self, func: Operation, text: FunctionText) -> None:
        """Reserves all places, at the beginning of the entry block."""
        found = [op for op in func.walk() if isinstance(op, DebugValueOp)]
        order = {variable: number for number, variable in enumerate(map(self._variable, found))}
        found.sort(key=lambda op: order[self._variable(op)])
        for variable, group in groupby(found, self._variable):
            values = list(group)
            first = values[0]
            kinds = {(op.element.data, str(op.value.type)): None for op in values}
            frames = self._frames(first)
            if len(kinds) > 1 or not frames:
                continue
            text.suffix = ""
            stored = _stored_type(first.value.type)
            place = text.define(f"alloca {type_text(stored)}, align {_align(stored)}")
            self._places[variable] = place
            self._declare(text, place, first, frames)

    def _declare(
        self, text: FunctionText, place: str, op: DebugValueOp, frames: Sequence[InlineFrame]
    ) -> None:
        """Tells the debugger of a place."""
        metadata = self._metadata
        type = metadata.basic_type(op.element.data, bit_width(scalar_of(op.value.type)))
        lanes = lanes_of(op.value.type)
        if lanes is not None:
            type = metadata.array_type(type, lanes, bit_width(_stored_type(op.value.type)))
        line = metadata.place(self._subprogram, self._home, frames)
        scope = metadata.function_of(self._subprogram, frames)
        variable = metadata.variable(
            op.variable.data, op.parameter.data, scope, frames[0].location, type
        )
        text.emit(f"#dbg_declare(ptr {place}, !{variable}, !DIExpression(), !{line})")

    def store(self, op: DebugValueOp, text: FunctionText) -> None:
        """Stores a value to the place of its variable."""
        place = self._places.get(self._variable(op))
        if place is None:
            return
        type = op.value.type
        stored = _stored_type(type)
        ref = text.ref(op.value)
        if stored != type:
            ref = text.define(f"zext {type_text(type)} {ref} to {type_text(stored)}")
        text.emit(f"store {type_text(stored)} {ref}, ptr {place}, align {_align(stored)}")

    def _frames(self, op: DebugValueOp) -> list[InlineFrame]:
        return list(inline_frames(op.location))

    def _variable(self, op: DebugValueOp) -> _Variable:
        frames = self._frames(op)
        scope = frames[0].scope if frames else None
        return _Variable(op.variable.data, tuple(frames[1:]), scope)


def _stored_type(type: Attribute) -> Attribute:
    """The type in memory: bits are bytes there."""
    element = scalar_of(type)
    if not is_integer(element) or bit_width(element) >= _BYTE:
        return type
    lanes = lanes_of(type)
    byte = integer_type(_BYTE)
    return byte if lanes is None else vector_type(byte, lanes)


def _align(type: Attribute) -> int:
    """The natural alignment of an element, in bytes."""
    return bit_width(scalar_of(type)) // _BYTE
