"""How rules read an instruction: modifiers are taken one by one, operands become functions.

A rule is called once for an instruction and returns what runs each time. It must take every
modifier: what is left over is an error, so no modifier is silently ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tileiras.interpreter.ptx.errors import PtxSyntaxError
from tileiras.interpreter.ptx.program import Kernel, Ready, Reg, Sink, Special, Sym, Target
from tileiras.interpreter.ptx.special import special_register
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Address, Immediate, Negated, Pair, Vector
from tileiras.interpreter.ptx.types import PRED, TYPES, PtxType

Execute = Callable[[Cta, Active], None]
Read = Callable[[Cta], np.ndarray]
Write = Callable[[Cta, Active, np.ndarray], None]
Members = Callable[[Cta, Active], np.ndarray]


@dataclass
class Step:
    """A decoded instruction. `is_control` sets program counters itself; `members` makes threads
    of a warp meet: it gives, per warp, the mask of lanes that must come (None: all live)."""

    run: Execute
    line: int
    guard: int | None = None
    negated: bool = False
    is_control: bool = False
    meets: bool = False
    members: Members | None = None
    slots: frozenset[int] = frozenset()
    text: str = ""
    is_accumulating: bool = False
    written: tuple[int, ...] = ()


class Decoder:
    """One instruction being decoded."""

    def __init__(self, kernel: Kernel, ready: Ready):
        self.kernel = kernel
        self.opcode = ready.source.opcode
        self.modifiers = list(ready.source.modifiers)
        self.operands = list(ready.operands)
        self.line = ready.line
        self.text = ready.source.text
        self.is_control = False
        self.meets = False
        self.members: Members | None = None
        self.is_accumulating = False
        self.written: list[int] = []

    def error(self, message: str) -> NoReturn:
        """Ends decoding: the instruction is malformed or not known."""
        raise PtxSyntaxError(f"{self.text}: {message}", self.line)

    # Modifiers --------------------------------------------------------------------------------

    def flag(self, *names: str) -> bool:
        """Whether one of the modifiers is there; takes it."""
        return self.choice(*names) is not None

    def choice(self, *names: str) -> str | None:
        """The first modifier that is one of `names`, taken."""
        for modifier in self.modifiers:
            if modifier in names:
                self.modifiers.remove(modifier)
                return modifier
        return None

    def starting(self, prefix: str) -> str | None:
        """The first modifier with a prefix, taken, without the prefix."""
        for modifier in self.modifiers:
            if modifier.startswith(prefix):
                self.modifiers.remove(modifier)
                return modifier.removeprefix(prefix)
        return None

    def type(self) -> PtxType:
        """The last modifier as a type, taken."""
        if not self.modifiers:
            self.error("no type")
        name = self.modifiers.pop()
        if name not in TYPES:
            self.error(f"'.{name}' is no type")
        return TYPES[name]

    def done(self) -> None:
        """Checks that every modifier was taken."""
        if self.modifiers:
            self.error(f"unknown modifier '.{self.modifiers[0]}'")

    def count(self, *numbers: int) -> int:
        """The number of operands, which must be one of `numbers`."""
        if len(self.operands) not in numbers:
            wanted = " or ".join(map(str, numbers))
            self.error(f"{len(self.operands)} operands, expected {wanted}")
        return len(self.operands)

    # Operands ---------------------------------------------------------------------------------

    def src(self, operand: Any, type_: PtxType, widens: bool = False) -> Read:
        """Reads an operand (or operand number) as a type. A wider register is cut; a narrower
        one is an error unless `widens` (ld, st and cvt allow it)."""
        if isinstance(operand, int):
            operand = self.operands[operand]
        match operand:
            case Reg():
                return self._register(operand, type_, widens)
            case Immediate():
                constant = self.constant(operand, type_)
                return lambda cta: constant
            case Special(name=name):
                read = special_register(name)
                if read is None:
                    self.error(f"unknown special register '%{name}'")
                held, seen = type_.held, type_.seen
                return lambda cta: read(cta).astype(held).view(seen)
            case Sym():
                symbol = operand
                held, seen = type_.held, type_.seen
                return lambda cta: (
                    np.full(1, cta.address_of(symbol), np.uint64).astype(held).view(seen)
                )
            case Negated(name=inner) if type_ is PRED:
                read = self.src(inner, PRED)
                return lambda cta: ~read(cta)
        return self.error(f"an operand that cannot be read as .{type_.name}")

    def _register(self, operand: Reg, type_: PtxType, widens: bool) -> Read:
        slot, own = operand.slot, operand.type
        held, seen = type_.held, type_.seen
        if (own is PRED) != (type_ is PRED):
            self.error(f"a register of type .{own.name} where .{type_.name} is expected")
        if own.bits == type_.bits:
            if own.held == seen:
                return lambda cta: cta.regs[slot]
            return lambda cta: cta.regs[slot].view(seen)
        if own.bits < type_.bits and not widens:
            self.error(f"a register of type .{own.name} where .{type_.name} is expected")
        return lambda cta: cta.regs[slot].astype(held).view(seen)

    def constant(self, operand: Immediate, type_: PtxType) -> np.ndarray:
        """A literal as an array of one element."""
        value = operand.value
        if type_ is PRED:
            return np.array([bool(value)])
        if type_.seen.kind == "f" and type_.name in ("f32", "f64"):
            if operand.bits == type_.bits:
                return np.array([operand.pattern], type_.held).view(type_.seen)
            return np.array([value], np.float64).astype(type_.seen)
        if isinstance(value, float):
            if operand.bits:
                return np.array([operand.pattern & ((1 << type_.bits) - 1)], type_.held)
            self.error(f"a float literal where .{type_.name} is expected")
        mask = (1 << min(type_.bits, 64)) - 1
        return np.array([value & mask], np.uint64).astype(type_.held).view(type_.seen)

    def dst(self, operand: Any, type_: PtxType, widens: bool = False) -> Write:
        """Writes a result of a type into an operand (or operand number); a wider register is
        extended by the type's sign where `widens`."""
        if isinstance(operand, int):
            operand = self.operands[operand]
        if isinstance(operand, Sink):
            return _discard
        if not isinstance(operand, Reg):
            self.error("the destination is no register")
        slot, own = operand.slot, operand.type
        self.written.append(slot)
        if (own is PRED) != (type_ is PRED):
            self.error(f"a register of type .{own.name} where .{type_.name} is expected")
        if own.bits != type_.bits and not (widens and own.bits > type_.bits):
            self.error(f"a register of type .{own.name} where .{type_.name} is expected")
        return _writer(slot, own, type_)

    def address(self, operand: Any) -> Read:
        """The byte addresses of `[base+offset]` as uint64; 32-bit bases stay below 2**32."""
        if isinstance(operand, int):
            operand = self.operands[operand]
        if not isinstance(operand, Address):
            self.error("expected an address in brackets")
        base, offset = operand.base, operand.offset
        match base:
            case None:
                fixed = np.array([offset], np.uint64)
                return lambda cta: fixed
            case Sym():
                symbol = Sym(base.space, base.name, base.address, base.offset + offset)
                return lambda cta: np.array([cta.address_of(symbol)], np.uint64)
            case Reg(slot=slot) if base.type.bits == 64:
                step = np.uint64(offset % (1 << 64))
                if not offset:
                    return lambda cta: cta.regs[slot]
                return lambda cta: cta.regs[slot] + step
            case Reg(slot=slot) if base.type.bits == 32:
                step32 = np.uint32(offset % (1 << 32))
                return lambda cta: (cta.regs[slot] + step32).astype(np.uint64)
        return self.error("the base of an address is no register of 32 or 64 bits and no variable")

    def space_of(self, operand: Any) -> str | None:
        """The state space of an address that names a variable."""
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Sym):
            return "shared" if base.space == "dynamic" else base.space
        return None

    def items(self, operand: Any) -> tuple[Any, ...]:
        """The elements of `{a, b}`, or the one operand."""
        if isinstance(operand, int):
            operand = self.operands[operand]
        return operand.items if isinstance(operand, Vector) else (operand,)

    def pair(self, operand: Any) -> tuple[Any, Any]:
        """`p|q`; a single one has no second."""
        if isinstance(operand, int):
            operand = self.operands[operand]
        if isinstance(operand, Pair):
            return operand.first, operand.second
        return operand, Sink()

    def target(self, number: int) -> Target:
        """A label operand."""
        found = self.operands[number]
        if not isinstance(found, Target):
            self.error("expected a label")
        return found

    def meet(self, members: Members | None = None) -> None:
        """Makes the threads of a warp come together before the instruction runs."""
        self.meets = True
        self.members = members


