"""Writes a module of cuda_tile operations as a bytecode file.

Strings, types, constants and debug attributes are numbered in the order in which they are first
met: arguments, location, name and signature of a function, then every record in order, its location
first. Types 0 and 1 are always i1 and i32. Sections come in the order function, global, constant,
debug, type, string. That is what the cuTile Python client does; where it meets things in another
order than its output shows, `FileLayout` says so.
"""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Operation

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.attributes import put_tagged
from tileiras.bytecode.constants import encode_dense
from tileiras.bytecode.debug_info import DebugWriter
from tileiras.bytecode.format import (
    PADDING_BYTE,
    V13_3,
    V13_4,
    V13_5,
    VERSIONS,
    FunctionFlag,
    Section,
    Version,
    version_text,
)
from tileiras.bytecode.layout import FileLayout
from tileiras.bytecode.record_writer import BodyWriter
from tileiras.bytecode.sections import put_header, put_section
from tileiras.bytecode.streams import put_offset_table, put_padding, put_varint
from tileiras.bytecode.tables import BlobTable, TablesWriter
from tileiras.bytecode.types import I1, I32, TypeWriter
from tileiras.dialects.cuda_tile.attributes import OptimizationHintsAttr, SymbolVisibility
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.errors import BytecodeError, UsageError

SECTION_ORDER = (
    Section.FUNC,
    Section.GLOBAL,
    Section.CONSTANT,
    Section.DEBUG,
    Section.TYPE,
    Section.STRING,
    Section.PRODUCER,
)

_NO_HINTS = OptimizationHintsAttr(DictionaryAttr({}))
_EMPTY_RECORD = b"\x00"
"""Stands in an otherwise empty table of debug attributes, which some readers refuse."""


def write_module(
    module: ModuleOp, version: Version = V13_4, *, layout: FileLayout | None = None
) -> bytes:
    """The bytecode file of a builtin module that holds one cuda_tile module.

    With a `layout` (see `reader.read_layout`) the tables start with its contents and its version
    counts. Raises BytecodeError for what the version cannot express and for operations of other
    dialects, UsageError for an unknown version.
    """
    if layout is not None:
        version = layout.version
    if version not in VERSIONS:
        raise UsageError(f"cannot write bytecode version {version_text(version)}")
    return _FileWriter(version, layout).write(_kernels(module))


def _kernels(module: ModuleOp) -> ct.ModuleOp:
    ops = list(module.body.ops)
    if len(ops) != 1 or not isinstance(ops[0], ct.ModuleOp):
        raise BytecodeError("expected a module that holds exactly one 'cuda_tile.module'")
    return ops[0]


