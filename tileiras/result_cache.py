"""Results of earlier compilations, by what went into them; off unless TILEIRAS_CACHE_DIR is set.

A result is found by the hash of the input, the options, the knobs of the environment and the
versions of everything that compiles: our sources, LLVM's library, ptxas, libdevice, Python. Only
what a compilation writes to its output is kept, so compilations that say or write more are not
looked up. An entry is written beside its place and renamed, and has a checksum: whatever is torn or
damaged is a miss. The folder is kept below a size; what was not used for longest goes first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from hashlib import sha256

from tileiras import __version__
from tileiras.codegen.libdevice import find_libdevice
from tileiras.codegen.llvm_library import find_llvm_library
from tileiras.codegen.ptxas_process import find_ptxas
from tileiras.driver import MAGIC
from tileiras.errors import TileirasError
from tileiras.file_replacement import write_beside
from tileiras.options import CompileOptions

FOLDER_VARIABLE = "TILEIRAS_CACHE_DIR"
"""Names the folder; nothing is kept without it."""

SIZE_VARIABLE = "TILEIRAS_CACHE_SIZE"
"""The most megabytes that the folder may have."""

_DEFAULT_MEGABYTES = 1024.0
"""Policy: a thousand programs with all their variants."""

_LOWERED_TO = 0.75
"""Policy: a folder that is too large is cut to this part, so that it is not done every time."""

_MAGIC = b"tileiras result 1\n"
_SUFFIX = ".result"
_SAID_OR_WRITTEN = (
    "print_before_all",
    "print_after_all",
    "print_before",
    "print_after",
    "print_changed",
    "dump_dir",
    "verbose",
    "time_passes",
    "device_debug",
)
"""Options of compilations that make more than their output, or are made of more than the input.

For debugging, names are read from the source that the input was made from.
"""


class ResultCache:
    """A folder of results."""

    def __init__(self, folder: str, most_bytes: int):
        self._folder = folder
        self._most_bytes = most_bytes

    def key(self, source: bytes, options: CompileOptions) -> str | None:
        """What a compilation is found by; None for one that makes more than its output.

        Also where something that compiles cannot be found, so that the compilation says so.
        """
        if any(getattr(options, name) for name in _SAID_OR_WRITTEN):
            return None
        versions = compiler_state(options.knobs)
        if versions is None:
            return None
        plain = replace(options, knobs={})
        given = [(field.name, getattr(plain, field.name)) for field in fields(plain)]
        knobs = sorted(item for item in options.knobs.items() if item[0].startswith("TILEIR_"))
        parts = (__version__, sys.version, given, knobs, versions, len(source))
        return sha256(repr(parts).encode(errors="surrogateescape") + source).hexdigest()

    def find(self, key: str) -> bytes | None:
        """The output kept under a key; None where there is none, or it is damaged."""
        path = self._path(key)
        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError:
            return None
        start = len(_MAGIC) + sha256().digest_size
        output = data[start:]
        if data[:start] != _MAGIC + sha256(key.encode() + output).digest():
            with suppress(OSError):
                os.unlink(path)
            return None
        with suppress(OSError):
            os.utime(path)
        return output

    def keep(self, key: str, output: bytes) -> None:
        """Keeps an output; does nothing where that is not possible."""
        data = _MAGIC + sha256(key.encode() + output).digest() + output
        if len(data) > self._most_bytes:
            return
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            write_beside(self._path(key), data, mode=0o600)
            self._shrink()

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key + _SUFFIX)

    def _shrink(self) -> None:
        """Removes what was not used for longest, if there is too much; others may do the same."""
        found: list[tuple[int, int, str]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        found.append((status.st_mtime_ns, status.st_size, entry.path))
        size = sum(one for _, one, _ in found)
        if size <= self._most_bytes:
            return
        for _, one, path in sorted(found):
            if size <= self._most_bytes * _LOWERED_TO:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            size -= one


def cache_of(environ: Mapping[str, str]) -> ResultCache | None:
    """The cache that an environment names; None without one, or with a size that is no number."""
    folder = environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    try:
        megabytes = float(environ.get(SIZE_VARIABLE) or _DEFAULT_MEGABYTES)
    except ValueError:
        return None
    return ResultCache(folder, int(megabytes * 1e6)) if megabytes > 0 else None


class KeptResult:
    """One result of a cache: the output, if it is there, and what it is found by."""

    def __init__(self, cache: ResultCache, key: str):
        self._cache, self._key = cache, key
        self.output = cache.find(key)

    def keep(self, output: bytes) -> None:
        """Keeps an output; does nothing where that is not possible."""
        self._cache.keep(self._key, output)


def look_up(
    source: bytes, filename: str, options: CompileOptions, environ: Mapping[str, str]
) -> KeptResult | None:
    """The result of a compilation; None where there is no cache, or none for such compilations.

    The name of a text is in its locations; that of bytecode is not in any result.
    """
    cache = cache_of(environ)
    if cache is None:
        return None
    name = b"" if source.startswith(MAGIC) else filename.encode(errors="surrogateescape")
    key = cache.key(name + b"\0" + source, options)
    return None if key is None else KeptResult(cache, key)


def compiler_state(knobs: Mapping[str, str]) -> list[tuple[str, int, int]] | None:
    """Everything that compiles, by when it was changed; None where something cannot be found."""
    try:
        tools = [find_llvm_library(), find_ptxas(knobs), find_libdevice(knobs)]
        return [(path, *_state(path)) for path in (*tools, *_our_sources())]
    except (TileirasError, OSError):
        return None


def _state(path: str) -> tuple[int, int]:
    """When a file was changed, and its size."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _our_sources() -> list[str]:
    """All sources of this package and of xDSL's IR, on which results depend."""
    import xdsl

    found: list[str] = []
    for top in (os.path.dirname(__file__), os.path.dirname(xdsl.__file__)):
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            found += [os.path.join(folder, name) for name in sorted(names) if name[-3:] == ".py"]
    return found
