"""The attributes of a kernel in its section `.nv.info.<kernel>`.

The form is that which `cuobjdump -elf` prints: a byte for the format, a byte for the attribute, and
two bytes that are the value or, for the format SVAL, the number of bytes that follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from tileiras.errors import InternalError

KERNEL_PREFIX = ".nv.info."
"""What the name of a kernel's section of attributes begins with."""


class Format(IntEnum):
    """How the value of an attribute is stored (EIFMT_... of `cuobjdump -elf`)."""

    NVAL = 1
    BVAL = 2
    HVAL = 3
    SVAL = 4


@dataclass(frozen=True)
class KernelAttribute:
    """One attribute: its number, and its value of two bytes, or of any number for SVAL."""

    format: Format
    number: int
    value: bytes

    def encode(self) -> bytes:
        """The bytes in the section."""
        head = bytes((self.format, self.number))
        if self.format is Format.SVAL:
            return head + len(self.value).to_bytes(2, "little") + self.value
        return head + self.value


def read_attributes(data: bytes) -> tuple[KernelAttribute, ...]:
    """The attributes in the bytes of a section. Raises InternalError for another form."""
    found: list[KernelAttribute] = []
    place = 0
    while place < len(data):
        head = data[place : place + 4]
        if len(head) < 4 or not Format.NVAL <= head[0] <= Format.SVAL:
            raise InternalError(f"unexpected attribute at byte {place} of a cubin", where="cubin")
        format, value = Format(head[0]), head[2:]
        place += 4
        if format is Format.SVAL:
            size = int.from_bytes(value, "little")
            value = data[place : place + size]
            place += size
            if len(value) < size:
                raise InternalError("an attribute of a cubin has no end", where="cubin")
        found.append(KernelAttribute(format, head[1], value))
    return tuple(found)


def write_attributes(attributes: Iterable[KernelAttribute]) -> bytes:
    """The bytes of a section with these attributes."""
    return b"".join(attribute.encode() for attribute in attributes)
