"""A process of its own for work that may hang or crash: messages in, messages out, a time limit.

Messages are JSON objects, one a line. What a child prints besides goes to its log.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tileiras.runtime.cuda_driver import GpuError
from tileiras.termination import start_process, wait_for_process

HANG, CRASH, ERROR = "hang", "crash", "error"
"""How a child fails: it did not answer in time, it ended, it said that something is wrong."""

_PIECE_BYTES = 1 << 16
_LONGEST_NOTE = 300
"""Policy: letters of what a process that ended said last."""


class ChildFailed(GpuError):
    """The work of a child failed; `kind` is HANG, CRASH or ERROR."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class ChildProcess:
    """A process that works for us and is killed when it takes too long; `with` ends it.

    `log` is the file that gets its standard error. Times are in seconds.
    """

    def __init__(self, command: Sequence[str], log: str):
        self._log = log
        self._deadline: float | None = None
        self._limit = 0.0
        self._pending = b""
        self._status: int | None = None
        self._popen: subprocess.Popen[bytes]

        def start() -> int:
            with open(log, "wb") as stream:
                self._popen = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stream,
                    start_new_session=True,
                )
            return self._popen.pid

        self._number = start_process(start)

    def limit(self, seconds: float) -> None:
        """From now on the child has so many seconds for all that it is asked."""
        self._limit = seconds
        self._deadline = time.monotonic() + seconds

    def send(self, **message: Any) -> None:
        """Tells the child something; a child that has ended is found out when it is asked."""
        stream = self._popen.stdin
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.write(json.dumps(message).encode() + b"\n")
                stream.flush()

    def ask(self) -> dict[str, Any]:
        """The child's next message; raises ChildFailed where it fails, ends or takes too long."""
        line = self._line()
        if line is None:
            raise ChildFailed(CRASH, self._how_it_ended())
        try:
            message = json.loads(line)
        except ValueError:
            raise ChildFailed(ERROR, f"it said what is no message: {line[:80]!r}") from None
        if "error" in message:
            raise ChildFailed(ERROR, str(message["error"]))
        return message

    def end(self) -> None:
        """Ends the child, however busy it is; a second time does nothing."""
        if self._status is None:
            self.kill()
            self._collect()

    def kill(self) -> None:
        """Ends the child while another thread waits for its answer, which fails then."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._number, signal.SIGKILL)

    def __enter__(self) -> ChildProcess:
        """The process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.end()

    def _line(self) -> bytes | None:
        """The next line, None where the child says no more."""
        assert self._popen.stdout is not None
        descriptor = self._popen.stdout.fileno()
        while b"\n" not in self._pending:
            self._wait_for(descriptor)
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                return None
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _wait_for(self, descriptor: int) -> None:
        """Returns when there is something to read; raises ChildFailed at the time limit."""
        left = None
        if self._deadline is not None:
            left = max(0.0, self._deadline - time.monotonic())
        if not select.select([descriptor], [], [], left)[0]:
            self.end()
            raise ChildFailed(HANG, f"it did not end within {self._limit:g} seconds")

    def _how_it_ended(self) -> str:
        """What to say of a child that closed its output without an answer.

        Raises ChildFailed where it does not end in time.
        """
        watched = os.pidfd_open(self._number)
        try:
            self._wait_for(watched)
        finally:
            os.close(watched)
        return how_it_ended(self._collect(), self._log)

    def _collect(self) -> int:
        """The exit status of a child that has ended or is about to."""
        if self._status is None:
            self._status = wait_for_process(self._number)
            self._popen.returncode = self._status
            for stream in (self._popen.stdin, self._popen.stdout):
                with suppress(OSError):
                    assert stream is not None
                    stream.close()
        return self._status


def how_it_ended(status: int, log: str) -> str:
    """What to say of a process that ended so (negative: by a signal), and what it said last."""
    how = f"ended with exit code {status}"
    if status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
    note = _last_words(log)
    return f"its process {how}{f': {note}' if note else ''}"


def _last_words(log: str) -> str:
    """The last line of a log."""
    with suppress(OSError), open(log, "rb") as stream:
        lines = stream.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[-_LONGEST_NOTE:] if lines else ""
    return ""


def _end_with_the_parent() -> None:
    """Ends the process when nobody has the other end of its standard input any more.

    A parent that was killed ends nothing itself, and work that hangs hears nothing.
    """
    watched = select.poll()
    watched.register(0, 0)  # hanging up is told without being asked for
    watched.poll()
    os._exit(0)


def serve(work: Callable[[Callable[..., None], Callable[[], dict[str, Any]]], None]) -> None:
    """Is a child: calls `work(say, hear)`, which tells messages and waits for them.

    An exception becomes a message. What the work prints goes to standard error. Where the parent
    has gone, however it ended, the process ends, whatever it is doing.
    """
    output = os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()

    def say(**message: Any) -> None:
        os.write(output, json.dumps(message).encode() + b"\n")

    def hear() -> dict[str, Any]:
        line = sys.stdin.buffer.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    try:
        work(say, hear)
    except Exception as error:
        message = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
        import traceback

        traceback.print_exc()
        say(error=message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
