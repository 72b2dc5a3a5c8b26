"""The syntax tree of a PTX module (PTX ISA, "Syntax" and "Directives")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Name:
    """A register, variable, label or special register; `index` for `name[3]`."""

    text: str
    index: int | None = None


@dataclass(frozen=True)
class Immediate:
    """A literal: an int, or a float kept with the bits it was written with (0 for decimal)."""

    value: int | float
    bits: int = 0
    pattern: int = 0


@dataclass(frozen=True)
class Negated:
    """`!p`."""

    name: Name


@dataclass(frozen=True)
class Pair:
    """`p|q`: two destinations."""

    first: Any
    second: Any


@dataclass(frozen=True)
class Sum:
    """`name+4` outside of brackets."""

    name: Name
    offset: int


@dataclass(frozen=True)
class Vector:
    """`{a, b, c}`."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or `[base+offset, rest]` for tensors (coordinates, im2col offsets)."""

    base: Any
    offset: int
    rest: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Group:
    """`(a, b)`: arguments or results of a call."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Variable:
    """A declaration: `.shared .align 16 .b8 buffer[1024];`, or a register."""

    space: str
    type: str
    name: str
    line: int
    align: int = 0
    shape: tuple[int, ...] = ()
    is_array: bool = False
    vector: int = 1
    initial: Any = None
    is_extern: bool = False


@dataclass(frozen=True)
class Instruction:
    """`@p opcode.modifier.modifier operand, operand;`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Any, ...]
    line: int
    guard: Name | None = None
    is_guard_negated: bool = False

    @property
    def text(self) -> str:
        """The opcode with its modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Label:
    """`name:`."""

    name: str
    line: int


@dataclass(frozen=True)
class TargetList:
    """`name: .branchtargets a, b;` (also `.calltargets`)."""

    name: str
    targets: tuple[str, ...]
    line: int


@dataclass
class Block:
    """`{ ... }`: a scope of registers, variables and labels."""

    statements: list[Any] = field(default_factory=list)


@dataclass
class Function:
    """`.entry` or `.func`; `directives` are the performance directives with their numbers."""

    name: str
    is_entry: bool
    line: int
    results: tuple[Variable, ...] = ()
    parameters: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    body: Block | None = None


@dataclass
class Module:
    """A PTX file."""

    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
