"""The container: header, then sections in any order, then the end marker."""

from tileiras.bytecode.format import (
    ALIGNED_FLAG,
    HEADER_SIZE,
    MAGIC,
    SECTION_ALIGNMENT,
    TAG_PREVIEW,
    VERSIONS,
    Section,
    Version,
    version_text,
)
from tileiras.bytecode.streams import Cursor, put_varint
from tileiras.errors import BytecodeError


def is_bytecode(data: bytes) -> bool:
    """Whether data starts with the magic number of Tile IR bytecode."""
    return data.startswith(MAGIC)


def read_header(data: bytes) -> Version:
    """The version of a file, which must be one of `VERSIONS` and without preview content."""
    if not is_bytecode(data):
        raise BytecodeError("input does not correspond to Tile IR bytecode")
    if len(data) < HEADER_SIZE:
        raise BytecodeError("unexpected end of data in the header", offset=len(data))
    version = (data[8], data[9])
    if version not in VERSIONS:
        raise BytecodeError(
            f"unsupported Tile IR bytecode version: {version_text(version)}, this reader supports "
            f"versions [{version_text(VERSIONS[0])} - {version_text(VERSIONS[-1])}]",
            offset=8,
        )
    tag = int.from_bytes(data[10:12], "little")
    if tag == TAG_PREVIEW:
        raise BytecodeError("preview content is not supported (header tag 0x1)", offset=10)
    if tag:
        raise BytecodeError(f"unknown header tag {tag:#x}", offset=10)
    return version


def read_sections(data: bytes) -> dict[int, Cursor]:
    """The payload of every section by id; of a repeated section, the last."""
    cursor = Cursor(data, HEADER_SIZE, len(data))
    sections: dict[int, Cursor] = {}
    while True:
        start = cursor.pos
        if not cursor.remaining():
            raise cursor.error("unexpected end of data while reading section header")
        head = cursor.byte()
        number = head & ~ALIGNED_FLAG
        if number == Section.END:
            if head & ALIGNED_FLAG:
                raise cursor.error("end section should not have alignment flag set", start)
            if cursor.remaining():
                raise cursor.error("end section is not the last section", start)
            return sections
        if number > Section.PRODUCER:
            raise cursor.error(f"unknown section ID: {number}", start)
        size = cursor.varint()
        _read_alignment(cursor, number, bool(head & ALIGNED_FLAG), start)
        sections[number] = cursor.take(size, f"section {number}")


def _read_alignment(cursor: Cursor, number: int, aligned: bool, start: int) -> None:
    required = SECTION_ALIGNMENT.get(Section(number), 1)
    if not aligned:
        if required > 1:
            raise cursor.error(
                f"section {number} must have alignment that is a multiple of {required} bytes, "
                "but has no alignment flag set",
                start,
            )
        return
    at = cursor.pos
    alignment = cursor.varint()
    if alignment == 0 or alignment & (alignment - 1):
        raise cursor.error(f"invalid alignment value: {alignment}", at)
    if alignment % required:
        raise cursor.error(
            f"section {number} must have alignment that is a multiple of {required} bytes, "
            f"but has alignment of {alignment}",
            at,
        )
    cursor.align(alignment, 0)


def put_header(out: bytearray, version: Version) -> None:
    """Appends the header of a file without preview content."""
    out += MAGIC
    out += bytes(version)
    out += bytes(2)


def put_section(out: bytearray, section: Section, payload: bytes, padding: int) -> None:
    """Appends a section; `out` is the file so far, `padding` the byte to align with."""
    alignment = SECTION_ALIGNMENT.get(section, 1)
    out.append(section | (ALIGNED_FLAG if alignment > 1 else 0))
    put_varint(out, len(payload))
    if alignment > 1:
        put_varint(out, alignment)
        out += bytes([padding]) * (-len(out) % alignment)
    out += payload
