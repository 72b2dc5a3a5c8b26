"""Whether what ptxas left is a whole cubin for the target, with the kernels of the PTX.

ptxas may end without an error and leave nothing (a wrapper script, a full disk). Only the head and
the sections are looked at: a loaded module is the driver's to judge.
"""

from __future__ import annotations

import re
import struct

from tileiras.codegen.cubin.elf import read_sections
from tileiras.codegen.target import GpuTarget
from tileiras.errors import CompileError, InternalError

_IDENTITY = b"\x7fELF"
_SEGMENTS = struct.Struct("<32xQ8xI2xHH8x")
"""In the ELF header (System V ABI, "Object Files"): where the table of segments starts, the flags,
the size of its rows and their number."""

_TEXT = ".text."
_ABI_WITH_WIDE_FLAGS = 8
"""Since this ABI version bits 8 to 15 of the flags have the processor's number, before it the
lowest 8 (LLVM, BinaryFormat/ELF.h, EF_CUDA_SM and EF_CUDA_SM_MASK)."""

_ENTRY = re.compile(r"^\.visible \.entry ([^\s(]+)", re.MULTILINE)


def check_cubin(data: bytes, target: GpuTarget, ptx: str) -> None:
    """Raises CompileError unless `data` is a whole cubin of `target` with the entries of `ptx`."""
    if not data:
        raise _broken("it ended without an error and left no code")
    try:
        sections = read_sections(data)
    except InternalError as error:
        kind = "no ELF file" if not data.startswith(_IDENTITY) else "no whole ELF file of CUDA code"
        raise _broken(f"what it left is {kind} ({len(data)} bytes)") from error
    start, flags, width, count = _SEGMENTS.unpack_from(data)
    if start + width * count > len(data):
        raise _broken(f"what it left is no whole ELF file of CUDA code ({len(data)} bytes)")
    number = flags >> 8 & 0xFF if data[8] >= _ABI_WITH_WIDE_FLAGS else flags & 0xFF
    if number != target.number:
        raise _broken(f"it left code for sm_{number}, expected {target.name}")
    names = {section.name.removeprefix(_TEXT) for section in sections if _TEXT in section.name}
    missing = sorted(set(_ENTRY.findall(ptx)) - names)
    if missing:
        raise _broken(f"its code lacks the kernel '{missing[0]}'")


def _broken(what: str) -> CompileError:
    return CompileError(f"ptxas made no usable cubin: {what}")
