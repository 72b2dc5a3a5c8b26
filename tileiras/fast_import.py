"""Makes importing xDSL cheaper, for processes that compile one kernel and end.

Half of the time of such a process is spent importing. Two things in it are avoidable:

- `dataclasses` writes the source of every method that it generates and compiles it, on every start.
  `cache_generated_code` keeps the code objects in a file, as Python does for modules.
- `xdsl.dialects` installs an import hook for dialects written in IRDL, which pulls in archives,
  temporary files and resources. `skip_dialect_finder` leaves it out.

Neither changes what the modules contain. Measured on 2 cores, Python 3.11, xDSL 0.74: see
docs/decisions/0004-cheaper-imports.md.
"""

from __future__ import annotations

import builtins
import dataclasses
import marshal
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType, ModuleType
from typing import Any

from tileiras.file_replacement import write_beside

_MAX_BYTES = 16 << 20
"""A cache that is larger than this is not ours: ours has about 1 MB."""


def cache_folder(environ: Mapping[str, str]) -> str | None:
    """Where caches go: $XDG_CACHE_HOME/tileiras, else ~/.cache/tileiras; None without a home."""
    if environ.get("XDG_CACHE_HOME"):
        return os.path.join(environ["XDG_CACHE_HOME"], "tileiras")
    if environ.get("HOME"):
        return os.path.join(environ["HOME"], ".cache", "tileiras")
    return None


def skip_dialect_finder() -> None:
    """Puts an empty package in place of `xdsl.dialects`; its submodules are imported as usual."""
    if "xdsl.dialects" in sys.modules:
        return
    spec = find_spec("xdsl")
    if spec is None or not spec.submodule_search_locations:
        return
    package = ModuleType("xdsl.dialects")
    package.__path__ = [
        os.path.join(location, "dialects") for location in spec.submodule_search_locations
    ]
    sys.modules["xdsl.dialects"] = package


def cache_generated_code(folder: str) -> Callable[[], None]:
    """Lets `dataclasses` take generated code from a file in `folder`.

    Returns a function that writes what was added; it never raises, since a cache that cannot be
    written only costs time.
    """
    path = os.path.join(folder, f"dataclasses-{sys.implementation.cache_tag}.marshal")
    known = _read_cache(path)
    before = len(known)

    def run(source: str | CodeType, *scopes: Any) -> None:
        """`exec`, with the compilation of text remembered."""
        if isinstance(source, str):
            code = known.get(source)
            if code is None:
                code = known[source] = compile(source, "<string>", "exec")
            source = code
        builtins.exec(source, *scopes)

    setattr(dataclasses, "exec", run)  # noqa: B010 (a name that the module takes from builtins)

    def save() -> None:
        """Writes the cache if it grew."""
        if len(known) > before:
            _write_cache(path, known)

    return save


def _read_cache(path: str) -> dict[str, CodeType]:
    """The cached code by its source; empty where the file is missing, foreign or of another
    Python."""
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            return {}
        with open(path, "rb") as stream:
            data = stream.read()
        if not data.startswith(MAGIC_NUMBER):
            return {}
        known = marshal.loads(data[len(MAGIC_NUMBER) :])
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_cache(path: str, known: dict[str, CodeType]) -> None:
    """Writes the cache so that readers see it whole."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_beside(path, MAGIC_NUMBER + marshal.dumps(known), mode=0o600)
    except OSError:
        return
