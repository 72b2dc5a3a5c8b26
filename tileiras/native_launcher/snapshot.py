"""A warmed process on disk: what the process does that is written, and when it comes back.

The program `tileiras` maps the file again (`snapshot_starter.c`) in 2 ms, where starting Python and
importing the compiler takes 120. The process that comes back takes from its caller what a process
has from its start: words, environment, locale, streams and signals. All else (folder, limits,
umask, open files) is the new process's own.

`write` runs in a Python of its own, which the build starts with an empty environment: nothing of
the user's is kept in the file.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from tileiras.early_signals import REASONS, end_quickly

_COME_BACK = 1
_UTF8_WHATEVER_IT_SAYS = ("C", "POSIX", "C.UTF-8", "C.utf8")


class Resumed(ctypes.Structure):
    """What the starter tells: `struct Resumed` of snapshot.h."""

    _fields_ = (
        ("argument_count", ctypes.c_int64),
        ("arguments", ctypes.POINTER(ctypes.c_char_p)),
        ("environment", ctypes.POINTER(ctypes.c_char_p)),
        ("held", ctypes.c_uint64),
        ("ignored", ctypes.c_uint64),
    )


def write(library: str, place: str, build: str, launcher: str) -> None:
    """Warms this process up and writes it to `place`; ends it with an exit code and one line.

    A process that comes back compiles, and ends as the command does.
    """
    from tileiras.cli import run, run_as_process
    from tileiras.resident.samples import MATMUL, TRACED_ADD
    from tileiras.resident.server import open_streams, rehearse, warm_up

    writer: Any = ctypes.CDLL(library)
    writer.tileiras_snapshot_resumed.restype = ctypes.POINTER(Resumed)
    writer.tileiras_snapshot_reason.restype = ctypes.c_char_p
    gc.disable()
    warm_up(os.environ)
    if writer.tileiras_snapshot_watch() < 0:
        _fail(writer)
    for program in (TRACED_ADD, MATMUL):
        rehearse(os.environ, program)
    if writer.tileiras_snapshot_unwatch() < 0:
        _fail(writer)
    for name in _sources():
        if writer.tileiras_snapshot_source(name) < 0:
            _fail(writer)
    gc.collect()
    gc.freeze()
    result = writer.tileiras_snapshot_write(os.fsencode(place), build.encode())
    if result < 0:
        _fail(writer)
    if result != _COME_BACK:
        os._exit(0)
    resumed = writer.tileiras_snapshot_resumed().contents
    _take_words(resumed)
    _take_signals(resumed)
    lenient = _understand_locale(launcher)
    open_streams(_streams(lenient))
    _forget_chance()
    run_as_process(run, sys.argv[1:])


def _fail(writer: Any) -> NoReturn:
    """Ends the process with the reason why there is no snapshot."""
    os.write(2, writer.tileiras_snapshot_reason() + b"\n")
    os._exit(1)


def _sources() -> list[bytes]:
    """The files that all modules were loaded from, and what was read beside them."""
    found = {getattr(module, "__file__", None) for module in sys.modules.values()}
    package = Path(__file__).parent.parent
    read = {str(path) for path in package.rglob("*.json")}
    return sorted(os.fsencode(os.path.abspath(name)) for name in found | read if name)


def _take_words(resumed: Resumed) -> None:
    """The command line and the environment."""
    words = (resumed.arguments[index] for index in range(resumed.argument_count))
    sys.argv = [os.fsdecode(word or b"") for word in words]
    entries: dict[bytes, bytes] = {}
    index = 0
    while (entry := resumed.environment[index]) is not None:
        name, equals, value = entry.partition(b"=")
        if equals:
            entries.setdefault(name, value)
        index += 1
    known = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001 (libc has these already)
    known.clear()
    known.update(entries)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))


def _take_signals(resumed: Resumed) -> None:
    """What Python does with signals at its start, then what this command does."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    for number in REASONS:
        ignored = resumed.ignored >> (number - 1) & 1
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    end_quickly()
    held = [number for number in REASONS if resumed.held >> (number - 1) & 1]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, held)


def _understand_locale(launcher: str) -> bool:
    """Whether text that is no UTF-8 is let through, as Python's own start decides it.

    A locale of another encoding is for the ordinary program: this process becomes that.
    """
    import locale

    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    wanted = next(filter(None, names), "C")
    if wanted in _UTF8_WHATEVER_IT_SAYS:
        return True
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:  # not installed: it is "C"
        return True
    if locale.nl_langinfo(locale.CODESET) != "UTF-8":
        os.execv(launcher, sys.argv)
    return False


def _streams(lenient: bool) -> list[tuple[str, str, bool]]:
    """Encoding, what is done with errors, and whether lines are written at once."""
    buffered = not os.environ.get("PYTHONUNBUFFERED")
    ordinary = "surrogateescape" if lenient else "strict"
    return [
        ("utf-8", "backslashreplace" if number == 2 else ordinary,
         buffered and (number == 2 or os.isatty(number)))
        for number in (0, 1, 2)
    ]  # fmt: skip


def _forget_chance() -> None:
    """Two processes that came back must not draw the same numbers."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["_name_sequence"] = None
