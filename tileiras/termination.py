"""How the process ends before its time: told by a signal, at a time limit, in a crash of LLVM.

Python runs signal handlers between two bytecodes of the main thread: too late while that thread is
in LLVM. So another thread waits for signals (`signal.set_wakeup_fd`); it removes what must not
stay, says one line and ends the process.

What must not stay (processes, files, folders) is registered here under one lock. Who ends the
process takes the lock and never gives it back, so nothing new is made meanwhile.

Only commands call `watch`: in a program that uses the compiler as a library signals are its own.
"""

from __future__ import annotations

import os
import signal
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tileiras.early_signals import REASONS, handle_requests

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
"""The signals of a process that has made a mistake."""

FIRST_PROGRESS = 3.0
"""Seconds after which a terminal is told what is being done; then twice as many, and so on."""

_SECONDS_FOR_LAST_WORDS = 10
"""A crashed process that does not end by itself within this time is ended by SIGALRM."""


_STARTING = "starting"


class _Registered:
    """What must not outlive the process, and what it is doing."""

    guard = allocate_lock()
    processes: dict[int, None] = {}
    files: dict[str, None] = {}
    folders: dict[str, None] = {}
    part = _STARTING
    place: object = None
    wakeup = -1
    """The descriptor that wakes the watching thread; -1 where nobody watches."""
    time_limit = 0.0
    on_crash: Callable[[int], None] | None = None
    native: dict[str, Any] = {}
    """What `crashes_are_reported` gives the C library, once it is needed."""


def begin(part: str, place: object = None) -> None:
    """Notes what the process is doing now, and for which place of the user's source.

    It is told if the process is stopped or crashes in it.
    """
    _Registered.part = part
    _Registered.place = place


def current_part() -> str:
    """What the process is doing, such as the name of a pass."""
    return _Registered.part


def current_place() -> object:
    """The place in the user's source that `begin` was given."""
    return _Registered.place


def watch() -> None:
    """From now on a thread ends the process when a signal asks for it. Main thread only.

    Where standard error is a terminal the thread also says what takes long.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _Registered.wakeup = writing
    start_new_thread(_watch, (reading, os.isatty(2)))
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handle_requests(_wait_for_the_thread)


def limit_time(seconds: float) -> None:
    """Ends the process with an error after so many seconds; nothing where nobody watches."""
    if _Registered.wakeup < 0:
        return
    _Registered.time_limit = seconds
    signal.signal(signal.SIGALRM, _wait_for_the_thread)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def on_crash(report: Callable[[int], None]) -> None:
    """What to say when native code crashes: `report` is called with the signal's number."""
    _Registered.on_crash = report


