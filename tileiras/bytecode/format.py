"""Numbers of the bytecode container (Tile IR specification, "Binary format")."""

from enum import IntEnum

MAGIC = b"\x7fTileIR\x00"
HEADER_SIZE = 12
"""Magic, major and minor version (one byte each), 16-bit tag."""

Version = tuple[int, int]

V13_1: Version = (13, 1)
V13_2: Version = (13, 2)
V13_3: Version = (13, 3)
V13_4: Version = (13, 4)
V13_5: Version = (13, 5)

VERSIONS = (V13_1, V13_2, V13_3, V13_4, V13_5)
"""Every version that is read and written, oldest first."""

TAG_PREVIEW = 1
"""Header tag bit of files with preview content."""

PREVIEW_OPCODES = range(0x4000, 0x5000)
"""Opcodes of preview content, not supported."""

PADDING_BYTE = 0xCB


class Section(IntEnum):
    """Section ids; bit 7 of the id byte says that an alignment follows."""

    END = 0
    STRING = 1
    FUNC = 2
    DEBUG = 3
    CONSTANT = 4
    TYPE = 5
    GLOBAL = 6
    PRODUCER = 7


ALIGNED_FLAG = 0x80

SECTION_ALIGNMENT = {
    Section.STRING: 4,
    Section.FUNC: 8,
    Section.DEBUG: 8,
    Section.CONSTANT: 8,
    Section.TYPE: 4,
}
"""What a section's payload must be aligned to (bytes, in the file); others need no alignment."""


class FunctionFlag(IntEnum):
    """Bits of a function's flags byte."""

    PRIVATE = 1
    KERNEL = 2
    HINTS = 4


class TypeTag(IntEnum):
    """First varint of a composite type; the simple types' tags are in `types.SIMPLE_TYPES`."""

    POINTER = 12
    TILE = 13
    TENSOR_VIEW = 14
    PARTITION_VIEW = 15
    FUNCTION = 16
    GATHER_SCATTER_VIEW = 20
    STRIDED_VIEW = 21


class AttributeTag(IntEnum):
    """First varint of a self-contained attribute."""

    INTEGER = 1
    FLOAT = 2
    BOOL = 3
    TYPE = 4
    STRING = 5
    ARRAY = 6
    DENSE_ELEMENTS = 7
    DIV_BY = 8
    SAME_ELEMENTS = 9
    DICTIONARY = 10
    OPTIMIZATION_HINTS = 11
    BOUNDED = 12


class DebugTag(IntEnum):
    """First varint of a record in the debug section."""

    UNKNOWN = 0
    COMPILE_UNIT = 1
    FILE = 2
    LEXICAL_BLOCK = 3
    LOC = 4
    SUBPROGRAM = 5
    CALL_SITE = 6


def version_text(version: Version) -> str:
    """`(13, 4)` as people write it: `13.4`."""
    return f"{version[0]}.{version[1]}"
