"""LLVM IR text of guarded, ordered and scattered accesses: predicated PTX `ld` and `st`.

LLVM's masked load becomes a branch per element, so these are inline assembly with a predicate
operand. A value is cut into pieces of at most 16 bytes, each of one to four registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.folding import bits_of
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import asm_call
from tileiras.codegen.llvmir.type_text import type_text
from tileiras.dialects.llvm.memory import GEPOp
from tileiras.dialects.llvm.types import (
    PointerType,
    bit_width,
    integer_type,
    is_pointer,
    lanes_of,
    scalar_of,
    with_scalar,
)
from tileiras.dialects.nvvm.access import GuardedLoadOp, GuardedStoreOp
from tileiras.errors import InternalError

MAX_ACCESS_BYTES = 16
"""Widest access that every target has (`.v4.b32`, `.v2.b64`)."""

_STATE_SPACES = {0: "", 1: ".global", 3: ".shared", 4: ".const", 5: ".local"}
_LETTERS = {16: "h", 32: "r", 64: "l"}


@dataclass(frozen=True)
class _Pieces:
    """How each group of a value is cut: `count` accesses of `bytes`, of `units` registers each.

    A register holds `memory_bits` of memory; 8-bit units travel in registers of `least_bits`: 16,
    or 32 where words will be made of them.
    """

    groups: int
    count: int
    bytes: int
    units: int
    memory_bits: int
    least_bits: int = 16

    @property
    def register_bits(self) -> int:
        """Width of the registers."""
        return max(self.least_bits, self.memory_bits)

    @property
    def letter(self) -> str:
        """LLVM's constraint letter of the registers."""
        return _LETTERS[self.register_bits]

    @property
    def total(self) -> int:
        """Registers for the whole value."""
        return self.groups * self.count * self.units

    def opcode(self, base: str, order: str, space: str, cache: str) -> str:
        """The PTX opcode, such as `ld.relaxed.gpu.global.v4.b32`."""
        vector = f".v{self.units}" if self.units > 1 else ""
        return f"{base}{order}{space}{cache}{vector}.b{self.memory_bits}"


