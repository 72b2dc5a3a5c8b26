"""Whether files are what they were, without asking for each: the kernel tells what changes.

The resident compiler must not serve from sources that have changed. To ask for the state of 600
files takes 2 ms of every request. With inotify(7) the kernel keeps a list of what happens to them,
and one look tells that it is empty.

Watched are the files themselves, whichever name they are changed by, and each folder and link on
the way to them, which may be moved or replaced; the list of mounts, too, for what is mounted over
them. A change through a mapping (`mmap`) is told when the mapping ends, since the file is open for
writing until then. Not told are those that another machine makes: so file systems of a network are
not watched, and who uses this asks for the state in quiet moments, for mappings that stay, too.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence

_MODIFY, _ATTRIBUTES, _WRITER_CLOSED, _DELETED, _MOVED = 0x2, 0x4, 0x8, 0x400, 0x800
"""Fixed: events of inotify(7)."""

_NO_LINKS = 0x0200_0000
"""Fixed: IN_DONT_FOLLOW, a link is watched itself."""

_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs")
"""Policy: file systems whose changes all go through this kernel, by their names in mountinfo."""

_MOUNTS = "/proc/self/mountinfo"


class SourceWatch:
    """What has happened to files since this was made. Raises OSError where that cannot be known."""

    def __init__(self, files: Sequence[str]):
        self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        self._events = -1
        try:
            places = list(_places(files))
            _check_file_systems(places)
            self._events = _watch(places)
        except BaseException:
            self.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._mounts, select.POLLPRI)

    def is_quiet(self) -> bool:
        """Whether nothing has happened. Once something has, it stays so: make another."""
        return not self._poll.poll(0)

    def close(self) -> None:
        """Gives the descriptors back."""
        for descriptor in (self._mounts, self._events):
            if descriptor >= 0:
                os.close(descriptor)


def watch_sources(files: Sequence[str]) -> SourceWatch | None:
    """A watch over the files; None where they cannot be watched."""
    try:
        return SourceWatch(files)
    except (OSError, AttributeError, ValueError):  # another system; its limits; a list of another
        return None  # form


def _places(files: Sequence[str]) -> Iterator[str]:
    """The files, and everything on the way to them: a link counts, and what it leads to."""
    seen: dict[str, None] = {}
    waiting = [os.path.join(os.getcwd(), name) for name in files]
    while waiting:
        path = waiting.pop()
        while path not in seen:
            seen[path] = None
            yield path
            if os.path.islink(path):
                waiting.append(os.path.join(os.path.dirname(path), os.readlink(path)))
            path = os.path.dirname(path)


def _check_file_systems(places: Sequence[str]) -> None:
    """Raises OSError where one of the places lies in a file system that others may change."""
    local: dict[int, bool] = {}
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            major, _, minor = before.split()[2].partition(":")
            local[os.makedev(int(major), int(minor))] = after.split()[0] in _LOCAL
    for path in places:
        if not os.path.isdir(path) and not local.get(os.lstat(path).st_dev, False):
            raise OSError(f"{path} is in a file system that is not watched")


def _watch(places: Sequence[str]) -> int:
    """A descriptor that can be read once something has happened to one of the places."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    add = libc.inotify_add_watch
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    for path in places:
        events = _DELETED | _MOVED
        if os.path.islink(path) or not os.path.isdir(path):
            # Of a folder these would tell of all that is in it.
            events |= _MODIFY | _ATTRIBUTES | _WRITER_CLOSED
        if add(descriptor, os.fsencode(path), ctypes.c_uint32(events | _NO_LINKS)) < 0:
            number = ctypes.get_errno()
            os.close(descriptor)
            raise OSError(number, os.strerror(number), path)
    return descriptor
