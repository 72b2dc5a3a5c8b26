"""The debug section: per function a list of locations, one for each operation, and their records.

A record refers to others by id, counted from 1; 0 is the unknown location. Records may be shared,
so a small file could stand for an endless tree: reading bounds the nesting and the expanded size.
"""

import struct
from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import FusedLoc, IntAttr, NameLoc, UnknownLoc
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode.format import V13_5, DebugTag
from tileiras.bytecode.streams import Cursor, put_varint, read_offset_table
from tileiras.bytecode.tables import BlobTable, Tables, TablesWriter
from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DICompileUnitAttr,
    DIFileAttr,
    DIFusedLoc,
    DILexicalBlockAttr,
    DILocAttr,
    DINameLoc,
    DISubprogramAttr,
    source_location,
)
from tileiras.errors import BytecodeError

UNKNOWN = UnknownLoc()
LOCATIONS = (DILocAttr, DICallSiteLoc, UnknownLoc)
MAX_DEPTH = 128
MAX_EXPANDED = 4096
"""Records that one location stands for, counting shared ones every time."""


class DebugInfo:
    """The locations of a file; records are decoded on first use."""

    def __init__(self, cursor: Cursor, tables: Tables):
        self._tables = tables
        base = cursor.pos
        functions = cursor.count("functions with debug info", 4)
        cursor.align(4, base)
        self._starts = _fixed(cursor, functions, "I", 4)
        self._starts_end = cursor.pos
        total = cursor.count("locations", 8)
        cursor.align(8, base)
        self._ids = _fixed(cursor, total, "Q", 8)
        self._ids_end = cursor.pos
        self._items = read_offset_table(cursor, 4, "debug attributes", base)
        self._known: dict[int, tuple[Attribute, int]] = {0: (UNKNOWN, 1)}
        self._open: list[int] = []

    def function_locations(self, index: int, cursor: Cursor, at: int) -> "Locations":
        """The list of the function whose location index is `index`, read at byte `at`."""
        if index > len(self._starts):
            raise cursor.error(
                f"location index {index} is out of range, there are {len(self._starts)}", at
            )
        start = self._starts[index - 1]
        end = self._starts[index] if index < len(self._starts) else len(self._ids)
        if not start <= end <= len(self._ids):
            raise cursor.error(f"debug info of function {index} is out of range", at)
        return Locations(self, self._ids[start:end])

    def read_all(self) -> list[Attribute]:
        """Decodes every record of the section, in order."""
        return [self.attribute(number) for number in range(1, len(self._items) + 1)]

    def attribute(self, number: int) -> Attribute:
        """The attribute of an id."""
        known = self._known.get(number)
        if known is None:
            if number > len(self._items):
                raise BytecodeError(
                    f"debug attribute {number} is out of range, there are {len(self._items)}",
                    offset=self._ids_end,
                )
            known = self._decode(number)
        return known[0]

    def _decode(self, number: int) -> tuple[Attribute, int]:
        source = self._items[number - 1]
        cursor = Cursor(source.data, source.pos, source.end)
        if number in self._open:
            raise cursor.error(f"debug attribute {number} refers to itself")
        if len(self._open) >= MAX_DEPTH:
            raise cursor.error(f"debug attributes are nested more than {MAX_DEPTH} deep")
        self._open.append(number)
        record = _Record(self, cursor)
        start = cursor.pos
        try:
            attr = record.read(self._tables)
        except VerifyException as error:
            raise cursor.error(f"invalid debug attribute {number}: {error}", start) from error
        if record.size > MAX_EXPANDED:
            raise cursor.error("a debug attribute stands for too large a tree", start)
        self._open.pop()
        result = self._known[number] = (attr, record.size)
        return result

    def component(self, cursor: Cursor) -> tuple[Attribute, int]:
        """The attribute whose id comes next, and its expanded size."""
        number = cursor.varint_below(len(self._items) + 1, "debug attribute")
        return self._known.get(number) or self._decode(number)


class _Record:
    """Reads one record and adds up the size of what it refers to."""

    def __init__(self, info: DebugInfo, cursor: Cursor):
        self._info = info
        self._cursor = cursor
        self.size = 1

    def _ref(self, expected: tuple[type[Attribute], ...], what: str) -> Attribute:
        start = self._cursor.pos
        attr, size = self._info.component(self._cursor)
        self.size += size
        if not isinstance(attr, expected):
            raise self._cursor.error(f"{what} cannot be {attr.name}", start)
        return attr

    def _scope(self) -> Attribute:
        return self._ref((DISubprogramAttr, DILexicalBlockAttr), "a scope")

    def _file(self) -> DIFileAttr:
        return cast(DIFileAttr, self._ref((DIFileAttr,), "a file"))

    def _number(self, what: str) -> IntAttr:
        return IntAttr(self._cursor.unsigned(32, what))

    def read(self, tables: Tables) -> Attribute:
        """Decodes the record; one with an unknown tag is an unknown location."""
        cursor = self._cursor
        match cursor.varint():
            case DebugTag.COMPILE_UNIT:
                return DICompileUnitAttr(self._file())
            case DebugTag.FILE:
                return DIFileAttr(tables.debug_string(cursor), tables.debug_string(cursor))
            case DebugTag.LEXICAL_BLOCK:
                return DILexicalBlockAttr(
                    self._scope(), self._file(), self._number("line"), self._number("column")
                )
            case DebugTag.LOC:
                scope, name = self._scope(), tables.debug_string(cursor)
                return DILocAttr(scope, name, self._number("line"), self._number("column"))
            case DebugTag.SUBPROGRAM:
                return self._subprogram(tables)
            case DebugTag.CALL_SITE:
                callee = self._ref(LOCATIONS, "a callee")
                return DICallSiteLoc(callee, self._ref(LOCATIONS, "a caller"))
        return UNKNOWN

    def _subprogram(self, tables: Tables) -> DISubprogramAttr:
        cursor = self._cursor
        file, line = self._file(), self._number("line")
        name, linkage = tables.debug_string(cursor), tables.debug_string(cursor)
        unit = cast(DICompileUnitAttr, self._ref((DICompileUnitAttr,), "a compile unit"))
        scope_line = self._number("scope line")
        if tables.version >= V13_5:
            cursor.varint()
        return DISubprogramAttr(file, line, name, linkage, unit, scope_line)


