"""The language that a kernel of a cubin is marked with: it decides how the driver launches it.

ptxas marks what it makes as PTX: block (1,1,1) is then one thread. A kernel that is marked as Tile
IR and has a required number of threads (`.reqntid`) is launched with block (1,1,1) as an ordinary
grid of CTAs of so many threads (measured: decision 0018). `cuobjdump -elf` prints the mark as
`EIATTR_LANGUAGE`. ptxas 13.0 and 13.1 write none; there the attribute is added.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from tileiras.codegen.cubin.attributes import (
    KERNEL_PREFIX,
    Format,
    KernelAttribute,
    read_attributes,
    write_attributes,
)
from tileiras.codegen.cubin.elf import Section, read_sections, replace_sections
from tileiras.errors import InternalError

_LANGUAGE = 0x66
"""EIATTR_LANGUAGE."""
_REQUIRED_THREADS = 0x10
"""EIATTR_REQNTID."""
_WORD = 4
"""Bytes of the mark."""


class Language(IntEnum):
    """The marks that are used here, with the names and numbers that `cuobjdump -elf` shows."""

    PTX = 3
    TILEIR = 7


def kernel_language(cubin: bytes, kernel: str) -> Language | None:
    """The mark of a kernel, None if it has none. Raises InternalError for another form."""
    section = _sections_of(cubin, (kernel,))[kernel]
    for attribute in read_attributes(section.data):
        if attribute.number == _LANGUAGE:
            return _language_of(attribute)
    return None


def with_language(cubin: bytes, kernels: Collection[str], language: Language) -> bytes:
    """The cubin with these kernels marked; nothing else in it changes.

    Raises InternalError if a kernel is missing, has a mark of unknown form, or has no required
    number of threads, without which the driver could not know how many to launch.
    """
    changed: dict[Section, bytes] = {}
    for name, section in _sections_of(cubin, kernels).items():
        attributes = read_attributes(section.data)
        numbers = [attribute.number for attribute in attributes]
        if _REQUIRED_THREADS not in numbers:
            raise InternalError(f"kernel '{name}' has no required block size", where="cubin")
        mark = KernelAttribute(Format.SVAL, _LANGUAGE, language.to_bytes(_WORD, "little"))
        if _LANGUAGE not in numbers:
            attributes = (mark, *attributes)
        else:
            place = numbers.index(_LANGUAGE)
            _language_of(attributes[place])
            attributes = (*attributes[:place], mark, *attributes[place + 1 :])
        changed[section] = write_attributes(attributes)
    return replace_sections(cubin, changed)


def _language_of(attribute: KernelAttribute) -> Language:
    """The mark in an attribute, checked to be one that is known."""
    number = int.from_bytes(attribute.value, "little")
    if attribute.format is not Format.SVAL or len(attribute.value) != _WORD:
        raise InternalError("the language of a kernel is not one word", where="cubin")
    if number not in tuple(Language):
        raise InternalError(f"a kernel is marked with language {number}", where="cubin")
    return Language(number)


def _sections_of(cubin: bytes, kernels: Collection[str]) -> dict[str, Section]:
    """The sections with the attributes of the kernels, by their names."""
    wanted = {KERNEL_PREFIX + name: name for name in kernels}
    found = {
        wanted[section.name]: section for section in read_sections(cubin) if section.name in wanted
    }
    for name in kernels:
        if name not in found:
            raise InternalError(f"kernel '{name}' is not in the cubin", where="cubin")
    return found
