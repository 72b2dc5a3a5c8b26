"""The file in which a process finds what earlier ones have prepared: code, mostly.

It is made by the first compilation and grows when one needs more. It belongs to one installation
of the compiler, one Python and one search path, which its name and its head tell; readers see it
whole or not at all. What does not fit is ignored and replaced.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False  # `typing` shall come from the prepared file
if TYPE_CHECKING:
    from typing import Any

    Module = tuple[str, bool, int, int, bytes]
    Known = tuple[str, bool, int, int, int, int]

_LAYOUT = 2
"""Raised whenever the content of the file changes its meaning."""

_MAX_BYTES = 64 << 20
"""Policy: a file that is larger than this is not ours; ours has about 6 MB."""

_NUMBER = 8
"""Bytes of a number in the head."""

_MAX_FILES = 8
"""Policy: of this many installations, Pythons and search paths files are kept, the last ones
written."""

_PREFIX = "start-"


class Prepared:
    """What is kept between processes.

    `known` has, by a module's full name, the path of its source, whether it is a package, when the
    source was changed (in nanoseconds) and its size, and where its code is: offset and size in
    `file`. `modules` are those that the file does not have, with their code. `methods` has
    marshalled code by its source text, `patterns` compiled regular expressions by text and flags.
    """

    def __init__(self) -> None:
        self.file = -1
        """The open file; -1 where there is none."""
        self.start = 0
        """Where code begins in it."""
        self.known: dict[str, Known] = {}
        self.modules: dict[str, Module] = {}
        self.methods: dict[str, bytes] = {}
        self.patterns: dict[tuple[Any, int], tuple[Any, ...]] = {}
        self.grew = False
        """Whether there is something that the file does not have."""

    def code_of(self, name: str) -> bytes:
        """The marshalled code of a module that the file has."""
        *_, offset, size = self.known[name]
        return os.pread(self.file, size, self.start + offset)


def file_name() -> str:
    """The name of the file for this Python, its search path and this installation."""
    import _imp  # what importlib.util gives to the rest of us

    place = "\n".join((__file__, sys.version, *sys.path))
    digest = _imp.source_hash(_LAYOUT, place.encode(errors="surrogateescape")).hex()
    return f"{_PREFIX}{sys.implementation.cache_tag}-{digest}.marshal"


def read_prepared(folder: str) -> Prepared:
    """What the file in `folder` has; nothing where it is missing, foreign or damaged.

    Only the table of contents is read here, and the file stays open.
    """
    try:
        file = os.open(os.path.join(folder, file_name()), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Prepared()
    prepared = Prepared()
    try:
        status = os.fstat(file)
        head = _head()
        if status.st_size <= _MAX_BYTES and status.st_uid == os.geteuid():
            start = os.pread(file, len(head) + 2 * _NUMBER, 0)
            table, whole = (
                int.from_bytes(start[at : at + _NUMBER], "little")
                for at in (len(head), len(head) + _NUMBER)
            )
            if start.startswith(head) and whole == status.st_size:
                contents = marshal.loads(os.pread(file, table, len(start)))
                prepared.known, prepared.methods, prepared.patterns = contents
                prepared.file, prepared.start = file, len(start) + table
    except (OSError, ValueError, EOFError, TypeError):
        prepared = Prepared()
    if prepared.file < 0:
        os.close(file)
    return prepared


def write_prepared(folder: str, prepared: Prepared) -> None:
    """Writes the file, with what another process has added meanwhile; never raises."""
    from tileiras.file_replacement import write_beside

    now = read_prepared(folder)
    modules = {name: (*known[:4], now.code_of(name)) for name, known in now.known.items()}
    modules.update(prepared.modules)
    known: dict[str, Known] = {}
    offset = 0  # from the end of the table, whose size it would change otherwise
    for name, (source, is_package, modified, size, code) in modules.items():
        known[name] = (source, is_package, modified, size, offset, len(code))
        offset += len(code)
    content = (known, {**now.methods, **prepared.methods}, {**now.patterns, **prepared.patterns})
    try:
        table = marshal.dumps(content)
        head = _head()
        whole = len(head) + 2 * _NUMBER + len(table) + offset
        numbers = (number.to_bytes(_NUMBER, "little") for number in (len(table), whole))
        codes = (code for *_, code in modules.values())
        os.makedirs(folder, mode=0o700, exist_ok=True)
        place = os.path.join(folder, file_name())
        write_beside(place, b"".join((head, *numbers, table, *codes)), mode=0o600)
        _remove_old(folder)
    except (OSError, ValueError):
        return
    finally:
        if now.file >= 0:
            os.close(now.file)


def _head() -> bytes:
    return b"tileiras start %d\n" % _LAYOUT + sys.version.encode() + b"\n"


def _remove_old(folder: str) -> None:
    """Removes the files that have not been written for longest, down to `_MAX_FILES`."""
    names = [name for name in sorted(os.listdir(folder)) if name.startswith(_PREFIX)]
    places = [os.path.join(folder, name) for name in names]
    places.sort(key=lambda place: os.stat(place).st_mtime_ns)
    for place in places[:-_MAX_FILES]:
        os.unlink(place)