def _discard(cta: Cta, on: Active, value: np.ndarray) -> None:
    """A result that nobody wants."""


def _writer(slot: int, own: PtxType, type_: PtxType) -> Write:
    held = own.held
    if own.bits == 128:

        def write_wide(cta: Cta, on: Active, value: np.ndarray) -> None:
            np.copyto(cta.regs[slot], value, where=on.mask[:, None])

        return write_wide
    if own.bits != type_.bits:
        target = np.dtype(f"i{held.itemsize}") if type_.is_signed else held

        def write_extended(cta: Cta, on: Active, value: np.ndarray) -> None:
            wide = value.view(type_.seen).astype(target).view(held)
            np.copyto(cta.regs[slot], wide, where=on.mask)

        return write_extended

    def write(cta: Cta, on: Active, value: np.ndarray) -> None:
        if value.dtype != held:
            value = value.view(held)
        if on.is_full:
            cta.regs[slot][...] = value
        else:
            np.copyto(cta.regs[slot], value, where=on.mask)

    return write


def slots_of(operands: Any) -> frozenset[int]:
    """The registers that operands name."""
    found: list[int] = []
    stack = list(operands)
    while stack:
        item = stack.pop()
        match item:
            case Reg(slot=slot):
                found.append(slot)
            case Vector(items=items):
                stack.extend(items)
            case Address(base=base, rest=rest):
                stack.extend((base, *rest))
            case Negated(name=name):
                stack.append(name)
            case Pair(first=first, second=second):
                stack.extend((first, second))
    return frozenset(found)


def spread(values: np.ndarray, cta: Cta) -> np.ndarray:
    """A value per thread, also of a constant."""
    return np.broadcast_to(values, (cta.threads,)) if values.shape[0] == 1 else values
