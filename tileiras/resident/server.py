"""The resident compiler: loads everything once, then forks for every request.

The parent only accepts connections, forks, and tells how children ended: it reads nothing that a
client sends, so that no client can hold it up. What a child does, or what is done to it, ends with
the child.
"""

from __future__ import annotations

import fcntl
import gc
import io
import marshal
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tileiras.early_signals import REASONS
from tileiras.errors import TileirasError
from tileiras.fast_start import save_once
from tileiras.resident.protocol import (
    ENDED,
    IDLE_VARIABLE,
    MAX_REQUEST_BYTES,
    NO,
    SECONDS_FOR_A_REQUEST,
    STARTED,
    answer,
    runtime_folder,
    socket_path,
)
from tileiras.resident.samples import MATMUL, TRACED_ADD
from tileiras.resident.source_watch import SourceWatch, watch_sources
from tileiras.termination import forget_everything

if TYPE_CHECKING:
    from tileiras.codegen.ptxas_backend import PtxasResult
    from tileiras.options import CompileOptions

_SECONDS_IDLE = 600.0
_MOST_CHILDREN = 4 * (os.cpu_count() or 1)
"""Policy: so many compilations at a time; what comes then is told to compile by itself."""

_SECONDS_OF_QUIET = 0.02
"""Policy: after so long without a request or a child at work the next child is forked."""

_SECONDS_BESIDE_WORK = 0.5
"""Policy: so long the next child waits for others to end: its rehearsal would slow them down."""

_REHEARSALS = 16
"""Policy: so often the sample is compiled before anybody asks. Python has its code ready for speed
after eight calls and then some more; 16 take 0.3 s and give a compilation 3 ms (measured)."""

_BACKLOG = 64
"""Policy: connections that wait to be accepted; what comes then is refused."""

_LIMITS = tuple(
    sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
)


class Request(NamedTuple):
    """What a process is started with."""

    program: str
    argv: list[str]
    environ: dict[str, str]
    umask: int
    ignored: list[int]
    streams: list[tuple[str, str, bool]]


class Spare(NamedTuple):
    """A child that waits for a connection, and where to send it."""

    process: int
    pipe: socket.socket


class Given(NamedTuple):
    """What a child works for: a connection, its client, and who lets it go on when it has read the
    request; None: it may."""

    connection: socket.socket
    client: int
    go_on: socket.socket | None


