"""The debug section: locations of operations, records, bounds on what a file can stand for."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import UnknownLoc

from tileiras.bytecode.debug_info import MAX_DEPTH
from tileiras.bytecode.format import PADDING_BYTE, Section
from tileiras.bytecode.reader import read_layout, read_module
from tileiras.bytecode.streams import put_offset_table
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
    source_location,
)
from tileiras.errors import BytecodeError, SourceLocation

from .files import File, varint

STRINGS = [b"k.py", b"/src", b"k", b"f"]
FILE = b"\x02\x01\x02"
UNIT = b"\x01\x01"
SUBPROGRAM = b"\x05\x01\x03\x03\x03\x02\x04"
LOC = b"\x04\x03\x01\x05\x06"
SCOPES = [FILE, UNIT, SUBPROGRAM]


def debug_section(ids: list[int], records: list[bytes], starts: tuple[int, ...] = (0,)) -> bytes:
    """The payload of a debug section."""
    out = bytearray([len(starts)])
    out += bytes([PADDING_BYTE]) * (-len(out) % 4)
    for start in starts:
        out += start.to_bytes(4, "little")
    out += varint(len(ids))
    out += bytes([PADDING_BYTE]) * (-len(out) % 8)
    for number in ids:
        out += number.to_bytes(8, "little")
    put_offset_table(out, records, 4)
    return bytes(out)


def file(ids: list[int], records: list[bytes], location: int = 1, **more) -> File:
    """An entry with one operation and this debug section."""
    section = debug_section(ids, records)
    return File(location=location, strings=STRINGS, sections={Section.DEBUG: section}, **more)


def locations(source: File) -> tuple:
    """Locations of the entry and of its only operation."""
    block = source.read()
    (op,) = block.ops
    entry = block.parent_op()
    assert entry is not None
    return entry.location, op.location


def error_of(source: File) -> BytecodeError:
    """The error that reading raises."""
    with pytest.raises(BytecodeError) as info:
        source.read()
    return info.value


def test_first_location_is_the_functions_own():
    other = b"\x04\x03\x01\x07\x08"
    entry, op = locations(file([4, 5], [*SCOPES, LOC, other]))
    assert source_location(entry) == SourceLocation("k.py", 5, 6)
    assert source_location(op) == SourceLocation("k.py", 7, 8)
    assert isinstance(op, DILocAttr)
    assert isinstance(op.scope, DISubprogramAttr)
    assert (op.scope.line.data, op.scope.scope_line.data) == (3, 4)


def test_file_names_that_are_not_utf8_are_shown_with_escapes():
    source = file([4, 4], [*SCOPES, LOC])
    source.strings = [b"\xffk.py", *STRINGS[1:]]
    assert source_location(locations(source)[0]) == SourceLocation("\\xffk.py", 5, 6)


def test_id_0_is_unknown():
    assert locations(file([0, 0], SCOPES)) == (UnknownLoc(), UnknownLoc())


def test_location_index_0_makes_everything_unknown():
    assert locations(file([4, 4], [*SCOPES, LOC], location=0)) == (UnknownLoc(), UnknownLoc())


def test_record_of_unknown_tag_is_an_unknown_location():
    assert locations(file([4, 4], [*SCOPES, b"\x63\x01"]))[1] == UnknownLoc()


def test_records_may_come_in_any_order():
    records = [b"\x04\x02\x01\x05\x06", b"\x05\x04\x03\x03\x03\x03\x04", b"\x01\x04", FILE]
    entry, _ = locations(file([1, 1], records))
    assert source_location(entry) == SourceLocation("k.py", 5, 6)


def test_lexical_blocks_and_call_sites():
    block = b"\x03\x03\x01\x08\x09"
    inner = b"\x04\x04\x01\x0a\x0b"
    call = b"\x06\x05\x06"
    _, op = locations(file([6, 7], [*SCOPES, block, inner, LOC, call]))
    assert isinstance(op, DICallSiteLoc)
    assert isinstance(op.callee, DILocAttr)
    assert isinstance(op.callee.scope, DILexicalBlockAttr)
    assert source_location(op) == SourceLocation("k.py", 10, 11)
    assert source_location(op.caller) == SourceLocation("k.py", 5, 6)


def test_subprograms_have_flags_since_13_5():
    records = [FILE, UNIT, SUBPROGRAM + b"\x00", LOC]
    source = file([4, 4], records, version=(13, 5))
    assert source_location(locations(source)[0]) == SourceLocation("k.py", 5, 6)


@pytest.mark.parametrize("version", [(13, 1), (13, 5)])
def test_locations_survive_writing(version):
    subprogram = SUBPROGRAM + (b"\x00" if version >= (13, 5) else b"")
    records = [FILE, UNIT, subprogram, b"\x03\x03\x01\x08\x09", LOC, b"\x04\x04\x01\x0a\x0b"]
    source = file([5, 7], [*records, b"\x06\x06\x05"], version=version)
    data = write_module(read_module(source.build()), version)
    original, written = read_layout(source.build()), read_layout(data)
    assert set(written.debug_attributes) == set(original.debug_attributes)
    module = read_module(data)
    assert [op.location for op in module.walk()] == [
        op.location for op in read_module(source.build()).walk()
    ]


@pytest.mark.parametrize(
    ("ids", "records", "message"),
    [
        ([9, 4], [*SCOPES, LOC], "debug attribute 9 is out of range, there are 4"),
        ([4], [*SCOPES, LOC], "debug info has 1 locations, the function and its"),
        ([], [*SCOPES, LOC], "debug info has 0 locations, the function and its"),
        ([3, 4], [*SCOPES, LOC], "location cannot be cuda_tile.di_subprogram"),
        ([4, 4], [*SCOPES, b"\x04\x01\x01\x05\x06"], "a scope cannot be cuda_tile.di_file"),
        ([4, 4], [*SCOPES, b"\x04\x00\x01\x05\x06"], "a scope cannot be unknown_loc"),
        ([4, 4], [*SCOPES, b"\x06\x04\x04"], "debug attribute 4 refers to itself"),
        ([4, 4], [*SCOPES, b"\x06\x05\x00", b"\x06\x04\x00"], "refers to itself"),
        ([4, 4], [*SCOPES, b"\x04\x03\x09\x05\x06"], "string index 9 is out of range"),
        ([4, 4], [*SCOPES, b"\x04\x03\x01" + varint(2**32) + b"\x01"], "not fit in 32 bits"),
        ([4, 4], [*SCOPES, b"\x04\x63\x01\x05\x06"], "debug attribute 99 is out of range"),
        ([4, 4], [*SCOPES, b""], "unexpected end of data"),
        ([4, 4], [UNIT, UNIT, SUBPROGRAM, LOC], "debug attribute 1 refers to itself"),
    ],
)
def test_malformed_debug_info_is_refused(ids, records, message):
    error = error_of(file(ids, records))
    assert message in error.message
    assert error.offset is not None


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "unexpected end of data"),
        (b"\xff\xff\xff\xff\x7f", "functions with debug info of at least 4 bytes each do not"),
        (b"\x00\xcb\xcb\xcb\xff\xff\x7f", "locations of at least 8 bytes each do not fit"),
        (debug_section([], [], (5,)), "debug info of function 1 is out of range"),
    ],
)
def test_malformed_debug_tables_are_refused(payload, message):
    source = File(location=1, strings=STRINGS, sections={Section.DEBUG: payload})
    assert message in error_of(source).message


def test_location_index_beyond_the_table_is_refused():
    source = file([4, 4], [*SCOPES, LOC], location=2)
    assert "location index 2 is out of range, there are 1" in error_of(source).message


def test_long_chains_are_refused():
    chain = [b"\x06" + varint(n + 3) + b"\x00" for n in range(1, MAX_DEPTH + 10)]
    source = file([len(chain) + 4] * 2, [*SCOPES, LOC, *chain])
    assert f"nested more than {MAX_DEPTH} deep" in error_of(source).message


def test_shared_records_cannot_stand_for_an_endless_tree():
    doubling = [b"\x06" + varint(n + 3) * 2 for n in range(1, 60)]
    source = file([len(doubling) + 4] * 2, [*SCOPES, LOC, *doubling])
    assert "stands for too large a tree" in error_of(source).message