class Locations:
    """The locations of one function, in pre-order of its operations; the first is its own."""

    def __init__(self, info: DebugInfo | None, ids: tuple[int, ...]):
        self._info = info
        self._ids = ids
        self._next = 0

    def take(self, cursor: Cursor, at: int) -> Attribute:
        """The next location; errors point at byte `at`."""
        if self._info is None:
            return UNKNOWN
        if self._next >= len(self._ids):
            raise cursor.error(
                f"debug info has {len(self._ids)} locations, the function and its operations "
                "need more",
                at,
            )
        location = self._info.attribute(self._ids[self._next])
        if not isinstance(location, LOCATIONS):
            raise cursor.error(f"an operation's location cannot be {location.name}", at)
        self._next += 1
        return location


NO_LOCATIONS = Locations(None, ())


def _fixed(cursor: Cursor, count: int, code: str, width: int) -> tuple[int, ...]:
    blob = cursor.take(count * width, "debug info")
    return struct.unpack_from(f"<{count}{code}", blob.data, blob.pos)


class DebugWriter:
    """Numbers debug attributes by first use, components first."""

    def __init__(self, tables: TablesWriter, seed: tuple[Attribute, ...] = ()):
        self._tables = tables
        self._blobs = BlobTable(first=1)
        self._ids: dict[Attribute, int] = {UNKNOWN: 0}
        for attr in seed:
            self.id(attr)

    @property
    def items(self) -> list[bytes]:
        """The records, in order of their ids."""
        return self._blobs.items

    def id(self, attr: Attribute) -> int:
        """The id of a location or scope; builtin locations of plain files count as unknown."""
        known = self._ids.get(attr)
        if known is not None:
            return known
        out = bytearray()
        put = _PUT.get(type(attr))
        if put is None and isinstance(attr, NameLoc | FusedLoc | DINameLoc | DIFusedLoc):
            kind = "FusedLoc" if isinstance(attr, FusedLoc | DIFusedLoc) else "NameLoc"
            raise BytecodeError(
                f"unsupported location, got {kind}, expected DILocAttr or CallSiteLoc",
                source_location(attr),
            )
        if put is None:
            return 0
        put(self, out, attr)
        number = self._ids[attr] = self._blobs.id(bytes(out))
        return number

    def put_refs(self, out: bytearray, *attrs: Attribute) -> None:
        """Appends the ids of attributes."""
        for attr in attrs:
            put_varint(out, self.id(attr))

    def put_string(self, out: bytearray, text: str) -> None:
        """Appends the id of a string."""
        put_varint(out, self._tables.string(text))

    def put_subprogram(self, out: bytearray, attr: DISubprogramAttr) -> None:
        """Appends a subprogram's record."""
        out.append(DebugTag.SUBPROGRAM)
        self.put_refs(out, attr.file)
        put_varint(out, attr.line.data)
        self.put_string(out, attr.sub_name.data)
        self.put_string(out, attr.linkage_name.data)
        self.put_refs(out, attr.compile_unit)
        put_varint(out, attr.scope_line.data)
        if self._tables.version >= V13_5:
            put_varint(out, 0)


def _put_file(writer: DebugWriter, out: bytearray, attr: DIFileAttr) -> None:
    out.append(DebugTag.FILE)
    writer.put_string(out, attr.filename.data)
    writer.put_string(out, attr.directory.data)


def _put_compile_unit(writer: DebugWriter, out: bytearray, attr: DICompileUnitAttr) -> None:
    out.append(DebugTag.COMPILE_UNIT)
    writer.put_refs(out, attr.file)


def _put_lexical_block(writer: DebugWriter, out: bytearray, attr: DILexicalBlockAttr) -> None:
    out.append(DebugTag.LEXICAL_BLOCK)
    writer.put_refs(out, attr.scope, attr.file)
    put_varint(out, attr.line.data)
    put_varint(out, attr.column.data)


def _put_loc(writer: DebugWriter, out: bytearray, attr: DILocAttr) -> None:
    out.append(DebugTag.LOC)
    writer.put_refs(out, attr.scope)
    writer.put_string(out, attr.filename.data)
    put_varint(out, attr.line.data)
    put_varint(out, attr.column.data)


def _put_call_site(writer: DebugWriter, out: bytearray, attr: DICallSiteLoc) -> None:
    out.append(DebugTag.CALL_SITE)
    writer.put_refs(out, attr.callee, attr.caller)


_PUT: dict[type[Attribute], Callable] = {
    DIFileAttr: _put_file,
    DICompileUnitAttr: _put_compile_unit,
    DILexicalBlockAttr: _put_lexical_block,
    DILocAttr: _put_loc,
    DISubprogramAttr: DebugWriter.put_subprogram,
    DICallSiteLoc: _put_call_site,
}