class Server:
    """A listening socket, the children at work, and the sources that were loaded."""

    def __init__(
        self,
        listener: socket.socket,
        compile_and_exit: Callable[[list[str], Callable[[int], None]], NoReturn],
        rehearse: Callable[[MutableMapping[str, str]], None],
    ):
        self._listener = listener
        self._compile_and_exit = compile_and_exit
        self._rehearse = rehearse
        self._children: dict[int, socket.socket] = {}
        self._spare: Spare | None = None
        self._sources: list[tuple[str, int, int]] = []
        self._watch: SourceWatch | None = None
        self.look_after(_loaded_sources())

    def run(self, idle: float, environ: MutableMapping[str, str]) -> None:
        """Serves until nobody has asked for `idle` seconds, or a source has changed."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(reading, select.POLLIN)
        last = time.monotonic()
        while self._children or time.monotonic() - last < idle:
            quiet = _SECONDS_BESIDE_WORK if self._children else _SECONDS_OF_QUIET
            seconds = min(idle, 1.0 if self._spare else quiet)
            ready = [number for number, _ in poll.poll(seconds * 1000)]
            if reading in ready:
                with suppress(BlockingIOError):
                    os.read(reading, 4096)
            self._tell_ends()
            if self._listener.fileno() in ready:
                last = time.monotonic()
                if not self._accept(environ):
                    return
            elif not ready and not self._spare:
                if self._watch is not None and self._has_changed():
                    return  # a change of which nobody is told, and a child would be for nothing
                self._make_spare(environ)

    def _accept(self, environ: MutableMapping[str, str]) -> bool:
        """Gives one connection of this user to a child; False: a source has changed.

        A child that waits has the connection first, and is told to go on when the sources have
        been looked at: it reads the request meanwhile.
        """
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return True
        client, user = _peer_of(connection)
        if user != os.geteuid():
            connection.close()
            return True
        if len(self._children) >= _MOST_CHILDREN:
            _tell(connection, answer(NO))
            connection.close()
            return True
        spare = self._use_spare(connection, client)
        if self._is_stale():
            if spare is not None:
                spare.pipe.close()  # it ends
            connection.close()
            return False
        if spare is not None and _let_go(spare):
            child = spare.process
        else:
            try:
                child = os.fork()
            except OSError:
                _tell(connection, answer(NO))
                connection.close()
                return True
            if not child:
                self._be_child(lambda: Given(connection, client, None), environ)
        self._children[child] = connection
        _tell(connection, answer(STARTED, child))
        return True

    def look_after(self, sources: list[tuple[str, int, int]]) -> None:
        """From now on these are the sources, with time and size."""
        self._sources = sources
        self._watch_again()

    def _watch_again(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = watch_sources([source for source, _, _ in self._sources])

    def _is_stale(self) -> bool:
        """Whether a source is not what it was; asks for each only where something has happened."""
        if self._watch is not None:
            if self._watch.is_quiet():
                return False
            self._watch_again()  # another file may have the name
        return self._has_changed()

    def _has_changed(self) -> bool:
        """Whether time or size of a source is another."""
        try:
            return any(
                (status := os.stat(source)).st_mtime_ns != modified or status.st_size != size
                for source, modified, size in self._sources
            )
        except OSError:
            return True

    def _use_spare(self, connection: socket.socket, client: int) -> Spare | None:
        """Gives a connection to the child that waits for one; None where there is none."""
        if self._spare is None:
            return None
        spare, self._spare = self._spare, None
        try:
            socket.send_fds(spare.pipe, [client.to_bytes(4, "little")], [connection.fileno()])
        except OSError:
            spare.pipe.close()
            return None
        return spare

    def _make_spare(self, environ: MutableMapping[str, str]) -> None:
        """Forks a child before it is needed, in a moment of quiet.

        It rehearses, so that the memory that a compilation changes is its own already: half of the
        time of a small compilation in a fresh fork is spent copying pages.
        """
        ours, theirs = socket.socketpair()
        try:
            child = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return
        if child:
            theirs.close()
            self._spare = Spare(child, ours)
            return

        def wait() -> Given:
            ours.close()
            self._rehearse(environ)
            _rehearse_request(environ)
            gc.collect()  # what comes next takes the memory that is this process's own already
            head, descriptors, _, _ = socket.recv_fds(theirs, 4, 1)
            if not descriptors:
                os._exit(0)  # the server has ended
            connection = socket.socket(fileno=descriptors[0])
            return Given(connection, int.from_bytes(head, "little"), theirs)

        self._be_child(wait, environ)

    def _be_child(
        self,
        wait: Callable[[], Given],
        environ: MutableMapping[str, str],
    ) -> NoReturn:
        """Waits for a connection and its client, compiles as the client would, and ends."""

        def finish(code: int) -> None:
            stop_watching()
            _tell(connection, answer(ENDED, code))

        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            forget_everything()
            self._listener.close()
            for other in self._children.values():
                other.close()
            connection, client, go_on = wait()
            connection.settimeout(SECONDS_FOR_A_REQUEST)
            request, descriptors = _receive(connection)
            become(request, descriptors, client, environ)
            stop_watching = _watch_client(connection)
            if go_on is not None and not go_on.recv(1):
                os._exit(0)  # a source has changed, and the client knows
        except BaseException:
            os.kill(os.getpid(), signal.SIGKILL)  # the client compiles by itself
            raise
        self._compile_and_exit(request.argv, finish)

    def _tell_ends(self) -> None:
        """Tells clients how their children ended: nothing for those that were killed."""
        while self._children:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not child:
                return
            if self._spare is not None and self._spare.process == child:
                self._spare.pipe.close()
                self._spare = None
            connection = self._children.pop(child, None)
            if connection is None:
                continue
            if os.WIFEXITED(status):
                _tell(connection, answer(ENDED, os.WEXITSTATUS(status)))
            connection.close()


def become(
    request: Request,
    descriptors: list[int],
    client: int,
    environ: MutableMapping[str, str],
) -> None:
    """Gives this process what the client has: streams, folder, environment, limits, signals.

    Raises OSError or ValueError for what cannot be had.
    """
    *streams, folder = descriptors
    os.fchdir(folder)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    environ.clear()
    environ.update(request.environ)
    sys.argv = [request.program, *request.argv]
    os.umask(request.umask)
    for limit in _LIMITS:
        wanted = resource.prlimit(client, limit)
        if wanted != resource.getrlimit(limit):
            resource.setrlimit(limit, wanted)
    niceness = os.getpriority(os.PRIO_PROCESS, client)
    if niceness != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    for number in REASONS:
        ignored = number in request.ignored
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    open_streams(request.streams)


def open_streams(streams: Sequence[tuple[str, str, bool]]) -> None:
    """Opens the standard streams anew: each with its encoding, what is done with errors, and
    whether lines are written at once."""
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115 (open as long as the process)
            encoding=encoding,
            errors=errors,
            line_buffering=by_line,
        )
        for number, mode, (encoding, errors, by_line) in zip(
            (0, 1, 2), ("rb", "wb", "wb"), streams, strict=True
        )
    )


def serve(
    environ: MutableMapping[str, str],
    compile_and_exit: Callable[[list[str], Callable[[int], None]], NoReturn],
    warm_up: Callable[[MutableMapping[str, str]], None],
    rehearse: Callable[[MutableMapping[str, str]], None],
) -> None:
    """Is the resident compiler of this user and installation, unless there is one.

    `compile_and_exit` does what the command does, and calls what it is given with the exit code
    when only the end of the process is left; `warm_up` loads what it needs, and `rehearse`
    compiles something small.
    """
    folder = runtime_folder(environ)
    if folder is None:
        return
    path = socket_path(folder)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    os.chdir("/")
    for number in REASONS:
        signal.signal(number, signal.SIG_DFL)
    gc.disable()
    warm_up(environ)
    save_once()
    gc.freeze()
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.new")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    listener.bind(f"{path}.new")
    os.umask(umask)
    listener.listen(_BACKLOG)
    os.rename(f"{path}.new", path)  # who finds it is served
    listener.setblocking(False)
    try:
        idle = float(environ.get(IDLE_VARIABLE, _SECONDS_IDLE))
    except ValueError:
        idle = _SECONDS_IDLE
    try:
        Server(listener, compile_and_exit, rehearse).run(idle, environ)
    finally:
        with suppress(OSError):
            os.unlink(path)


def warm_up(environ: MutableMapping[str, str]) -> None:
    """Loads LLVM and all passes of tile kernels, and compiles two programs, one of them often.

    What is made on first use is there then. No thread is left, which a fork would not have.
    """
    from tileiras.codegen.llvm_backend import load_llvm
    from tileiras.resident.everything import load_passes, make_definitions
    from tileiras.termination import prepare_for_crashes

    load_llvm()
    load_passes()
    make_definitions()
    prepare_for_crashes()
    rehearse(environ, MATMUL)
    _make_cubin()
    for _ in range(_REHEARSALS):
        rehearse(environ)


class _Sample:
    """What ptxas makes of the sample, and of what, once: later rehearsals start no ptxas."""

    made: PtxasResult | None = None
    ptx = ""


def rehearse(environ: MutableMapping[str, str], program: bytes = TRACED_ADD) -> None:
    """Does what a command does, but for ptxas, with a program, and forgets it."""
    from tileiras.cli import run

    before = dict(environ)
    for name in before:
        if name.startswith("TILEIR"):  # what a user wants is not wanted here
            del environ[name]
    with suppress(OSError, TileirasError):
        file = os.memfd_create("sample")
        os.write(file, program)
        target = f"--gpu-name={sample_target()}"
        place = f"/proc/self/fd/{file}"
        run([place, target, "--emit=ptx", "--lineinfo", "-O3", "-o", os.devnull])
        os.close(file)
        if _Sample.made is not None and program is TRACED_ADD:
            _read_sample(_Sample.made, _Sample.ptx)
    environ.update(before)


def _make_cubin() -> None:
    """Runs ptxas for the sample, where there is one."""
    from tileiras.codegen.ptxas_backend import ptx_to_cubin
    from tileiras.driver import compile_module, find_target

    options = _sample_options()
    target = find_target(options)
    with suppress(TileirasError, OSError):
        _Sample.ptx = compile_module(TRACED_ADD, options).output.decode()
        if target is not None:
            _Sample.made = ptx_to_cubin(_Sample.ptx, target, options)


def _read_sample(made: PtxasResult, ptx: str) -> None:
    """What is done with a process, with a cubin and with what ptxas says."""
    from tileiras.codegen.check_cubin import check_cubin
    from tileiras.codegen.cubin import Language, with_language
    from tileiras.codegen.ptxas_log import advisories, kernel_resources
    from tileiras.codegen.ptxas_process import rehearse_process
    from tileiras.driver import find_target

    target = find_target(_sample_options())
    rehearse_process(ptx)
    if target is not None:
        check_cubin(made.cubin, target, ptx)
    names = [kernel.name for kernel in kernel_resources(made.log)]
    advisories(made.log)
    with_language(made.cubin, names, Language.TILEIR)


def _sample_options() -> CompileOptions:
    from tileiras.options import CompileOptions

    return CompileOptions(gpu_name=sample_target(), emit="ptx", line_info=True)


def sample_target() -> str:
    """A target for which samples are compiled: one whose products use most of the compiler."""
    from tileiras.codegen.target import TARGET_NAMES, Feature, get_target

    return next(name for name in TARGET_NAMES if get_target(name).has(Feature.WGMMA))


def _receive(connection: socket.socket) -> tuple[Request, list[int]]:
    """A client's request and its descriptors; raises for anything else."""
    head, descriptors, _, _ = socket.recv_fds(connection, 4, 4)
    size = int.from_bytes(head, "little")
    if len(head) != 4 or size > MAX_REQUEST_BYTES or len(descriptors) != 4:
        raise ValueError("found a head that no client sends, expected a size and four descriptors")
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("found the end of the connection, expected the rest of a request")
        data += more
    program, argv, environ, *others = marshal.loads(data)
    texts = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
    arguments = [os.fsdecode(argument) for argument in argv]
    return Request(os.fsdecode(program), arguments, texts, *others), descriptors


