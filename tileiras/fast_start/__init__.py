"""Makes the start of a process cheap that compiles one kernel and ends. All tricks are here.

Most of a small compilation is Python finding, loading and making modules. What is done about it:

| trick | file | fallback |
|---|---|---|
| code of all modules that a compilation loads in one file | `prepared_modules` | Python's finders |
| dataclasses read, and their methods made, when first used | `lazy_dataclasses` | `dataclasses` |
| operations and attributes defined when first used | `lazy_definitions` | xDSL's decorators |
| programs walked through by fewer generators | `lazy_definitions` | xDSL's `walk` |
| compiled regular expressions kept | `kept_patterns` | `re` |
| `inspect` read when more than its plain functions is asked | `lazy_inspect` | `inspect` |
| xDSL's finder of IRDL dialects left out | here | that finder |

None changes what a module contains or what the compiler does, and only the commands use them: in a
program that imports the compiler as a library nothing is replaced. What is kept lies in one file
in the user's cache directory (`prepared_file`), which belongs to one Python and one installation;
whatever in it is older than its source is not used. Without it everything works and is slower.

What each is worth, and how it was measured: docs/compile-latency.md. This module and the two for
prepared modules import nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import os
import sys

from tileiras.fast_start.prepared_file import Prepared, read_prepared, write_prepared
from tileiras.fast_start.prepared_modules import PreparedModules

TYPE_CHECKING = False  # `typing` shall come from the prepared file
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRICKS = ("modules", "inspect", "dataclasses", "definitions", "patterns", "dialect finder")
"""The names of the tricks, for tests that switch single ones off."""


_started: list[Callable[[], None]] = []
"""What `start_fast` has returned in this process."""


def cache_folder(environ: Mapping[str, str]) -> str | None:
    """Where caches go: $XDG_CACHE_HOME/tileiras, else ~/.cache/tileiras; None without a home."""
    if environ.get("XDG_CACHE_HOME"):
        return os.path.join(environ["XDG_CACHE_HOME"], "tileiras")
    if environ.get("HOME"):
        return os.path.join(environ["HOME"], ".cache", "tileiras")
    return None


def start_fast(folder: str | None, without: tuple[str, ...] = ()) -> Callable[[], None]:
    """Switches everything on, but the tricks named; returns what to call before the process ends.

    `folder` is that of the prepared file; None: nothing is kept. The function that is returned
    writes what was new; neither raises. A second call does nothing and returns the same function.
    """
    if _started:
        return _started[0]
    prepared = Prepared() if folder is None else read_prepared(folder)
    modules = PreparedModules(prepared)
    if "modules" not in without:
        sys.meta_path.insert(0, modules)
    if "inspect" not in without:
        from tileiras.fast_start.lazy_inspect import defer_inspect

        defer_inspect()
    if "patterns" not in without:
        from tileiras.fast_start.kept_patterns import keep_patterns

        keep_patterns(prepared)
    if "dataclasses" not in without:
        from tileiras.fast_start.lazy_dataclasses import defer_dataclasses

        defer_dataclasses(prepared)
    if "definitions" not in without:
        from tileiras.fast_start.lazy_definitions import DeferDefinitions

        sys.meta_path.insert(0, DeferDefinitions())
    if "dialect finder" not in without:
        skip_dialect_finder()

    def save() -> None:
        if folder is None:
            return
        modules.note_loaded()
        if prepared.grew:
            write_prepared(folder, prepared)

    _started.append(save)
    return save


def save_once() -> None:
    """Writes what is new now, and nothing when the process or a fork of it ends.

    For the resident compiler: its children know nothing that their parent does not, and each would
    write it again.
    """
    if _started:
        _started[0]()
        _started[0] = lambda: None


def skip_dialect_finder() -> None:
    """Puts an empty package in place of `xdsl.dialects`; its submodules are imported as usual.

    The real one installs an import hook for dialects written in IRDL, which pulls in archives,
    temporary files and resources.
    """
    if "xdsl.dialects" in sys.modules:
        return
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("xdsl")
    if spec is None or not spec.submodule_search_locations:
        return
    package = type(sys)("xdsl.dialects")
    package.__path__ = [
        os.path.join(location, "dialects") for location in spec.submodule_search_locations
    ]
    sys.modules["xdsl.dialects"] = package
