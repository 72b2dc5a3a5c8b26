"""Reading the input and writing outputs whole or not at all."""

from __future__ import annotations

import os
import sys

from tileiras.errors import TargetError, UsageError


def read_input(path: str) -> bytes:
    """The bytes of the input file (- is stdin); raises UsageError."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise UsageError(f"unable to read input file '{path}': {error.strerror}") from error


def write_output(path: str, data: bytes) -> None:
    """Writes a file whole or not at all (- is stdout).

    A regular file is written beside its place and renamed. Raises TargetError, which is exit code 2
    as clients know it for an output that cannot be written.
    """
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    place = os.path.realpath(path)
    temporary = f"{place}.{os.getpid()}.tmp"
    try:
        if os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place):
            with open(place, "wb") as stream:
                stream.write(data)
            return
        try:
            with open(temporary, "xb") as stream:
                stream.write(data)
            os.replace(temporary, place)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise TargetError(f"unable to write output file '{path}': {error.strerror}") from error