def _rehearse_request(environ: MutableMapping[str, str]) -> None:
    """Reads a request of our own, which changes nothing."""
    ours, theirs = socket.socketpair()
    umask = os.umask(0o077)
    os.umask(umask)
    ordinary = ("utf-8", "strict", False)
    texts = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    words = (os.fsencode(sys.argv[0]), [], texts, umask, [], [ordinary] * 3)
    data = marshal.dumps(words)
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        socket.send_fds(theirs, [len(data).to_bytes(4, "little")], [0, 1, 2, folder])
        theirs.sendall(data)
        request, descriptors = _receive(ours)
        become(request, descriptors, os.getpid(), environ)
    finally:
        os.close(folder)
        ours.close()
        theirs.close()


def _watch_client(connection: socket.socket) -> Callable[[], None]:
    """Ends this process when its client has: nobody waits for the result any more.

    Returns what to call when the client may go.
    """
    from _thread import start_new_thread

    from tileiras.termination import end

    connection.settimeout(None)
    may_go: list[bool] = []

    def wait() -> None:
        with suppress(OSError):
            connection.recv(1)
        if not may_go:
            end(signal.SIGTERM)

    start_new_thread(wait, ())
    return lambda: may_go.append(True)


def _peer_of(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end."""
    form = "iii"
    size = struct.calcsize(form)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack(form, credentials)
    return process, user


def _tell(connection: socket.socket, said: bytes) -> None:
    """Sends an answer; a client that is gone does not matter."""
    with suppress(OSError):
        connection.send(said, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _let_go(spare: Spare) -> bool:
    """Tells a child that has a connection to go on; whether it is still there."""
    try:
        spare.pipe.send(b"g", socket.MSG_NOSIGNAL)
    except OSError:
        return False
    finally:
        spare.pipe.close()
    return True


def _loaded_sources() -> list[tuple[str, int, int]]:
    """The sources of all modules that were loaded from files, with time and size."""
    found: list[tuple[str, int, int]] = []
    for name, module in sorted(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if not source or name == "__main__":
            continue
        try:
            status = os.stat(source)
        except OSError:
            continue
        found.append((source, status.st_mtime_ns, status.st_size))
    return found
