"""Reads a bytecode file into a module of cuda_tile operations."""

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.attributes import read_tagged
from tileiras.bytecode.constants import decode_dense, read_constant
from tileiras.bytecode.debug_info import NO_LOCATIONS, DebugInfo
from tileiras.bytecode.format import V13_3, V13_4, V13_5, FunctionFlag, Section
from tileiras.bytecode.layout import FileLayout
from tileiras.bytecode.records import BodyReader
from tileiras.bytecode.sections import read_header, read_sections
from tileiras.bytecode.streams import Cursor, read_offset_table
from tileiras.bytecode.tables import Tables
from tileiras.bytecode.types import I64, TypeTable
from tileiras.dialects.cuda_tile.attributes import (
    OptimizationHintsAttr,
    SymbolVisibility,
    SymbolVisibilityAttr,
)
from tileiras.errors import BytecodeError
from tileiras.limits import check_entries

MODULE_NAME = "kernels"
"""Files do not store the module's name."""

_VISIBILITIES = tuple(SymbolVisibilityAttr(value) for value in SymbolVisibility)
_KNOWN_FLAGS_13_5 = FunctionFlag.PRIVATE | FunctionFlag.KERNEL
_KNOWN_FLAGS = _KNOWN_FLAGS_13_5 | FunctionFlag.HINTS
"""Others are an error from 13.4 on and were ignored before."""


def read_module(data: bytes) -> ModuleOp:
    """The program of a bytecode file: a builtin module that holds one cuda_tile module.

    Raises BytecodeError, with the offset in the file, for anything malformed. Meaning is not
    checked beyond what building the operations needs: `verification.verify_module` does that.
    """
    try:
        return _FileReader(data).read()
    except VerifyException as error:
        raise BytecodeError(f"invalid attribute: {error}") from error


def read_layout(data: bytes) -> FileLayout:
    """How the tables of a bytecode file are laid out; raises as `read_module` does."""
    try:
        return _FileReader(data).layout()
    except VerifyException as error:
        raise BytecodeError(f"invalid attribute: {error}") from error


class _FileReader:
    """Reads the sections that others refer to first, whatever their order in the file."""

    def __init__(self, data: bytes):
        self._version = read_header(data)
        self._sections = read_sections(data)
        self._data = data
        strings = self._section(Section.STRING)
        functions = self._section(Section.FUNC)
        if strings is None:
            raise BytecodeError("string section is mandatory", offset=len(data))
        if functions is None:
            raise BytecodeError("function section is mandatory", offset=len(data))
        self._functions = functions
        items = read_offset_table(strings, 4, "strings", strings.pos)
        self._tables = Tables(self._version, [data[item.pos : item.end] for item in items])
        types = self._section(Section.TYPE)
        if types is not None:
            table = read_offset_table(types, 4, "types", types.pos)
            self._tables.types = TypeTable(table, self._version).read_all()
        constants = self._section(Section.CONSTANT)
        if constants is not None:
            table = read_offset_table(constants, 8, "constants", constants.pos)
            self._tables.constants = [read_constant(item) for item in table]
        debug = self._section(Section.DEBUG)
        self._debug = DebugInfo(debug, self._tables) if debug is not None else None

    def _section(self, section: Section) -> Cursor | None:
        """A fresh cursor over a section's payload."""
        cursor = self._sections.get(section)
        return cursor and Cursor(self._data, cursor.pos, cursor.end)

    def layout(self) -> FileLayout:
        """The order of sections and tables."""
        return FileLayout(
            version=self._version,
            sections=tuple(self._sections),
            strings=tuple(self._tables.strings),
            types=tuple(self._tables.types),
            constants=tuple(self._tables.constants),
            debug_attributes=tuple(self._debug.read_all()) if self._debug else (),
        )

    def read(self) -> ModuleOp:
        """The module."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(MODULE_NAME)}
        producer = self._section(Section.PRODUCER)
        if producer is not None:
            properties["producer"] = self._tables.string(producer)
        body = Block()
        for op in self._read_globals():
            body.add_op(op)
        cursor = self._functions
        count = cursor.count("functions", 4)
        check_entries(count)
        for _ in range(count):
            body.add_op(self._read_function(cursor))
        module = ct.ModuleOp.create(properties=properties, regions=[Region(body)])
        return ModuleOp([module])

    def _read_globals(self) -> list[Operation]:
        cursor = self._section(Section.GLOBAL)
        if cursor is None:
            return []
        return [self._read_global(cursor) for _ in range(cursor.count("globals", 4))]

    def _read_global(self, cursor: Cursor) -> Operation:
        tables = self._tables
        name = tables.string(cursor)
        type = tables.type(cursor)
        start = cursor.pos
        value = decode_dense(type, tables.constant(cursor), cursor, start)
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "value": value,
            "alignment": IntegerAttr(cursor.unsigned(64, "alignment"), I64),
            "symbol_visibility": _VISIBILITIES[0],
        }
        if self._version >= V13_3:
            number = cursor.varint_below(len(_VISIBILITIES), "symbol visibility")
            properties["symbol_visibility"] = _VISIBILITIES[number]
            if cursor.varint():
                properties["constant"] = UnitAttr()
        return ct.GlobalOp.create(properties=properties)

    def _read_function(self, cursor: Cursor) -> Operation:
        tables = self._tables
        name = tables.string(cursor)
        start = cursor.pos
        signature = tables.type(cursor)
        if not isinstance(signature, FunctionType):
            raise cursor.error(f"a function cannot be of type {signature}", start)
        properties: dict[str, Attribute] = {"sym_name": name, "function_type": signature}
        start = cursor.pos
        flags = cursor.byte()
        known = _KNOWN_FLAGS_13_5 if self._version >= V13_5 else _KNOWN_FLAGS
        if self._version >= V13_4 and flags & ~known:
            raise cursor.error(f"unknown function flags {flags:#x}", start)
        if not flags & FunctionFlag.KERNEL:
            raise cursor.error(f"un-expected non-entry function '{name.data}'", start)
        if flags & FunctionFlag.PRIVATE:
            raise cursor.error(f"entry '{name.data}' must have public symbol visibility", start)
        start = cursor.pos
        index = cursor.varint()
        locations = NO_LOCATIONS
        if index:
            if self._debug is None:
                raise cursor.error(f"location index {index} without a debug section", start)
            locations = self._debug.function_locations(index, cursor, start)
        self._read_function_attributes(cursor, flags, properties)
        size = cursor.varint()
        blob = cursor.take(size, "function body")
        location = locations.take(cursor, start)
        block = Block(arg_types=signature.inputs.data)
        BodyReader(blob, tables, locations).read_body(block)
        return ct.EntryOp.create(
            properties=properties,
            location=location,  # type: ignore
            regions=[Region(block)],
        )

    def _read_function_attributes(
        self, cursor: Cursor, flags: int, properties: dict[str, Attribute]
    ) -> None:
        """Hints where the flags announce them; from 13.5 on always, then argument attributes."""
        always = self._version >= V13_5
        if always or flags & FunctionFlag.HINTS:
            start = cursor.pos
            hints = read_tagged(cursor, self._tables)
            if not isinstance(hints, OptimizationHintsAttr):
                raise cursor.error(f"expected optimization hints, got {hints.name}", start)
            if hints.value.data or not always:
                properties["optimization_hints"] = hints
        if always:
            start = cursor.pos
            arguments = read_tagged(cursor, self._tables)
            if not isinstance(arguments, ArrayAttr):
                raise cursor.error(f"expected argument attributes, got {arguments.name}", start)
            if arguments.data:
                properties["arg_attrs"] = arguments
