"""Processes of ptxas, and one that is started before its input is there.

Most of a small run of ptxas is its own start: of 17 ms for a vector add it opens its input after 7
(13.5, -O3; measured). So a command starts ptxas when it begins, beside the passes. What ptxas would
open does not exist yet: a write lease on the file (fcntl(2), F_SETLEASE) holds up whoever opens it
until the lease is given back, which is done when the PTX stands in it.

Where there are no leases (another system, some file systems) nothing is started early, and where
the early run ends badly, for whatever reason, the ordinary one is made and judged.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tileiras.codegen.cuda_toolkit import candidates
from tileiras.codegen.target import GpuTarget
from tileiras.errors import TargetError
from tileiras.options import CompileOptions
from tileiras.termination import (
    is_watched,
    kill_process,
    make_folder,
    remove_folder,
    start_process,
    temporary_path,
    wait_for_process,
)

_IN_PACKAGES = ("cu13/bin/ptxas",)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_SECONDS_OF_LEASE = 20.0
"""Policy: an early run that has waited for longer is not used. Linux takes a lease away when
somebody has waited for it for 45 seconds (/proc/sys/fs/lease-break-time), and ptxas would read an
empty file."""

_IDLE = "/bin/true"
"""A program that ends at once."""

_MEMORY = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"
"""Policy: ptxas takes its memory in large pieces of large pages (tunables of glibc 2.35).

