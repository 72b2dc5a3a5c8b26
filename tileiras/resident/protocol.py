"""Where the resident compiler is found, and what is said on its socket.

A client connects and sends one request: its size, four descriptors (standard streams and current
folder) and marshalled data. The answers are one letter each, with a number: `STARTED` and the
number of the process that compiles, then `ENDED` and its exit code. `NO`, or the end of the
connection without `ENDED`, tells the client to compile by itself.

Imports nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # `typing` would cost the client as much as the rest of it
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Raised whenever client and server of two versions would not understand each other."""

STARTED, ENDED, NO = b"S", b"E", b"N"
ANSWER_BYTES = 5
"""Fixed: a letter and a number of four bytes."""

ALLOWING_VARIABLE = "TILEIRAS_SERVER"
"""1 lets a command use the resident compiler."""

IDLE_VARIABLE = "TILEIRAS_SERVER_IDLE"
"""Seconds after which a resident compiler without work ends."""

MAX_REQUEST_BYTES = 8 << 20
"""Policy: arguments and environment of a process are smaller (Linux allows 6 MB)."""

SECONDS_FOR_A_REQUEST = 5.0
"""Policy: a client that has connected sends its request within this time."""


def runtime_folder(environ: Mapping[str, str]) -> str | None:
    """The user's private folder for sockets, made if it is missing; None where it is not private.

    $XDG_RUNTIME_DIR/tileiras, else /tmp/tileiras-UID.
    """
    base = environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        folder = os.path.join(base, "tileiras")
    else:
        folder = f"/tmp/tileiras-{os.geteuid()}"
    try:
        try:
            status = os.lstat(folder)
        except FileNotFoundError:
            os.mkdir(folder, 0o700)
            status = os.lstat(folder)
    except OSError:
        return None
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return folder if private and status.st_uid == os.geteuid() else None


def socket_path(folder: str) -> str:
    """The socket of this installation under this Python, whose texts have this encoding."""
    import _imp  # what importlib.util gives to the rest of us

    parts = (__file__, sys.executable, sys.version, sys.getfilesystemencoding())
    text = "\n".join((str(VERSION), *parts))
    digest = _imp.source_hash(VERSION, text.encode(errors="surrogateescape")).hex()
    return os.path.join(folder, f"resident-{digest}")


def answer(letter: bytes, number: int = 0) -> bytes:
    """An answer as it is sent."""
    return letter + number.to_bytes(ANSWER_BYTES - 1, "little")
