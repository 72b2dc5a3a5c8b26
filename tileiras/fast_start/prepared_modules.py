"""Finds modules in the prepared file: no folder is searched, no file opened for each."""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

TYPE_CHECKING = False  # `typing` shall come from the prepared file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    from tileiras.fast_start.prepared_file import Module, Prepared

_CODE = (lambda: None).__code__.__class__

_HEAD_BYTES = 16
"""Fixed: a .pyc file begins with so many bytes that are not code (PEP 552)."""


class PreparedLoader(SourceFileLoader):
    """Python's loader of source files, with the code at hand."""

    def __init__(self, name: str, path: str, prepared: Prepared):
        super().__init__(name, path)
        self._prepared = prepared

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code; as Python's loader gets it where the file is damaged."""
        try:
            code = marshal.loads(self._prepared.code_of(fullname))
        except (OSError, ValueError, EOFError, TypeError):
            code = None
        return code if type(code) is _CODE else super().get_code(fullname)


class PreparedModules:
    """A finder that comes before Python's own.

    A module is taken from the file if its source is the one that it was made from (as Python
    decides it for .pyc files: by time and size) and is where Python would look first. The search
    path for top-level modules is that of the process that wrote the file; it is part of its name.
    """

    def __init__(self, prepared: Prepared):
        self._prepared = prepared
        self._path = list(sys.path)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as Python's machinery wants it; None where other finders shall look."""
        entry = self._prepared.known.get(name)
        if entry is None:
            return None
        source, is_package, modified, size, _, _ = entry
        folder = os.path.dirname(source)
        if path is None:
            if sys.path != self._path:
                return None
        elif list(path) != [os.path.dirname(folder) if is_package else folder]:
            return None
        try:
            status = os.stat(source)
        except OSError:
            return None
        if status.st_mtime_ns != modified or status.st_size != size:
            return None
        loader = PreparedLoader(name, source, self._prepared)
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [folder]
        return spec

    def note_loaded(self) -> None:
        """Adds the modules that were loaded from their files to what will be prepared."""
        if sys.path != self._path:
            return
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            if spec is None or spec.name != name or type(spec.loader) is not SourceFileLoader:
                continue
            entry = _prepare(spec)
            if entry is not None and self._prepared.known.get(name, ())[:4] != entry[:4]:
                self._prepared.modules[name] = entry
                self._prepared.grew = True


def _prepare(spec: ModuleSpec) -> Module | None:
    """The module with its code; None where it cannot be had."""
    if not spec.origin or not os.path.isabs(spec.origin):
        return None
    try:
        status = os.stat(spec.origin)
    except OSError:
        return None
    code = _cached_code(spec, status) or _compiled_code(spec)
    if code is None:
        return None
    is_package = spec.submodule_search_locations is not None
    return (spec.origin, is_package, status.st_mtime_ns, status.st_size, code)


def _cached_code(spec: ModuleSpec, status: os.stat_result) -> bytes | None:
    """What the .pyc file has that Python keeps; None where there is no valid one."""
    if not spec.cached:
        return None
    try:
        with open(spec.cached, "rb") as stream:
            data = stream.read()
    except OSError:
        return None
    made_from = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    flags, modified, size = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12))
    return None if flags or (modified, size) != made_from else data[_HEAD_BYTES:]


def _compiled_code(spec: ModuleSpec) -> bytes | None:
    """The code compiled once more, since Python keeps none: a folder that cannot be written, or
    PYTHONDONTWRITEBYTECODE, which many containers set. Every later process would compile it."""
    loader = spec.loader
    assert isinstance(loader, SourceFileLoader)
    try:
        return marshal.dumps(loader.get_code(spec.name))
    except (OSError, SyntaxError, ValueError, ImportError):
        return None