With small ones a vector add has 3800 page faults and takes 18 ms, with these 1050 and 14; a product
37 and 30 (measured). The output is the same, and 5 MB more memory are used."""


def find_ptxas(knobs: Mapping[str, str]) -> str:
    """ptxas in the pip package, then CUDA_HOME or CUDA_PATH, then PATH. Raises TargetError."""
    for path in candidates(knobs, _IN_PACKAGES, "bin/ptxas", on_path="ptxas"):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise TargetError(
        "cannot find ptxas: install the Python package nvidia-cuda-nvcc, "
        "or set CUDA_HOME to a CUDA toolkit 13.0 or newer"
    )


def arguments_of(target: GpuTarget, options: CompileOptions) -> list[str]:
    """The options of ptxas, without its files."""
    arguments = [f"-arch={target.ptx_target}", f"-O{options.opt_level}", "-v"]
    if options.device_debug:
        arguments.append("-g")
    elif options.line_info:
        arguments.append("-lineinfo")
    return arguments


def spawn(ptxas: str, arguments: Sequence[str], knobs: Mapping[str, str], log: str) -> int:
    """Starts ptxas with its output in the file `log`; returns its number. Raises TargetError.

    `posix_spawn`, because importing `subprocess` costs as much as a small ptxas run.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    environment = {name: knobs[name] for name in ("PATH", "HOME") if knobs.get(name)}
    environment["TMPDIR"] = os.path.dirname(log)  # what it leaves when it is killed goes with ours
    environment["GLIBC_TUNABLES"] = _MEMORY
    try:
        return start_process(
            lambda: os.posix_spawn(
                ptxas,
                [ptxas, *arguments],
                environment,
                file_actions=actions,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        )
    except OSError as error:
        raise TargetError(f"cannot run {ptxas}: {error.strerror}") from error


class TemporaryFolder:
    """A private folder that is removed with its files, however the block ends."""

    def __init__(self, knobs: Mapping[str, str]):
        self.path = temporary_path("tileiras", knobs.get("TMPDIR"))
        self._is_made = False

    def files(self) -> tuple[str, str, str]:
        """Where the PTX, the cubin and what ptxas says go."""
        source, cubin, log = (os.path.join(self.path, name) for name in ("k.ptx", "k.cubin", "log"))
        return source, cubin, log

    def make(self) -> None:
        """Makes the folder now; raises TargetError."""
        if self._is_made:
            return
        try:
            make_folder(self.path)
        except OSError as error:
            raise TargetError(
                f"cannot make temporary folder {self.path}: {error.strerror}"
            ) from error
        self._is_made = True

    def __enter__(self) -> TemporaryFolder:
        self.make()
        return self

    def __exit__(self, *_: object) -> None:
        remove_folder(self.path)


class Wanted(NamedTuple):
    """A run of ptxas but for its files: the command, and what it and its files depend on."""

    command: tuple[str, ...]
    path: str | None
    home: str | None
    temporary: str | None


class Started(NamedTuple):
    """A ptxas that waits for its input."""

    wanted: Wanted
    folder: TemporaryFolder
    process: int
    source: int
    """The descriptor of the input; who opens the file waits until it is closed."""
    since: float

    def finish(self, ptx: bytes) -> int | None:
        """The exit status once it has its input; None where it could not be given."""
        try:
            if time.monotonic() - self.since > _SECONDS_OF_LEASE:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            rest = memoryview(ptx)
            while rest:
                rest = rest[os.write(self.source, rest) :]
        except OSError:
            self._kill()
            return None
        os.close(self.source)  # gives the lease back
        return wait_for_process(self.process)

    def abandon(self) -> None:
        """Ends it, and removes its folder."""
        self._kill()
        remove_folder(self.folder.path)

    def _kill(self) -> None:
        kill_process(self.process)
        os.close(self.source)


_waiting: list[Started] = []
"""At most one: what has been started ahead and nobody has taken."""


@contextmanager
def started_ahead(target: GpuTarget | None, options: CompileOptions) -> Iterator[None]:
    """Has ptxas started while the block runs, for a compilation with these options in it.

    Only in a process of a command, which compiles once: elsewhere several threads may compile, and
    signals and children are the program's own.
    """
    if target is not None and is_watched() and not _waiting:
        with suppress(OSError, TargetError, AttributeError):
            ptxas, arguments = find_ptxas(options.knobs), arguments_of(target, options)
            _waiting.append(_start(_wanted(ptxas, arguments, options.knobs)))
    try:
        yield
    finally:
        while _waiting:
            _waiting.pop().abandon()


def take(ptxas: str, arguments: Sequence[str], knobs: Mapping[str, str]) -> Started | None:
    """The ptxas that was started for this, which is the caller's now; None where there is none."""
    wanted = _wanted(ptxas, arguments, knobs)
    return _waiting.pop() if _waiting and _waiting[0].wanted == wanted else None


def rehearse_process(ptx: str) -> None:
    """Does with a program that does nothing what is done with ptxas; nothing where that fails.

    For the resident compiler: what is used here lies in memory of its own then.
    """
    with suppress(OSError, TargetError, AttributeError):
        find_ptxas({})
        started = _start(_wanted(_IDLE, (), {}))
        with started.folder:
            started.finish(ptx.encode())


def _wanted(ptxas: str, arguments: Sequence[str], knobs: Mapping[str, str]) -> Wanted:
    places = (knobs.get(name) for name in ("PATH", "HOME", "TMPDIR"))
    return Wanted((ptxas, *arguments), *places)


def _start(wanted: Wanted) -> Started:
    """Raises OSError, TargetError, or AttributeError where the system has no leases."""
    import fcntl

    places = {"PATH": wanted.path, "HOME": wanted.home, "TMPDIR": wanted.temporary}
    knobs = {name: value for name, value in places.items() if value is not None}
    folder = TemporaryFolder(knobs)
    folder.make()
    source, cubin, log = folder.files()
    opened = -1
    try:
        opened = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.fcntl(opened, fcntl.F_SETSIG, signal.SIGURG)  # it is ignored; SIGIO would end us
        fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        ptxas, *arguments = wanted.command
        process = spawn(ptxas, [*arguments, "-o", cubin, source], knobs, log)
    except BaseException:
        if opened >= 0:
            os.close(opened)
        remove_folder(folder.path)
        raise
    return Started(wanted, folder, process, opened, time.monotonic())
