"""Whether what ptxas left is a whole cubin for the target, with the kernels of the PTX.

ptxas may end without an error and leave nothing (a wrapper script, a full disk). Only the head and
the table of sections are looked at: a loaded module is the driver's to judge.
"""

from __future__ import annotations

import re
import struct

from tileiras.codegen.target import GpuTarget
from tileiras.errors import CompileError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
"""Elf64_Ehdr and Elf64_Shdr of the ELF specification (System V ABI, chapter 4)."""

_IDENTITY = b"\x7fELF\x02\x01\x01"
_EM_CUDA = 190
_NO_BITS = 8
_TEXT = b".text."
_ABI_WITH_WIDE_FLAGS = 8
"""Since this ABI version bits 8 to 15 of the flags have the processor's number, before it the
lowest 8 (LLVM, BinaryFormat/ELF.h, EF_CUDA_SM and EF_CUDA_SM_MASK)."""

_ENTRY = re.compile(r"^\.visible \.entry ([^\s(]+)", re.MULTILINE)


def check_cubin(data: bytes, target: GpuTarget, ptx: str) -> None:
    """Raises CompileError unless `data` is a whole cubin of `target` with the entries of `ptx`."""
    if not data:
        raise _broken("it ended without an error and left no code")
    if not data.startswith(_IDENTITY) or len(data) < _HEADER.size:
        raise _broken(f"what it left is no ELF file of 64 bits ({len(data)} bytes)")
    identity, _, machine, _, _, segments, sections, flags, _, width, parts, size, count, names = (
        _HEADER.unpack_from(data)
    )
    if machine != _EM_CUDA:
        raise _broken(f"it left an ELF file for machine {machine}, expected {_EM_CUDA} (CUDA)")
    end = max(segments + parts * width, sections + count * size)
    if size != _SECTION.size or end > len(data) or names >= count:
        raise _broken(f"it left an ELF file that is cut short ({len(data)} bytes)")
    number = flags >> 8 & 0xFF if identity[8] >= _ABI_WITH_WIDE_FLAGS else flags & 0xFF
    if number != target.number:
        raise _broken(f"it left code for sm_{number}, expected {target.name}")
    missing = sorted(set(_ENTRY.findall(ptx)) - _kernel_names(data, sections, count, names))
    if missing:
        raise _broken(f"its code lacks the kernel '{missing[0]}'")


def _kernel_names(data: bytes, start: int, count: int, names: int) -> set[str]:
    """Names of the functions that have a section of code. Raises CompileError where the sections
    reach beyond the end of the file."""
    table = [_SECTION.unpack_from(data, start + i * _SECTION.size) for i in range(count)]
    for _, kind, _, _, offset, size, *_ in table:
        if kind != _NO_BITS and offset + size > len(data):
            raise _broken(f"it left an ELF file that is cut short ({len(data)} bytes)")
    _, _, _, _, offset, size, *_ = table[names]
    strings = data[offset : offset + size]
    found = (strings[row[0] :].split(b"\0", 1)[0] for row in table if row[0] < size)
    return {
        name.removeprefix(_TEXT).decode(errors="replace")
        for name in found
        if name.startswith(_TEXT)
    }


def _broken(what: str) -> CompileError:
    return CompileError(f"ptxas made no usable cubin: {what}")
