"""Reading the input, writing outputs whole or not at all, standard streams that may be closed."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress
from typing import BinaryIO

from tileiras.errors import TargetError, UsageError
from tileiras.file_replacement import write_beside
from tileiras.limits import MAX_INPUT_BYTES

_IN_PLACE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EBUSY,
    errno.ENAMETOOLONG,
    errno.EXDEV,
)
"""Why a file cannot be made beside its place and moved there, though it may itself be writable:
the folder is not ours, or the file is a mount of its own."""

_PIECE_BYTES = 1 << 20

_OF_A_WRITE = (errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""Errors that writing to a descriptor has and that name no file."""


def read_input(path: str) -> bytes:
    """The bytes of the input file (- is stdin); raises UsageError."""
    try:
        if path == "-":
            return _read_all(sys.stdin.buffer, path)
        with open(path, "rb") as stream:
            return _read_all(stream, path)
    except OSError as error:
        raise UsageError(f"unable to read input file '{path}': {error.strerror}") from error


def _read_all(stream: BinaryIO, path: str) -> bytes:
    """Everything that a stream has; raises UsageError for more than an input may have.

    A regular file is read into one piece of memory of its size.
    """
    if path != "-" and stat.S_ISREG((status := os.fstat(stream.fileno())).st_mode):
        if status.st_size > MAX_INPUT_BYTES:
            raise _too_large(path)
        return stream.read()
    pieces: list[bytes] = []
    left = MAX_INPUT_BYTES
    while piece := stream.read(_PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            raise _too_large(path)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(path: str) -> UsageError:
    limit = f"larger than {MAX_INPUT_BYTES} bytes"
    return UsageError(f"unable to read input file '{path}': {limit}")


def write_output(path: str, data: bytes) -> None:
    """Writes a file whole or not at all (- is stdout).

    A regular file is written beside its place and renamed, and keeps its mode and owner; where that
    is not possible it is written in place. A file without write permission is left alone, also by
    the superuser. Raises TargetError, which is exit code 2 as clients know it for an output that
    cannot be written, and BrokenPipeError where nobody reads stdout.
    """
    try:
        if path == "-":
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        _write_file(path, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TargetError(f"unable to write output file '{path}': {error.strerror}") from error


def describe_system_error(error: OSError) -> str:
    """Place and reason of an error of the operating system that nobody foresaw."""
    reason = error.strerror or str(error)
    if error.filename:
        return f"'{error.filename}': {reason}"
    if error.errno in _OF_A_WRITE:  # printing more than the stream's buffer holds
        return f"unable to write to standard output: {reason}"
    return reason


def flush_output() -> None:
    """Writes what was printed. Raises TargetError, and BrokenPipeError where nobody reads it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TargetError(f"unable to write to standard output: {error.strerror}") from error


def _write_file(path: str, data: bytes) -> None:
    """Writes a file by the rules of `write_output`; raises OSError."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    if status is not None:
        if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            _write_in_place(path, data)  # a device, or a file with other names to be kept
            return
    try:
        write_beside(os.path.realpath(path), data, like=status)
    except OSError as error:
        if error.errno not in _IN_PLACE:
            raise
        _write_in_place(path, data)


def _write_in_place(path: str, data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)


class _PatientText(io.TextIOWrapper):
    """A stream for messages: where they cannot be written the work goes on without them."""

    def write(self, text: str, /) -> int:
        """Writes, or forgets, the text."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes, or forgets, what was written."""
        with suppress(OSError):
            super().flush()


def prepare_standard_streams() -> None:
    """Makes the three standard descriptors usable; for processes that are ours alone.

    One that is closed would be given to the next file that is opened, and messages would go there.
    In its place comes a descriptor that fails when it is read or written, as a closed one does;
    messages on stderr are lost without harm, also where stderr is a full device.
    """
    closed = [stream is None for stream in (sys.stdin, sys.stdout, sys.stderr)]
    if any(closed):
        for number, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
            if closed[number]:
                descriptor = os.open(os.devnull, flags)
                if descriptor != number:
                    os.dup2(descriptor, number)
                    os.close(descriptor)
        sys.stdin = sys.stdin or open(0)  # noqa: SIM115 (open as long as the process)
        sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = _PatientText(
        open(2, "wb", closefd=False),  # noqa: SIM115
        encoding=getattr(sys.stderr, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
