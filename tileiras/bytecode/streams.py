"""Bounded reading and plain writing of the container's primitives.

Every failure names the absolute offset in the file, and no count is trusted before it is compared
with the bytes that are left, so that a bad file costs neither time nor memory.
"""

import struct
from collections.abc import Iterable

from tileiras.bytecode.format import PADDING_BYTE
from tileiras.errors import BytecodeError
from tileiras.limits import check_table_size

_MASK_64 = (1 << 64) - 1
_MAX_VARINT_BYTES = 10
_INT_CODES = {1: "b", 4: "i", 8: "q"}


class Cursor:
    """A position in `data[:end]`; reading past `end` is an error."""

    __slots__ = ("data", "pos", "end")

    def __init__(self, data: bytes, pos: int, end: int):
        self.data = data
        self.pos = pos
        self.end = end

    def error(self, message: str, at: int | None = None) -> BytecodeError:
        """The error to raise for what was found at `at`, or at the current position."""
        return BytecodeError(message, offset=self.pos if at is None else at)

    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.pos

    def byte(self) -> int:
        """One unsigned byte."""
        if self.pos >= self.end:
            raise self.error("unexpected end of data, expected a byte")
        value = self.data[self.pos]
        self.pos += 1
        return value

    def varint(self) -> int:
        """An unsigned LEB128 of at most ten bytes; bits above 63 are dropped."""
        pos = self.pos
        if pos >= self.end:
            raise self.error("unexpected end of data, expected a variable-length integer")
        byte = self.data[pos]
        pos += 1
        if byte < 0x80:
            self.pos = pos
            return byte
        value = byte & 0x7F
        shift = 7
        for pos in range(pos, min(self.end, self.pos + _MAX_VARINT_BYTES)):  # noqa: B020
            byte = self.data[pos]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.pos = pos + 1
                return value & _MASK_64
            shift += 7
        raise self.error("a variable-length integer does not end within ten bytes of the data")

    def signed_varint(self) -> int:
        """A zigzag-encoded signed 64-bit integer."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varint_below(self, limit: int, what: str) -> int:
        """A varint that must be less than `limit`."""
        start = self.pos
        value = self.varint()
        if value >= limit:
            raise self.error(f"{what} {value} is out of range, there are {limit}", start)
        return value

    def unsigned(self, width: int, what: str) -> int:
        """A varint that must fit `width` bits."""
        start = self.pos
        value = self.varint()
        if value >> width:
            raise self.error(f"{what}: value {value} does not fit in {width} bits", start)
        return value

    def count(self, what: str, item_size: int = 1) -> int:
        """A varint that counts items of at least `item_size` bytes each, all still to come."""
        start = self.pos
        value = self.varint()
        if value * item_size > self.end - self.pos:
            raise self.error(
                f"{value} {what} of at least {item_size} bytes each do not fit in the "
                f"{self.end - self.pos} bytes that are left",
                start,
            )
        check_table_size(value, what)
        return value

    def take(self, size: int, what: str) -> "Cursor":
        """A cursor over the next `size` bytes, which are skipped here."""
        start = self.pos
        if size > self.end - start:
            raise self.error(f"{what} of {size} bytes exceeds the {self.end - start} that are left")
        self.pos = start + size
        return Cursor(self.data, start, start + size)

    def ints(self, width: int, what: str) -> tuple[int, ...]:
        """A counted array of signed little-endian integers of `width` bytes."""
        count = self.count(what, width)
        values = struct.unpack_from(f"<{count}{_INT_CODES[width]}", self.data, self.pos)
        self.pos += count * width
        return values

    def align(self, alignment: int, base: int) -> None:
        """Skips padding up to a multiple of `alignment` from `base`."""
        skip = (base - self.pos) % alignment
        if skip > self.end - self.pos:
            raise self.error(f"unexpected end of data while aligning to {alignment} bytes")
        self.pos += skip


def read_offset_table(cursor: Cursor, width: int, what: str, base: int) -> list[Cursor]:
    """The items of a table of `width`-byte offsets; one cursor per item.

    `base` is where the payload starts that alignment is counted from. The last item ends with the
    cursor; an empty table has neither padding nor data.
    """
    start = cursor.pos
    count = cursor.count(what, width)
    if count == 0:
        return []
    cursor.align(width, base)
    if count * width > cursor.remaining():
        raise cursor.error(f"{count} offsets of {what} exceed the data", start)
    code = "I" if width == 4 else "Q"
    offsets = struct.unpack_from(f"<{count}{code}", cursor.data, cursor.pos)
    origin = cursor.pos + count * width
    size = cursor.end - origin
    bounds = (*offsets, size)
    items = []
    for index, offset in enumerate(offsets):
        if not offset <= bounds[index + 1] <= size:
            raise cursor.error(
                f"offset {offset} of item {index} of {what} is out of order or beyond the "
                f"{size} bytes of data",
                cursor.pos + index * width,
            )
        items.append(Cursor(cursor.data, origin + offset, origin + bounds[index + 1]))
    cursor.pos = cursor.end
    return items


def put_varint(out: bytearray, value: int) -> None:
    """Appends an unsigned LEB128."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_signed_varint(out: bytearray, value: int) -> None:
    """Appends a zigzag-encoded signed 64-bit integer."""
    put_varint(out, ((value << 1) ^ (value >> 63)) & _MASK_64)


def put_ints(out: bytearray, values: Iterable[int], width: int) -> None:
    """Appends a counted array of signed little-endian integers of `width` bytes."""
    items = tuple(values)
    put_varint(out, len(items))
    out += struct.pack(f"<{len(items)}{_INT_CODES[width]}", *items)


def put_padding(out: bytearray, alignment: int) -> None:
    """Appends padding up to a multiple of `alignment`."""
    out += bytes([PADDING_BYTE]) * (-len(out) % alignment)


def put_offset_table(out: bytearray, items: Iterable[bytes], width: int) -> None:
    """Appends a table of `width`-byte offsets and its items; `out` is the section's payload."""
    blobs = tuple(items)
    put_varint(out, len(blobs))
    put_padding(out, width)
    offset = 0
    for blob in blobs:
        out += offset.to_bytes(width, "little")
        offset += len(blob)
    for blob in blobs:
        out += blob
