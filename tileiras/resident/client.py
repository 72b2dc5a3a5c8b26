"""What a command does that may have its work done by the resident compiler.

Imports nothing that Python has not loaded by itself, but `_socket`: `socket` takes longer than the
rest of a request.
"""

from __future__ import annotations

import marshal
import os
import sys

from tileiras.early_signals import REASONS
from tileiras.resident.protocol import (
    ALLOWING_VARIABLE,
    ANSWER_BYTES,
    ENDED,
    STARTED,
    runtime_folder,
    socket_path,
)

TYPE_CHECKING = False  # `typing` would cost as much as the rest
if TYPE_CHECKING:
    import _socket
    import signal
    from collections.abc import Mapping, Sequence
else:
    import _signal as signal

_HARMLESS = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Variables of Python's that do not change what a compilation does."""

_OF_ONE_PROCESS = ("/dev/fd/", "/proc/self/", "/proc/thread-self/")
"""Files that are others in another process."""

_CREDENTIALS_BYTES = 12
"""Fixed: process, user and group of the peer (unix(7), SO_PEERCRED)."""


def is_allowed(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the user allows the resident compiler, and a fork of it would do the same."""
    named = "--server" in argv or "-server" in argv
    if not named and environ.get(ALLOWING_VARIABLE) != "1":
        return False
    if any(name.startswith("PYTHON") and name not in _HARMLESS for name in environ):
        return False
    if any(place in argument for argument in argv for place in _OF_ONE_PROCESS):
        return False
    return None not in (sys.stdin, sys.stdout, sys.stderr)


def compile_there(argv: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """The exit code of a compilation by the resident compiler; None: it has to be done here.

    Starts one in the background where none answers.
    """
    folder = runtime_folder(environ)
    if folder is None:
        return None
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(socket_path(folder))
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS_BYTES)
    except (OSError, AttributeError):
        connection.close()
        _start_server(environ)
        return None
    try:
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            return None
        _send_request(connection, argv, environ)
        return _wait(connection)
    except OSError:
        return None
    finally:
        connection.close()


def _send_request(
    connection: _socket.socket, argv: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Sends what a process is started with."""
    import _socket

    umask = os.umask(0o077)
    os.umask(umask)
    ignored = [n for n in REASONS if signal.getsignal(n) == signal.SIG_IGN]
    streams = [
        (stream.encoding, stream.errors, stream.line_buffering)
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    ]
    data = marshal.dumps((sys.argv[0], list(argv), dict(environ), umask, ignored, streams))
    place = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        numbers = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2, place))
        head = len(data).to_bytes(4, "little")
        passed = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)
        connection.sendmsg([head], [passed])
        connection.sendall(data)
    finally:
        os.close(place)


def _wait(connection: _socket.socket) -> int | None:
    """The exit code that the server tells; signals go to the process that compiles."""
    process = 0

    def forward(number: int, _: object) -> None:
        if not process:
            os.write(2, f"error: {REASONS[number]}\n".encode())
            os._exit(128 + number)
        os.kill(process, number)

    for number in REASONS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)
    while True:
        said = _receive(connection)
        letter, number = said[:1], int.from_bytes(said[1:], "little")
        if letter == STARTED:
            process = number
        else:
            return number if letter == ENDED else None


def _receive(connection: _socket.socket) -> bytes:
    """One answer; empty where the connection has ended."""
    said = b""
    while len(said) < ANSWER_BYTES:
        more = connection.recv(ANSWER_BYTES - len(said))
        if not more:
            return b""
        said += more
    return said


def _start_server(environ: Mapping[str, str]) -> None:
    """Starts a resident compiler that outlives this process; it has no streams of ours."""
    flags = ["-I"] if sys.flags.isolated else []
    flags += ["-S"] if sys.flags.no_site else []
    path = [entry for entry in sys.path if entry]
    script = f"import sys; sys.path[:] = {path!r}; import tileiras_command as c; c.serve()"
    nowhere = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in (0, 1, 2)]
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, *flags, "-c", script],
            dict(environ),
            file_actions=nowhere,
            setsid=True,
        )
    except OSError:
        return
