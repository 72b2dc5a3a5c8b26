"""Header, sections and offset tables: what is read, and what is refused with which message."""

from __future__ import annotations

import pytest

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.format import PADDING_BYTE, VERSIONS, Section
from tileiras.bytecode.reader import read_layout, read_module
from tileiras.bytecode.sections import is_bytecode, put_header, put_section
from tileiras.errors import BytecodeError

from .files import File, join, split, table

EMPTY = {Section.FUNC: b"\0", Section.STRING: b"\0"}


def error_of(data: bytes) -> BytecodeError:
    """The error that reading raises."""
    with pytest.raises(BytecodeError) as info:
        read_module(data)
    return info.value


def with_section(number: int, alignment: int | None, payload: bytes = b"\0") -> bytes:
    """An empty module with one more section, of any alignment."""
    out = bytearray(join((13, 4), EMPTY)[:-1])
    out.append(number | (0 if alignment is None else 0x80))
    out.append(len(payload))
    if alignment is not None:
        out.append(alignment)
        out += bytes([PADDING_BYTE]) * (-len(out) % max(alignment, 1))
    return bytes(out + payload) + b"\0"


@pytest.mark.parametrize("version", VERSIONS)
def test_module_without_functions_is_read_in_every_version(version):
    module = read_module(join(version, EMPTY))
    (kernels,) = module.body.ops
    assert isinstance(kernels, ct.ModuleOp)
    assert kernels.sym_name.data == "kernels"
    assert not list(kernels.body.ops)


def test_section_order_is_free():
    data = File().build()
    sections = split(data)
    backwards = join((13, 4), dict(reversed(sections.items())))
    assert read_layout(backwards).sections == tuple(reversed(read_layout(data).sections))
    assert str(read_module(backwards)) == str(read_module(data))


def test_last_of_repeated_sections_counts():
    out = bytearray()
    put_header(out, (13, 4))
    put_section(out, Section.TYPE, b"\x05", PADDING_BYTE)
    for number, payload in split(File().build()).items():
        put_section(out, Section(number), payload, PADDING_BYTE)
    assert read_module(bytes([*out, Section.END]))


def test_padding_and_trailing_function_bytes_are_ignored():
    sections = split(File().build())
    sections[Section.FUNC] += bytes([PADDING_BYTE]) * 5
    read_module(join((13, 4), sections))


@pytest.mark.parametrize("alignment", [8, 16, 64])
def test_stricter_alignment_is_accepted(alignment):
    read_module(with_section(Section.CONSTANT, alignment))


def test_is_bytecode_looks_at_the_magic_number():
    assert is_bytecode(File().build())
    assert not is_bytecode(b"cuda_tile.module @m {}")
    assert not is_bytecode(b"")


@pytest.mark.parametrize("data", [b"", b"abc", b"\x7fTileIX\0" + bytes(8)])
def test_other_files_are_refused_as_the_reference_does(data):
    assert error_of(data).message == "input does not correspond to Tile IR bytecode"


@pytest.mark.parametrize("version", [(12, 9), (13, 0), (13, 6), (14, 1), (18, 0), (250, 0)])
def test_unknown_version_is_refused(version):
    error = error_of(join(version, EMPTY))
    assert error.exit_code == 3
    assert (
        f"unsupported Tile IR bytecode version: {version[0]}.{version[1]}, "
        "this reader supports versions [13.1 - 13.5]" in error.message
    )


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        (1, "preview content is not supported (header tag 0x1)"),
        (2, "unknown header tag 0x2"),
        (0x100, "unknown header tag 0x100"),
    ],
)
def test_header_tags_are_refused(tag, message):
    data = bytearray(join((13, 5), EMPTY))
    data[10:12] = tag.to_bytes(2, "little")
    assert error_of(bytes(data)).message == f"error at offset 10: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (join((13, 4), {Section.FUNC: b"\0"}), "string section is mandatory"),
        (join((13, 4), {Section.STRING: b"\0"}), "function section is mandatory"),
        (join((13, 4), EMPTY) + b"\0", "end section is not the last section"),
        (join((13, 4), EMPTY)[:-1] + b"\x80", "end section should not have alignment flag set"),
        (join((13, 4), EMPTY)[:-1], "unexpected end of data while reading section header"),
        (with_section(8, None), "unknown section ID: 8"),
        (with_section(0x7F, None), "unknown section ID: 127"),
        (
            with_section(Section.STRING, None),
            "section 1 must have alignment that is a multiple of 4 bytes, "
            "but has no alignment flag set",
        ),
        (
            with_section(Section.FUNC, 4),
            "section 2 must have alignment that is a multiple of 8 bytes, but has alignment of 4",
        ),
        (with_section(Section.STRING, 3), "invalid alignment value: 3"),
        (with_section(Section.STRING, 0), "invalid alignment value: 0"),
        (join((13, 4), EMPTY)[:10], "unexpected end of data in the header"),
    ],
)
def test_malformed_container_is_refused(data, message):
    error = error_of(data)
    assert error.message.endswith(message)
    assert error.offset is not None
    assert error.offset <= len(data)


def test_section_longer_than_the_file_is_refused():
    data = join((13, 4), EMPTY)[:-1] + bytes([Section.GLOBAL, 0xFF, 0xFF, 0xFF, 0x7F, 0])
    assert "section 6 of 268435455 bytes exceeds the 1 that are left" in error_of(data).message


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"\xff\xff\xff\xff\x7f", "strings of at least 4 bytes each do not fit"),
        (b"\x01\xcb\xcb\xcb\x09\0\0\0k", "offset 9 of item 0 of strings is out of order"),
        (b"\x02\xcb\xcb\xcb\x01\0\0\0\0\0\0\0k", "offset 1 of item 0 of strings is out of order"),
    ],
)
def test_bad_offset_table_is_refused(payload, message):
    sections = split(File().build()) | {Section.STRING: payload}
    assert message in error_of(join((13, 4), sections)).message


def test_string_that_is_not_utf8_is_refused_where_it_is_used():
    sections = split(File().build())
    unused = table([b"k", b"\xff"], 4)
    read_module(join((13, 4), sections | {Section.STRING: unused}))
    error = error_of(join((13, 4), sections | {Section.STRING: table([b"\xff"], 4)}))
    assert "string 0 is not valid UTF-8" in error.message


def test_producer_is_a_string():
    data = File(strings=[b"someone"], sections={Section.PRODUCER: b"\x01"}).build()
    (kernels,) = read_module(data).body.ops
    assert isinstance(kernels, ct.ModuleOp)
    assert kernels.producer is not None
    assert kernels.producer.data == "someone"


def test_offsets_in_messages_are_absolute():
    data = File(body=bytes([36])).build()
    error = error_of(data)
    assert error.message.endswith("unknown or unimplemented opcode: 36")
    assert error.offset is not None
    assert data[error.offset] == 36
