"""Reads the body of a function: operation records, nested through regions.

Values are numbered in order of definition. A region's values are dropped at its end, and the
results of the operation that holds it take up the numbers again.
"""

from collections.abc import Callable

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.bytecode.attributes import read_array, read_hints, read_tagged
from tileiras.bytecode.constants import decode_dense
from tileiras.bytecode.debug_info import Locations
from tileiras.bytecode.format import PREVIEW_OPCODES, Version, version_text
from tileiras.bytecode.opcodes import ENUM_MEMBER_SINCE, HIGHEST_OPCODE, ROW_BY_OPCODE, plan
from tileiras.bytecode.schema import Arity, Attr, Kind, Plan
from tileiras.bytecode.streams import Cursor
from tileiras.bytecode.tables import Tables
from tileiras.bytecode.types import I1, I32, I64
from tileiras.limits import MAX_PROGRAM_SIZE, check_program_size

MAX_REGION_DEPTH = 128

_INT32_LIMITS = (-(2**31), 2**31 - 1)
_TRUE = IntegerAttr.from_bool(True)
_FALSE = IntegerAttr.from_bool(False)
_enum_members: dict[type[Attribute], tuple[tuple[Attribute, Version | None], ...]] = {}


class BodyReader:
    """Reads the records of one function."""

    def __init__(self, cursor: Cursor, tables: Tables, locations: Locations):
        self.cursor = cursor
        self._tables = tables
        self._locations = locations
        self._values: list[SSAValue] = []
        self._depth = 0
        self._group_size = 0

    def read_body(self, block: Block) -> None:
        """Fills the function's block until its bytes are used up."""
        self._values.extend(block.args)
        cursor = self.cursor
        while cursor.pos < cursor.end:
            block.add_op(self._read_op())

    def _read_op(self) -> Operation:
        cursor = self.cursor
        start = cursor.pos
        record = self._plan(cursor.varint(), start)
        location = self._locations.take(cursor, start)
        types = self._tables.types
        limit = len(types)
        count = record.results if record.results >= 0 else cursor.count("results")
        result_types = [types[cursor.varint_below(limit, "type index")] for _ in range(count)]
        numbered = count
        if record.late_results and not count:
            result_types.extend(record.late_results)
        flags = self._read_flags(record) if record.has_flags else 0
        properties: dict[str, Attribute] = {}
        for attr, mask in record.attrs:
            if attr.kind is Kind.UNIT:
                if flags & mask:
                    properties[attr.key] = attr.default  # type: ignore
            elif not mask or flags & mask:
                properties[attr.key] = _READ[attr.kind](self, attr, result_types)
        if record.segmented:
            operands = self._read_segments(record, flags, properties)
        else:
            operands = self._read_operands(record)
        for attr in record.missing:
            properties[attr.key] = attr.default or bool_array((0,) * self._group_size)
        size = self._tables.program_size = (
            self._tables.program_size + 1 + len(result_types) + len(operands)
        )
        if size > MAX_PROGRAM_SIZE:
            check_program_size(size)
        regions = self._read_regions(record) if record.regions else ()
        op = record.cls.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            location=location,  # type: ignore
            regions=regions,
        )
        self._values.extend(op.results[:numbered])
        return op

    def _plan(self, opcode: int, start: int) -> Plan:
        version = self._tables.version
        row = ROW_BY_OPCODE.get(opcode)
        if row is not None and opcode <= HIGHEST_OPCODE[version]:
            return plan(row, version)
        if row is not None:
            raise self.cursor.error(
                f"unsupported opcode {opcode} for bytecode version {version_text(version)}", start
            )
        if opcode in PREVIEW_OPCODES:
            raise self.cursor.error(
                f"opcode {opcode:#x} is preview content, which is not supported", start
            )
        raise self.cursor.error(f"unknown or unimplemented opcode: {opcode}", start)

    def _read_flags(self, record: Plan) -> int:
        start = self.cursor.pos
        flags = self.cursor.varint()
        if flags & ~record.known_flags:
            raise self.cursor.error(f"unknown flags {flags:#x} of '{record.cls.name}'", start)
        return flags

    def _value(self) -> SSAValue:
        values = self._values
        return values[self.cursor.varint_below(len(values), "operand index")]

    def _read_operands(self, record: Plan) -> list[SSAValue]:
        count = len(record.operands)
        if record.counted:
            start, least = self.cursor.pos, record.least_operands
            count = self.cursor.count("operands")
            if count < least:
                raise self.cursor.error(
                    f"'{record.cls.name}' has {count} operands, expected at least {least}", start
                )
        values, cursor, limit = self._values, self.cursor, len(self._values)
        return [values[cursor.varint_below(limit, "operand index")] for _ in range(count)]

    def _read_segments(
        self, record: Plan, flags: int, properties: dict[str, Attribute]
    ) -> list[SSAValue]:
        operands: list[SSAValue] = []
        sizes = []
        for operand, mask in record.operands:
            match operand.arity:
                case Arity.ONE:
                    size = 1
                case Arity.OPTIONAL:
                    size = int(flags & mask != 0)
                case Arity.ANY:
                    size = self._group_size = self.cursor.count("operands")
            for _ in range(size):
                operands.append(self._value())
            sizes.append(size)
        properties["operandSegmentSizes"] = segment_sizes(tuple(sizes))
        return operands

    def _read_regions(self, record: Plan) -> list[Region]:
        cursor = self.cursor
        start = cursor.pos
        count = cursor.varint()
        if count != record.regions:
            raise cursor.error(
                f"'{record.cls.name}' has {count} regions, expected {record.regions}", start
            )
        if self._depth >= MAX_REGION_DEPTH:
            raise cursor.error(f"regions are nested more than {MAX_REGION_DEPTH} deep", start)
        self._depth += 1
        regions = []
        for _ in range(count):
            blocks = [self._read_block() for _ in range(cursor.count("blocks", 2))]
            regions.append(Region(blocks))
        self._depth -= 1
        return regions

    def _read_block(self) -> Block:
        cursor = self.cursor
        count = cursor.count("block arguments")
        block = Block(arg_types=[self._tables.type(cursor) for _ in range(count)])
        outer = len(self._values)
        self._values.extend(block.args)
        for _ in range(cursor.count("operations")):
            block.add_op(self._read_op())
        del self._values[outer:]
        return block

    def read_enum(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A member by its position."""
        start = self.cursor.pos
        number = self.cursor.varint()
        assert attr.enum is not None
        members = _enum_members.get(attr.enum) or _load_members(attr.enum)
        if number >= len(members):
            raise self.cursor.error(f"invalid enum value {number} of '{attr.key}'", start)
        member, since = members[number]
        if since is not None and since > self._tables.version:
            version = version_text(self._tables.version)
            raise self.cursor.error(
                f"enum value {number} is not available in bytecode version {version}", start
            )
        return member

    def read_constant(self, attr: Attr, result_types: list[Attribute]) -> Attribute:
        """A constant of the result's type."""
        start = self.cursor.pos
        data = self._tables.constant(self.cursor)
        return decode_dense(result_types[0], data, self.cursor, start)

    def read_int32_array(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A counted array of 32-bit integers, none of them an extreme."""
        start = self.cursor.pos
        values = self.cursor.ints(4, f"entries of '{attr.key}'")
        if any(value in _INT32_LIMITS for value in values):
            raise self.cursor.error("array contains unsupported value", start)
        return DenseArrayBase.from_list(I32, values)

    def read_bool_array(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A counted array of bytes, 0 or 1."""
        return bool_array(self.cursor.ints(1, f"entries of '{attr.key}'"))

    def read_int(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """An integer of the width that its kind names."""
        if attr.kind is Kind.INT32:
            return IntegerAttr(self.cursor.unsigned(32, f"'{attr.key}'"), I32)
        return IntegerAttr(self.cursor.unsigned(64, f"'{attr.key}'"), I64)

    def read_bool(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A byte, zero or not."""
        return _TRUE if self.cursor.byte() else _FALSE

    def read_string(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A string by its id."""
        return self._tables.string(self.cursor)

    def read_symbol(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """The name of a global by its string id."""
        return SymbolRefAttr(self._tables.string(self.cursor))

    def read_array(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """A counted list of tagged attributes."""
        return read_array(self.cursor, self._tables)

    def read_hints(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """Optimization hints without their tag."""
        return read_hints(self.cursor, self._tables)

    def read_tagged(self, attr: Attr, _: list[Attribute]) -> Attribute:
        """Any tagged attribute."""
        return read_tagged(self.cursor, self._tables)


_READ: dict[Kind, Callable[[BodyReader, Attr, list[Attribute]], Attribute]] = {
    Kind.ENUM: BodyReader.read_enum,
    Kind.CONSTANT: BodyReader.read_constant,
    Kind.INT32_ARRAY: BodyReader.read_int32_array,
    Kind.BOOL_ARRAY: BodyReader.read_bool_array,
    Kind.INT32: BodyReader.read_int,
    Kind.INT64: BodyReader.read_int,
    Kind.BOOL: BodyReader.read_bool,
    Kind.STRING: BodyReader.read_string,
    Kind.SYMBOL: BodyReader.read_symbol,
    Kind.ARRAY: BodyReader.read_array,
    Kind.HINTS: BodyReader.read_hints,
    Kind.TAGGED: BodyReader.read_tagged,
}

_segments: dict[tuple[int, ...], DenseArrayBase[IntegerType]] = {}
_bools: dict[tuple[int, ...], DenseArrayBase[IntegerType]] = {}
_CACHED_LENGTH = 8


def segment_sizes(sizes: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    """The `operandSegmentSizes` property."""
    known = _segments.get(sizes)
    if known is None:
        known = DenseArrayBase.from_list(I32, sizes)
        if max(sizes) < _CACHED_LENGTH:
            _segments[sizes] = known
    return known


def bool_array(values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    """A dense array of i1."""
    known = _bools.get(values)
    if known is None:
        known = DenseArrayBase.from_list(I1, [int(value != 0) for value in values])
        if len(values) < _CACHED_LENGTH:
            _bools[values] = known
    return known


def _load_members(enum: type) -> tuple[tuple[Attribute, Version | None], ...]:
    """All members of an enum attribute in order, each with the version that added it."""
    newer = ENUM_MEMBER_SINCE.get(enum, {})
    result = tuple((enum(member), newer.get(member)) for member in enum.enum_type)
    _enum_members[enum] = result
    return result
