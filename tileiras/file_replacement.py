"""Writing a file that others see whole or not at all."""

from __future__ import annotations

import os
import stat

from tileiras.termination import make_file, remove_file, rename_file


def write_beside(
    path: str, data: bytes, mode: int = 0o666, like: os.stat_result | None = None
) -> None:
    """Writes a file beside `path` and renames it, so that `path` is seen whole or not at all.

    `mode` is subject to the umask; with `like` the file has the mode and owner that it tells.
    Raises OSError and leaves nothing behind; nor does the end of the process.
    """
    name = f".tileiras-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    temporary = os.path.join(os.path.dirname(path), name)
    descriptor = make_file(temporary, mode if like is None else 0o600)
    try:
        with open(descriptor, "wb") as stream:
            if like is not None:
                if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            stream.write(data)
        rename_file(temporary, path)
    except BaseException:
        remove_file(temporary)
        raise
