"""Writes the body of a function: the mirror of `records.py`."""

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.bytecode.attributes import put_array, put_dictionary, put_tagged
from tileiras.bytecode.constants import encode_dense
from tileiras.bytecode.debug_info import DebugWriter
from tileiras.bytecode.format import version_text
from tileiras.bytecode.opcodes import ENUM_MEMBER_SINCE, ROW_BY_CLASS, plan
from tileiras.bytecode.records import MAX_REGION_DEPTH
from tileiras.bytecode.schema import Arity, Attr, Kind, OpRow, Plan
from tileiras.bytecode.streams import put_ints, put_varint
from tileiras.bytecode.tables import TablesWriter
from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.errors import BytecodeError

_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1


class BodyWriter:
    """Writes the records of one function; `locations` collects one debug id for each."""

    def __init__(self, tables: TablesWriter, debug: DebugWriter):
        self.tables = tables
        self.locations: list[int] = []
        self._debug = debug
        self._ids: dict[SSAValue, int] = {}
        self._next = 0
        self._depth = 0

    def write_body(self, block: Block) -> bytes:
        """The records of a function's block."""
        self._number(block.args)
        out = bytearray()
        for op in block.ops:
            self._write_op(out, op)
        return bytes(out)

    def error(self, op: Operation, message: str) -> BytecodeError:
        """The error to raise for an operation that cannot be written."""
        return BytecodeError(f"'{op.name}' {message}", source_location(op.location))

    def _number(self, values: Any) -> None:
        for value in values:
            self._ids[value] = self._next
            self._next += 1

    def _write_op(self, out: bytearray, op: Operation) -> None:
        row = ROW_BY_CLASS.get(type(op))  # type: ignore
        if row is None:
            raise self.error(op, "cannot be written as Tile IR bytecode")
        record = self._plan(op, row)
        self.locations.append(self._debug.id(op.location))
        put_varint(out, row.opcode)
        results = op.results[: len(op.results) - len(record.late_results)]
        types = [self.tables.types.id(result.type) for result in results]
        if record.results < 0:
            put_varint(out, len(types))
        elif record.results != len(types):
            raise self.error(op, f"has {len(types)} results, expected {record.results}")
        for number in types:
            put_varint(out, number)
        sizes = self._segment_sizes(op, record)
        if record.has_flags:
            put_varint(out, self._flags(op, record, sizes))
        for attr, _ in record.attrs:
            value = op.properties.get(attr.key)
            if attr.kind is not Kind.UNIT and value is not None:
                self._put_attr(out, op, attr, value)
            elif not attr.flagged:
                raise self.error(op, f"lacks the attribute '{attr.key}'")
        self._put_operands(out, op, record, sizes)
        if record.regions:
            self._put_regions(out, op, record)
        self._number(results)

    def _plan(self, op: Operation, row: OpRow) -> Plan:
        """The record for the version, after a check that the version has all that `op` uses."""
        version = self.tables.version
        if row.since > version:
            raise self._newer(op, "operation", row.since)
        record = plan(row, version)
        for attr in row.attrs:
            value = op.properties.get(attr.key)
            if attr.key in record.absent and value is not None and not _is_default(attr, value):
                raise self._newer(op, f"attribute '{attr.key}'", attr.since or row.since)
        if record.late_results and row.late_results:
            late = op.results[len(op.results) - len(record.late_results) :]
            if any(result.first_use is not None for result in late):
                raise self._newer(op, "result token", row.late_results[0])
        return record

    def _newer(self, op: Operation, what: str, since: tuple[int, int]) -> BytecodeError:
        return self.error(
            op,
            f"{what} requires bytecode version {version_text(since)}+, "
            f"but targeting {version_text(self.tables.version)}",
        )

    def _segment_sizes(self, op: Operation, record: Plan) -> tuple[int, ...]:
        if not record.segmented:
            return ()
        sizes = op.properties.get("operandSegmentSizes")
        if not isinstance(sizes, DenseArrayBase) or len(sizes) != len(record.operands):
            raise self.error(op, f"needs operandSegmentSizes of {len(record.operands)} groups")
        result = tuple(int(size) for size in sizes.get_values())
        for (operand, _), size in zip(record.operands, result):
            if operand.name in record.absent and size and operand.since:
                raise self._newer(op, f"operand '{operand.name}'", operand.since)
        return result

    def _flags(self, op: Operation, record: Plan, sizes: tuple[int, ...]) -> int:
        flags = 0
        for attr, mask in record.attrs:
            if mask and attr.key in op.properties:
                flags |= mask
        for (_, mask), size in zip(record.operands, sizes):
            if size:
                flags |= mask
        return flags

    def _put_operands(
        self, out: bytearray, op: Operation, record: Plan, sizes: tuple[int, ...]
    ) -> None:
        ids = [self._id(op, operand) for operand in op.operands]
        if not record.segmented:
            if record.counted:
                put_varint(out, len(ids))
            elif len(ids) != len(record.operands):
                raise self.error(op, f"has {len(ids)} operands, expected {len(record.operands)}")
            for number in ids:
                put_varint(out, number)
            return
        start = 0
        for (operand, _), size in zip(record.operands, sizes):
            if operand.arity is Arity.ANY:
                put_varint(out, size)
            for number in ids[start : start + size]:
                put_varint(out, number)
            start += size

    def _id(self, op: Operation, value: SSAValue) -> int:
        number = self._ids.get(value)
        if number is None:
            raise self.error(op, "uses a value that is not defined before it")
        return number

    def _put_regions(self, out: bytearray, op: Operation, record: Plan) -> None:
        if len(op.regions) != record.regions:
            raise self.error(op, f"has {len(op.regions)} regions, expected {record.regions}")
        if self._depth >= MAX_REGION_DEPTH:
            raise self.error(op, f"is nested more than {MAX_REGION_DEPTH} regions deep")
        put_varint(out, record.regions)
        self._depth += 1
        for region in op.regions:
            self._put_region(out, region)
        self._depth -= 1

    def _put_region(self, out: bytearray, region: Region) -> None:
        blocks = tuple(region.blocks)
        put_varint(out, len(blocks))
        for block in blocks:
            put_varint(out, len(block.args))
            for arg in block.args:
                put_varint(out, self.tables.types.id(arg.type))
            outer = self._next
            self._number(block.args)
            ops = tuple(block.ops)
            put_varint(out, len(ops))
            for op in ops:
                self._write_op(out, op)
            self._next = outer

    def _put_attr(self, out: bytearray, op: Operation, attr: Attr, value: Attribute) -> None:
        put, expected = _PUT[attr.kind]
        if not isinstance(value, attr.enum or expected):
            raise self.error(op, f"attribute '{attr.key}' cannot be {value}")
        put(self, out, op, attr, value)

    def _put_enum(self, out: bytearray, op: Operation, attr: Attr, value: Attribute) -> None:
        member = cast(Any, value).data
        since = ENUM_MEMBER_SINCE.get(type(value), {}).get(member)  # type: ignore
        if since is not None and since > self.tables.version:
            raise self._newer(op, f"{attr.key} '{member}'", since)
        put_varint(out, list(cast(Any, value).enum_type).index(member))

    def _put_int(self, out: bytearray, op: Operation, attr: Attr, value: IntegerAttr) -> None:
        mask = _MASK_32 if attr.kind is Kind.INT32 else _MASK_64
        put_varint(out, value.value.data & mask)

    def _put_bool(self, out: bytearray, op: Operation, attr: Attr, value: IntegerAttr) -> None:
        out.append(value.value.data & 1)

    def _put_string(self, out: bytearray, op: Operation, attr: Attr, value: StringAttr) -> None:
        put_varint(out, self.tables.string(value.data))

    def _put_symbol(self, out: bytearray, op: Operation, attr: Attr, value: SymbolRefAttr) -> None:
        put_varint(out, self.tables.string(value.root_reference.data))

    def _put_constant(self, out: bytearray, op: Operation, attr: Attr, value: DenseAttr) -> None:
        put_varint(out, self.tables.constants.id(encode_dense(value)))

    def _put_int32_array(
        self, out: bytearray, op: Operation, attr: Attr, value: DenseArrayBase[IntegerType]
    ) -> None:
        put_ints(out, value.get_values(), 4)

    def _put_bool_array(
        self, out: bytearray, op: Operation, attr: Attr, value: DenseArrayBase[IntegerType]
    ) -> None:
        put_ints(out, [item & 1 for item in value.get_values()], 1)

    def _put_array(self, out: bytearray, op: Operation, attr: Attr, value: ArrayAttr) -> None:
        put_array(out, value, self.tables)

    def _put_hints(
        self, out: bytearray, op: Operation, attr: Attr, value: OptimizationHintsAttr
    ) -> None:
        put_dictionary(out, value.value, self.tables)

    def _put_tagged(self, out: bytearray, op: Operation, attr: Attr, value: Attribute) -> None:
        put_tagged(out, value, self.tables)

    PUT: dict[Kind, tuple[Callable, type]] = {
        Kind.ENUM: (_put_enum, Attribute),
        Kind.INT32: (_put_int, IntegerAttr),
        Kind.INT64: (_put_int, IntegerAttr),
        Kind.BOOL: (_put_bool, IntegerAttr),
        Kind.STRING: (_put_string, StringAttr),
        Kind.SYMBOL: (_put_symbol, SymbolRefAttr),
        Kind.CONSTANT: (_put_constant, DenseAttr),
        Kind.INT32_ARRAY: (_put_int32_array, DenseArrayBase),
        Kind.BOOL_ARRAY: (_put_bool_array, DenseArrayBase),
        Kind.ARRAY: (_put_array, ArrayAttr),
        Kind.HINTS: (_put_hints, OptimizationHintsAttr),
        Kind.TAGGED: (_put_tagged, Attribute),
    }


_PUT = BodyWriter.PUT


def _is_default(attr: Attr, value: Attribute) -> bool:
    """Whether leaving the attribute out means the same to a reader."""
    if attr.kind is Kind.BOOL_ARRAY and isinstance(value, DenseArrayBase):
        return not any(value.get_values())
    return attr.kind is not Kind.UNIT and value == attr.default