@contextmanager
def crashes_are_reported() -> Iterator[None]:
    """Around calls of native code that releases Python's lock: its crashes reach `on_crash`.

    An illegal access is repeated when Python's handler for it returns, again and again, until the
    watching thread ends the process. `abort` would not wait: its handler waits in its place. Both
    run on a stack of their own, since the ordinary one may be what overflowed.
    """
    if _Registered.wakeup < 0 or _Registered.on_crash is None:
        yield
        return
    prepare_for_crashes()
    native = _Registered.native
    libc = native["libc"]
    libc.sigaltstack(native["stack"], None)
    before = {number: signal.signal(number, _wait_for_the_thread) for number in CRASHES[:-1]}
    abort_before = libc.signal(signal.SIGABRT, native["wait"])
    try:
        yield
    finally:
        libc.signal(signal.SIGABRT, abort_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        libc.sigaltstack(native["no stack"], None)


def prepare_for_crashes() -> None:
    """Makes what `crashes_are_reported` needs of the C library, which takes a while, once."""
    if _Registered.native:
        return
    import ctypes

    class Stack(ctypes.Structure):
        """`stack_t` of Linux."""

        _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    memory = ctypes.create_string_buffer(1 << 18)
    forever = allocate_lock()
    forever.acquire()

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def wait(number: int) -> None:
        os.write(_Registered.wakeup, bytes((number,)))
        forever.acquire()

    _Registered.native = {
        "libc": libc,
        "memory": memory,
        "stack": ctypes.byref(Stack(ctypes.addressof(memory), 0, len(memory))),
        "no stack": ctypes.byref(Stack(None, 2, 0)),  # SS_DISABLE
        "handler": wait,
        "wait": ctypes.cast(wait, ctypes.c_void_p),
    }


def forget_everything() -> None:
    """In a child that was forked: what is registered is the parent's to remove."""
    _Registered.guard = allocate_lock()
    _Registered.processes, _Registered.files, _Registered.folders = {}, {}, {}
    _Registered.wakeup = -1


def start_process(start: Callable[[], int]) -> int:
    """Starts a process that is killed if we end before it; `start` returns its number."""
    with _Registered.guard:
        process = start()
        _Registered.processes[process] = None
    return process


def wait_for_process(process: int) -> int:
    """The exit status of a process that `start_process` started; -n if signal n killed it.

    Kills it if waiting is interrupted.
    """
    try:
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    except BaseException:
        with _Registered.guard:
            os.kill(process, signal.SIGKILL)
        raise
    finally:
        with _Registered.guard:
            del _Registered.processes[process]
            _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def kill_process(process: int) -> None:
    """Ends a process that `start_process` started."""
    with _Registered.guard:
        os.kill(process, signal.SIGKILL)
        del _Registered.processes[process]
        os.waitpid(process, 0)


def make_folder(path: str) -> None:
    """Makes a private folder that `remove_folder`, or the end of the process, removes."""
    with _Registered.guard:
        os.mkdir(path, mode=0o700)
        _Registered.folders[path] = None


def remove_folder(path: str) -> None:
    """Removes a folder that `make_folder` made, with everything in it."""
    _remove_tree(path)
    with _Registered.guard:
        del _Registered.folders[path]


def temporary_path(name: str, place: str | None) -> str:
    """Where a folder of this process goes: below `place`, else /tmp, by a name of its own."""
    unique = f"{name}-{os.getpid()}-{os.urandom(6).hex()}"
    return os.path.join(place or "/tmp", unique)


@contextmanager
def temporary_folder(name: str, place: str | None) -> Iterator[str]:
    """A private folder at a `temporary_path`; it goes with its files, however the block ends."""
    path = temporary_path(name, place)
    make_folder(path)
    try:
        yield path
    finally:
        remove_folder(path)


def make_file(path: str, mode: int) -> int:
    """Makes a file that must not exist; returns a descriptor for writing.

    It goes when the process ends, unless `rename_file` was called before.
    """
    with _Registered.guard:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        _Registered.files[path] = None
    return descriptor


def rename_file(path: str, place: str) -> None:
    """Moves a file that `make_file` made to where it stays."""
    with _Registered.guard:
        os.replace(path, place)
        del _Registered.files[path]


def remove_file(path: str) -> None:
    """Removes a file that `make_file` made."""
    with _Registered.guard:
        with suppress(FileNotFoundError):
            os.unlink(path)
        _Registered.files.pop(path, None)


def end(number: int) -> None:
    """Ends the process as the signal of this number does, if it is the first to end it."""
    _Registered.guard.acquire()
    _remove_all()
    if number == signal.SIGALRM:
        _say(
            f"error: not compiled within {_Registered.time_limit:g} seconds, "
            f"stopped at '{_Registered.part}'\nerror: failed to compile Tile IR program\n"
        )
        os._exit(5)
    if number in CRASHES and _Registered.on_crash is not None:
        _arm_alarm()
        try:
            _Registered.on_crash(number)
        finally:
            os._exit(5)
    _say(f"error: {REASONS.get(number, 'stopped')}\n")
    os._exit(128 + number)


def is_watched() -> bool:
    """Whether a thread of this process ends it when a signal asks for it."""
    return _Registered.wakeup >= 0


def _wait_for_the_thread(number: int, frame: object) -> None:
    """The main thread goes on until the watching thread, which is told too, ends the process."""


def _watch(reading: int, tells_progress: bool) -> None:
    """Waits for one signal and ends the process."""
    watched = (*REASONS, signal.SIGALRM, *CRASHES)
    if tells_progress:
        _tell_progress_until_woken(reading)
    while True:
        number = os.read(reading, 1)
        if number and number[0] in watched:
            end(number[0])


def _tell_progress_until_woken(reading: int) -> None:
    """Says from time to time what is being done: lines, since other messages may stand between."""
    import select
    import time

    start, pause = time.monotonic(), FIRST_PROGRESS
    while not select.select([reading], [], [], max(0.0, start + pause - time.monotonic()))[0]:
        if _Registered.part != _STARTING:
            _say(f"tileiras: {pause:g} s, at '{_Registered.part}'\n")
        pause *= 2


def _arm_alarm() -> None:
    """Lets SIGALRM end a process whose last words hang, as a crashed one may."""
    import ctypes

    ctypes.CDLL(None).alarm(_SECONDS_FOR_LAST_WORDS)


def _remove_all() -> None:
    """Kills and removes everything that is registered."""
    for process in _Registered.processes:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    for path in _Registered.files:
        with suppress(OSError):
            os.unlink(path)
    for path in _Registered.folders:
        _remove_tree(path)


def _remove_tree(path: str) -> None:
    """Removes a folder with what is in it; what cannot be removed stays."""
    with suppress(OSError):
        for entry in sorted(os.listdir(path)):
            inner = os.path.join(path, entry)
            if os.path.isdir(inner) and not os.path.islink(inner):
                _remove_tree(inner)
                continue
            with suppress(OSError):
                os.unlink(inner)
        os.rmdir(path)


def _say(text: str) -> None:
    """Writes to standard error without buffers."""
    with suppress(OSError):
        os.write(2, text.encode())
