"""The ELF container of a cubin: its sections, and a copy with the contents of some replaced.

Sources: System V ABI, "Object Files" (64-bit, little-endian). Every offset is checked: a file of
another form is an InternalError, never an exception of `struct` and never a damaged copy.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tileiras.errors import InternalError

_IDENTITY = b"\x7fELF\x02\x01"
"""Magic, 64-bit, little-endian."""
_CUDA_MACHINE = 190
"""`e_machine` of CUDA code (registered as EM_CUDA)."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET_IN_SECTION = 24
"""Where `sh_offset` and `sh_size` lie in a section header, one after the other."""
_PLACE = struct.Struct("<QQ")
_NO_BITS = 8
"""`sh_type` of a section without bytes in the file."""


@dataclass(frozen=True)
class Section:
    """One section: its name, where its header lies, and its bytes."""

    name: str
    kind: int
    align: int
    header: int
    data: bytes


def read_sections(cubin: bytes) -> tuple[Section, ...]:
    """All sections in the order of the file, the nameless first one left out.

    Raises InternalError for anything but a 64-bit little-endian ELF file of CUDA code.
    """
    if len(cubin) < _HEADER.size or not cubin.startswith(_IDENTITY):
        raise _unexpected("it is no 64-bit ELF file")
    header = _HEADER.unpack_from(cubin)
    machine, table, size, count, names = header[2], header[6], *header[11:14]
    segments, segment_size, segment_count = header[5], *header[9:11]
    if machine != _CUDA_MACHINE:
        raise _unexpected(f"its machine is {machine}, expected {_CUDA_MACHINE}")
    if size != _SECTION.size or not 0 < names < count or table + size * count > len(cubin):
        raise _unexpected("its section headers are not where the file says")
    if segments + segment_size * segment_count > len(cubin):
        raise _unexpected("its program headers are not where the file says")
    places = [table + size * number for number in range(count)]
    fields = [_SECTION.unpack_from(cubin, place) for place in places]
    texts = _contents(cubin, fields[names])
    return tuple(
        Section(_name(texts, field[0]), field[1], max(field[8], 1), place, _contents(cubin, field))
        for place, field in zip(places[1:], fields[1:], strict=True)
    )


def replace_sections(cubin: bytes, changed: Mapping[Section, bytes]) -> bytes:
    """A copy of the file in which sections have other contents; everything else keeps its place.

    Contents of the same length are written in place, others at the end of the file.
    """
    output = bytearray(cubin)
    for section, data in changed.items():
        place = section.header + _OFFSET_IN_SECTION
        start, size = _PLACE.unpack_from(cubin, place)
        if len(data) != size:
            output += bytes(-len(output) % section.align)
            start = len(output)
            output += data
        output[start : start + len(data)] = data
        _PLACE.pack_into(output, place, start, len(data))
    return bytes(output)


def _contents(cubin: bytes, field: tuple[int, ...]) -> bytes:
    """The bytes of a section, checked to be in the file."""
    kind, start, size = field[1], field[4], field[5]
    if kind == _NO_BITS:
        return b""
    if start + size > len(cubin):
        raise _unexpected("a section ends behind the end of the file")
    return cubin[start : start + size]


def _name(texts: bytes, start: int) -> str:
    """The string that begins at an offset of the string table."""
    end = texts.find(b"\0", start)
    if end < 0:
        raise _unexpected("a section's name has no end")
    return texts[start:end].decode("utf-8", "replace")


def _unexpected(problem: str) -> InternalError:
    """The error for a file that ptxas should not have made."""
    return InternalError(f"unexpected form of the cubin that ptxas made: {problem}", where="cubin")