class _FileWriter:
    """Writes functions and globals first, which fills the tables."""

    def __init__(self, version: Version, layout: FileLayout | None):
        self._version = version
        self._order = tuple(layout.sections) if layout else ()
        strings = BlobTable(layout.strings if layout else ())
        types = TypeWriter(version, layout.types if layout else (I1, I32))
        constants = BlobTable()
        self._tables = TablesWriter(version, strings, types, constants)
        for data in layout.constants if layout else ():
            out = bytearray()
            put_varint(out, len(data))
            constants.id(bytes(out + data))
        self._debug = DebugWriter(self._tables, layout.debug_attributes if layout else ())
        self._locations: list[list[int]] = []

    def write(self, module: ct.ModuleOp) -> bytes:
        """The whole file."""
        entries, globals_ = [], []
        for op in module.body.ops:
            match op:
                case ct.EntryOp():
                    entries.append(op)
                case ct.GlobalOp():
                    globals_.append(op)
                case _:
                    raise _error(op, "cannot be written at the top level of Tile IR bytecode")
        payloads = {
            Section.GLOBAL: self._globals(globals_),
            Section.FUNC: self._functions(entries),
            Section.PRODUCER: self._producer(module),
        }
        payloads[Section.CONSTANT] = _table(self._tables.constants.items, 8)
        payloads[Section.DEBUG] = self._debug_section()
        payloads[Section.TYPE] = _table(self._tables.types.items, 4)
        payloads[Section.STRING] = _table(self._tables.strings.items, 4)
        out = bytearray()
        put_header(out, self._version)
        order = [Section(number) for number in self._order]
        order += [section for section in SECTION_ORDER if section not in order]
        for section in order:
            payload = payloads[section]
            if payload is not None:
                put_section(out, section, payload, PADDING_BYTE)
        out.append(Section.END)
        return bytes(out)

    def _producer(self, module: ct.ModuleOp) -> bytes | None:
        if module.producer is None:
            return None
        if self._version < V13_3:
            raise _newer(module, "producer", V13_3, self._version)
        out = bytearray()
        put_varint(out, self._tables.string(module.producer.data))
        return bytes(out)

    def _globals(self, ops: list[ct.GlobalOp]) -> bytes | None:
        if not ops:
            return None
        out = bytearray()
        put_varint(out, len(ops))
        for op in ops:
            put_varint(out, self._tables.string(op.sym_name.data))
            put_varint(out, self._tables.types.id(op.value.type))
            put_varint(out, self._tables.constants.id(encode_dense(op.value)))
            put_varint(out, op.alignment.value.data & ((1 << 64) - 1))
            private = op.symbol_visibility.data is SymbolVisibility.PRIVATE
            if self._version >= V13_3:
                out.append(int(private))
                out.append(int(op.constant is not None))
            elif private or op.constant is not None:
                raise _newer(op, "private or constant", V13_3, self._version)
        return bytes(out)

    def _functions(self, entries: list[ct.EntryOp]) -> bytes:
        out = bytearray()
        put_varint(out, len(entries))
        for index, op in enumerate(entries, 1):
            for type in op.function_type.inputs.data:
                self._tables.types.id(type)
            location = self._debug.id(op.location)
            put_varint(out, self._tables.string(op.sym_name.data))
            put_varint(out, self._tables.types.id(op.function_type))
            self._put_entry_head(out, op, index)
            writer = BodyWriter(self._tables, self._debug)
            block = op.body.blocks.first
            if block is None or block.next_block is not None:
                raise _error(op, "must have a body of one block")
            body = writer.write_body(block)
            self._locations.append([location, *writer.locations])
            put_varint(out, len(body))
            out += body
        return bytes(out)

    def _put_entry_head(self, out: bytearray, op: ct.EntryOp, index: int) -> None:
        hints, arguments = op.optimization_hints, op.arg_attrs
        if self._version >= V13_5:
            out.append(FunctionFlag.KERNEL)
            put_varint(out, index)
            put_tagged(out, hints or _NO_HINTS, self._tables)
            put_tagged(out, arguments or ArrayAttr([]), self._tables)
            return
        if arguments is not None and arguments.data:
            raise _newer(op, "argument attributes", V13_5, self._version)
        out.append(FunctionFlag.KERNEL | (FunctionFlag.HINTS if hints is not None else 0))
        put_varint(out, index)
        if hints is not None:
            put_tagged(out, hints, self._tables)

    def _debug_section(self) -> bytes:
        out = bytearray()
        put_varint(out, len(self._locations))
        put_padding(out, 4)
        start = 0
        for ids in self._locations:
            out += start.to_bytes(4, "little")
            start += len(ids)
        put_varint(out, start)
        put_padding(out, 8)
        for ids in self._locations:
            for number in ids:
                out += number.to_bytes(8, "little")
        put_offset_table(out, self._debug.items or [_EMPTY_RECORD], 4)
        return bytes(out)


def _table(items: list[bytes], width: int) -> bytes:
    out = bytearray()
    put_offset_table(out, items, width)
    return bytes(out)


def _error(op: Operation, message: str) -> BytecodeError:
    return BytecodeError(f"'{op.name}' {message}", source_location(op.location))


def _newer(op: Operation, what: str, since: Version, version: Version) -> BytecodeError:
    return _error(
        op,
        f"{what} requires bytecode version {version_text(since)}+, "
        f"but targeting {version_text(version)}",
    )
