"""Math functions from libdevice: finds the bitcode and links only the functions that are used.

Parsing all of libdevice takes 50 ms, one function's slice of it about 1 ms. Slices are kept in the
user's cache directory, keyed by libdevice's contents, LLVM's version and the passes that made them;
a cache that cannot be written is ignored. Slices are optimised when they are made, so that no
optimisation runs over the caller: its lowering has chosen every operation for what it does exactly.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tileiras.codegen.cuda_toolkit import candidates
from tileiras.codegen.llvm_library import LlvmLibrary
from tileiras.codegen.llvmir.intrinsics import NEAR, NEAR_LIMIT
from tileiras.errors import InternalError, TargetError
from tileiras.file_replacement import write_beside

_PREFIX = "__nv_"
_IN_TOOLKIT = "nvvm/libdevice/libdevice.10.bc"
_SLICE_PASSES = (
    "AlwaysInliner",
    "GlobalDCE",
    "SROA",
    "SimplifyCFG",
    "InstCombine",
    "SimplifyCFG",  # of what InstCombine made of conditions; a quarter of fmodf's branches
    "GlobalDCE",
)
_NEAR_LEVEL = 1
"""Policy: the level of LLVM's pipeline for functions of `NEAR`: it draws conclusions from what is
assumed."""
_CALLER_PASSES = ("AlwaysInliner", "GlobalDCE")
_IN_PACKAGES = (f"cu13/{_IN_TOOLKIT}", f"cuda_nvcc/{_IN_TOOLKIT}", f"cu12/{_IN_TOOLKIT}")


def used_functions(llvm_text: str) -> tuple[str, ...]:
    """Names of libdevice functions that LLVM IR text declares, sorted."""
    found: list[str] = []
    for line in llvm_text.splitlines():
        if line.startswith("declare ") and f"@{_PREFIX}" in line:
            found.append(line.partition("@")[2].partition("(")[0])
    return tuple(sorted(found))


def find_libdevice(knobs: Mapping[str, str]) -> str:
    """libdevice in the pip packages, then in CUDA_HOME or CUDA_PATH. Raises TargetError."""
    for path in candidates(knobs, _IN_PACKAGES, _IN_TOOLKIT):
        if os.path.isfile(path):
            return path
    raise TargetError(
        "cannot find libdevice.10.bc: install the Python package nvidia-nvvm, "
        "or set CUDA_HOME to a CUDA toolkit"
    )


def near_text(name: str) -> str:
    """LLVM IR of a function of `NEAR`: libdevice's, with what is known of the argument.

    Where libdevice asks for the argument's size LLVM knows the answer, and what is left is the way
    of small arguments, operation by operation.
    """
    return f"""
declare float @llvm.nvvm.fabs.f32(float)
declare void @llvm.assume(i1)
declare float @{NEAR[name]}(float)
define float @{name}(float %x) alwaysinline {{
  %size = call float @llvm.nvvm.fabs.f32(float %x)
  %is_large = fcmp oge float %size, {NEAR_LIMIT:.6e}
  %is_near = xor i1 %is_large, true
  call void @llvm.assume(i1 %is_near)
  %result = call float @{NEAR[name]}(float %x)
  ret float %result
}}
"""


def _cache_folder(knobs: Mapping[str, str]) -> str | None:
    if knobs.get("XDG_CACHE_HOME"):
        return os.path.join(knobs["XDG_CACHE_HOME"], "tileiras")
    return os.path.join(knobs["HOME"], ".cache", "tileiras") if knobs.get("HOME") else None


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


class Libdevice:
    """One libdevice file, read when a slice is missing."""

    def __init__(self, llvm: LlvmLibrary, knobs: Mapping[str, str]):
        self._llvm = llvm
        self._path = find_libdevice(knobs)
        self._data = _read(self._path)
        made_by = ",".join((*_SLICE_PASSES, str(_NEAR_LEVEL), *map(near_text, NEAR)))
        checksum = zlib.crc32(made_by.encode(), zlib.crc32(self._data))
        folder = _cache_folder(knobs)
        key = f"libdevice-{len(self._data):x}-{checksum:08x}-llvm-{llvm.version()}"
        self._cache = None if folder is None else os.path.join(folder, key)

    def slice(self, context: int, machine: int, name: str) -> bytes:
        """Bitcode of one function with what it calls inlined."""
        cached = self._read_cached(name)
        if cached is not None:
            return cached
        llvm = self._llvm
        module = llvm.parse_bitcode(context, self._data)
        if name in NEAR:
            llvm.link(module, llvm.parse_text(context, near_text(name)))
        names: list[str] = []
        for function, handle in list(llvm.defined_functions(module)):
            names.append(function)
            if function != name:
                llvm.make_internal(handle)
        if name not in names:
            llvm.call("DisposeModule", module)
            raise InternalError(f"libdevice has no function {name}", where="libdevice")
        if name in NEAR:
            llvm.run_pipeline(module, machine, _NEAR_LEVEL)
        else:
            llvm.run_passes(module, machine, _SLICE_PASSES)
        data = llvm.write_bitcode(module)
        llvm.call("DisposeModule", module)
        self._write_cached(name, data)
        return data

    def _read_cached(self, name: str) -> bytes | None:
        if self._cache is None:
            return None
        try:
            data = _read(os.path.join(self._cache, f"{name}.bc"))
        except OSError:
            return None
        body, checksum = data[:-4], data[-4:]
        return body if zlib.crc32(body).to_bytes(4, "little") == checksum else None

    def _write_cached(self, name: str, data: bytes) -> None:
        """Atomically; another process may do the same. A checksum guards against damage."""
        if self._cache is None:
            return
        with suppress(OSError):
            os.makedirs(self._cache, exist_ok=True)
            whole = data + zlib.crc32(data).to_bytes(4, "little")
            write_beside(os.path.join(self._cache, f"{name}.bc"), whole)


def link_libdevice(
    llvm: LlvmLibrary,
    context: int,
    machine: int,
    module: int,
    names: Sequence[str],
    knobs: Mapping[str, str],
) -> None:
    """Links the functions into the module and inlines them; the callers stay as they are.

    The target's passes answer libdevice's questions (`__nvvm_reflect`: flush to zero? which
    architecture?) before. The code generator would answer them too late: it then folds what
    follows, and where a kernel's constants were inlined it reads instructions that it has freed.
    """
    library = Libdevice(llvm, knobs)
    first, *others = (
        llvm.parse_bitcode(context, library.slice(context, machine, name)) for name in names
    )
    for other in others:
        llvm.link(first, other)
    llvm.run_pipeline(first, machine, 0)
    llvm.link(module, first)
    for name, function in list(llvm.defined_functions(module)):
        if name.startswith(_PREFIX):
            llvm.make_internal(function)
    llvm.run_passes(module, machine, _CALLER_PASSES)
