"""What an operation record holds, as data: the vocabulary of the rows in `opcodes.py`.

A record is: opcode, result types, flags, attributes, operands, regions. Which of these a file has
depends on its version: `plan_for` resolves a row for one version, so that reading does not ask.
"""

from enum import Enum, auto
from typing import Any, NamedTuple

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation

from tileiras.bytecode.format import Version

EnumClass = type[Data[Any]]
"""An enum attribute's class; `enum_type` lists its members in the order of their numbers."""

MANY = -1
"""Result types are counted in the record."""


class Kind(Enum):
    """How an attribute is encoded inline."""

    UNIT = auto()
    ENUM = auto()
    INT32 = auto()
    INT64 = auto()
    BOOL = auto()
    STRING = auto()
    SYMBOL = auto()
    CONSTANT = auto()
    INT32_ARRAY = auto()
    BOOL_ARRAY = auto()
    ARRAY = auto()
    HINTS = auto()
    TAGGED = auto()


class Arity(Enum):
    """How an operand is encoded: an index, an index if flagged, a count and indices."""

    ONE = auto()
    OPTIONAL = auto()
    ANY = auto()


class Attr(NamedTuple):
    """An attribute of an operation: property key, encoding, first version that has it."""

    key: str
    kind: Kind
    enum: EnumClass | None = None
    optional: bool = False
    since: Version | None = None
    default: Attribute | None = None
    """What older files mean; a bool array defaults to false for every index."""

    @property
    def flagged(self) -> bool:
        """Whether a flag bit announces it."""
        return self.optional or self.kind is Kind.UNIT


class Operand(NamedTuple):
    """An operand group: `name`, `name?` or `name*` in the rows."""

    name: str
    arity: Arity
    since: Version | None = None


class OpRow(NamedTuple):
    """One operation of the bytecode."""

    opcode: int
    cls: type[IRDLOperation]
    since: Version
    operands: tuple[Operand, ...]
    attrs: tuple[Attr, ...]
    results: int
    late_results: tuple[Version, tuple[Attribute, ...]] | None
    """Results that older files neither store nor number, and since when they do."""
    regions: int

    @property
    def segmented(self) -> bool:
        """Whether operand groups are encoded one by one."""
        options = self.cls.get_irdl_definition().options
        return any(isinstance(option, AttrSizedOperandSegments) for option in options)


class Plan(NamedTuple):
    """A row resolved for one version. A mask of 0 means unconditionally present."""

    opcode: int
    cls: type[IRDLOperation]
    results: int
    late_results: tuple[Attribute, ...]
    has_flags: bool
    known_flags: int
    attrs: tuple[tuple[Attr, int], ...]
    missing: tuple[Attr, ...]
    """Attributes that the version lacks and that are not optional."""
    absent: tuple[str, ...]
    """Keys and operand names that the version cannot express."""
    operands: tuple[tuple[Operand, int], ...]
    segmented: bool
    counted: bool
    least_operands: int
    regions: int


UNIT = UnitAttr()


def plan_for(row: OpRow, version: Version) -> Plan:
    """Resolves flag bits and version gates of a row.

    Flag bits go by the version that introduced the field, then attributes before operands, each in
    declaration order. The flags varint itself exists once any flagged field does.
    """
    segmented = row.segmented
    flagged: list[tuple[Version, Attr | Operand]] = [
        (attr.since or row.since, attr) for attr in row.attrs if attr.flagged
    ]
    if segmented:
        flagged += [
            (operand.since or row.since, operand)
            for operand in row.operands
            if operand.arity is Arity.OPTIONAL
        ]
    flagged.sort(key=lambda pair: pair[0])
    bits = {id(field): 1 << bit for bit, (_, field) in enumerate(flagged)}
    has = {id(field): since <= version for since, field in flagged}
    attrs, missing, absent = [], [], []
    for attr in row.attrs:
        if (attr.since or row.since) <= version:
            attrs.append((attr, bits.get(id(attr), 0)))
        else:
            absent.append(attr.key)
            if not attr.flagged:
                missing.append(attr)
    operands = []
    for operand in row.operands:
        if (operand.since or row.since) <= version:
            operands.append((operand, bits.get(id(operand), 0)))
        else:
            absent.append(operand.name)
            operands.append((operand, 0))
    late = row.late_results is not None and version < row.late_results[0]
    return Plan(
        opcode=row.opcode,
        cls=row.cls,
        results=row.results,
        late_results=row.late_results[1] if late and row.late_results else (),
        has_flags=any(has.values()),
        known_flags=sum(bit for key, bit in bits.items() if has[key]),
        attrs=tuple(attrs),
        missing=tuple(missing),
        absent=tuple(absent),
        operands=tuple(operands),
        segmented=segmented,
        counted=not segmented and any(o.arity is not Arity.ONE for o in row.operands),
        least_operands=sum(operand.arity is Arity.ONE for operand in row.operands),
        regions=row.regions,
    )