def _cut(type: Attribute, pointers: Attribute, align: int, least_bits: int = 16) -> _Pieces:
    groups = lanes_of(pointers) or 1
    size = bit_width(type) // 8 // groups
    piece = min(align, size, MAX_ACCESS_BYTES)
    unit = min(piece, 8 if bit_width(scalar_of(type)) == 64 else 4)
    return _Pieces(groups, size // piece, piece, piece // unit, 8 * unit, least_bits)


def _order(op: GuardedLoadOp | GuardedStoreOp) -> str:
    order, scope = op.order.data, op.scope.data
    if order == "weak":
        return ""
    return f".{order}.{scope}" if scope else f".{order}"


def _cache(cache: StringAttr | None) -> str:
    return "" if cache is None else cache.data


def _space(pointers: Attribute) -> str:
    element = scalar_of(pointers)
    space = element.address_space if isinstance(element, PointerType) else -1
    if space not in _STATE_SPACES:
        raise InternalError(f"guarded access through {pointers}", where="LLVM IR printer")
    return _STATE_SPACES[space]


def _units(text: FunctionText, value: SSAValue, pieces: _Pieces) -> list[str]:
    """The value as registers of the accesses."""
    type, ref = value.type, text.ref(value)
    if is_pointer(type):
        flat = with_scalar(type, integer_type(64))
        ref = text.cast("ptrtoint", type_text(type), ref, type_text(flat))
        units = text.cut(type_text(flat), ref, pieces.memory_bits, pieces.total)
    else:
        units = text.words(value, pieces.memory_bits)
    if pieces.memory_bits == pieces.register_bits:
        return units
    wide = f"i{pieces.register_bits}"
    return [text.cast("zext", f"i{pieces.memory_bits}", unit, wide) for unit in units]


def _bind_units(text: FunctionText, value: SSAValue, units: Sequence[str], pieces: _Pieces) -> None:
    """Defines `value` from the loaded registers."""
    bits = pieces.memory_bits
    if bits != pieces.register_bits:
        wide = f"i{pieces.register_bits}"
        units = [text.cast("trunc", wide, unit, f"i{bits}") for unit in units]
    type = value.type
    if is_pointer(type):
        flat = with_scalar(type, integer_type(64))
        ref = text.uncut(units, bits, flat)
        text.bind(value, text.cast("inttoptr", type_text(flat), ref, type_text(type)))
    elif scalar_of(type) == integer_type(bits):
        text.bind_lanes(value, list(units))
    else:
        text.bind(value, text.uncut(units, bits, type))


def _accesses(
    text: FunctionText, pointers: SSAValue, predicate: SSAValue | None, pieces: _Pieces
) -> Iterator[tuple[str, list[str], int]]:
    """(pointer, guard if any, byte offset) of every access in order."""
    is_in_words = pieces.least_bits > 16
    addresses, moves = _bases(text, pointers) if is_in_words else (text.lanes(pointers), [])
    guards = [] if predicate is None else text.lanes(predicate)
    guards = guards * pieces.groups if len(guards) == 1 else guards
    for group, address in enumerate(addresses):
        guard = guards[group : group + 1]
        moved = moves[group] if moves else 0
        for index in range(pieces.count):
            yield address, guard, moved + index * pieces.bytes


def _bases(text: FunctionText, pointers: SSAValue) -> tuple[list[str], list[int]]:
    """Pointers without the constants that have been added last, and these."""
    owner = pointers.owner
    offsets = bits_of(owner.offset) if isinstance(owner, GEPOp) else None
    if not isinstance(owner, GEPOp) or offsets is None:
        return text.lanes(pointers), []
    lanes, bases = lanes_of(pointers.type) or 1, text.lanes(owner.base)
    if len(bases) == 1:
        bases = bases * lanes
    return bases, list(offsets) * (lanes // len(offsets))


def _address(number: int, offset: int) -> str:
    return f"[${number}+{offset}]" if offset else f"[${number}]"


def _registers(first: int, count: int) -> str:
    names = ", ".join(f"${number}" for number in range(first, first + count))
    return names if count == 1 else f"{{{names}}}"


def print_guarded_load(text: FunctionText, load: GuardedLoadOp) -> None:
    """One predicated `ld` per piece; its outputs are tied to the passthru's registers."""
    pointer_type = type_text(scalar_of(load.pointers.type))
    least = 16 if load.in_words is None else 32
    pieces = _cut(load.result.type, load.pointers.type, load.align.data, least)
    old = [] if load.passthru is None else _units(text, load.passthru, pieces)
    opcode = pieces.opcode("ld", _order(load), _space(load.pointers.type), _cache(load.cache))
    clobber = [] if load.order.data == "weak" else ["~{memory}"]
    unit, count = f"i{pieces.register_bits}", pieces.units
    result = unit if count == 1 else "{ " + ", ".join([unit] * count) + " }"
    loaded: list[str] = []
    for address, guard, offset in _accesses(text, load.pointers, load.predicate, pieces):
        at = f"@${count} " if guard else ""
        where = _address(count + len(guard), offset)
        template = f"{at}{opcode} {_registers(0, count)}, {where};"
        tied = old[len(loaded) : len(loaded) + count]
        constraints = [f"={pieces.letter}"] * count + ["b"] * len(guard) + ["l"]
        constraints += [str(index) for index in range(len(tied))] + clobber
        args = [*(("i1", ref) for ref in guard), (pointer_type, address)]
        args += [(unit, ref) for ref in tied]
        value = text.define(asm_call(template, ",".join(constraints), result, args, "s"))
        if count == 1:
            loaded.append(value)
        else:
            loaded += [text.define(f"extractvalue {result} {value}, {i}") for i in range(count)]
    _bind_units(text, load.result, loaded, pieces)


def print_guarded_store(text: FunctionText, store: GuardedStoreOp) -> None:
    """One predicated `st` per piece."""
    pointer_type = type_text(scalar_of(store.pointers.type))
    pieces = _cut(store.value.type, store.pointers.type, store.align.data)
    units = _units(text, store.value, pieces)
    opcode = pieces.opcode("st", _order(store), _space(store.pointers.type), _cache(store.cache))
    unit, done = f"i{pieces.register_bits}", 0
    for address, guard, offset in _accesses(text, store.pointers, store.predicate, pieces):
        at, skip = ("@$0 ", 1) if guard else ("", 0)
        template = f"{at}{opcode} {_address(skip, offset)}, {_registers(skip + 1, pieces.units)};"
        constraints = ["b"] * skip + ["l"] + [pieces.letter] * pieces.units + ["~{memory}"]
        args = [*(("i1", ref) for ref in guard), (pointer_type, address)]
        args += [(unit, ref) for ref in units[done : done + pieces.units]]
        done += pieces.units
        text.emit(asm_call(template, ",".join(constraints), "void", args, "s"))
