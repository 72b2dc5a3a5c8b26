"""A private place for a resident compiler, and commands that may use it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tileiras.resident import samples, server

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
COMMAND = [sys.executable, "-c", "import tileiras_command; tileiras_command.main()"]
SERVED = (
    "import os, sys, tileiras_command; from tileiras.resident.client import compile_there;"
    "code = compile_there(sys.argv[1:], os.environ); os.write(1, repr(code).encode())"
)
"""Prints the exit code of the resident compiler, or None."""
SECONDS_TO_START = 60


class Home:
    """A private place for a resident compiler, and commands that may use it."""

    def __init__(self, folder: Path, command: list[str] = COMMAND):
        self.folder = folder
        self.command = command
        self.process = 0
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "TILEIRAS_"))
        }
        self.environ["XDG_RUNTIME_DIR"] = str(folder)
        self.environ["TILEIRAS_SERVER"] = "1"
        self.environ["TILEIRAS_SERVER_IDLE"] = "30"

    def socket(self) -> Path | None:
        """The socket, once there is one."""
        return next((p for p in self.folder.glob("tileiras/resident-*") if not p.suffix), None)

    def start(self) -> None:
        """Starts the server as a command does, and waits until it answers."""
        subprocess.run(
            [*self.command, "missing"], env=self.environ, capture_output=True, check=False
        )
        self.wait_for(lambda: self.socket() is not None)

    def wait_for(self, holds: object) -> None:
        """Waits until a condition holds."""
        assert callable(holds)
        end = time.monotonic() + SECONDS_TO_START
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.02)

    def server(self) -> int:
        """The number of the server's process. Costs it a child: asked for once."""
        if self.process:
            return self.process
        path = self.socket()
        assert path is not None
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            self.process = server._peer_of(connection)[0]
        return self.process

    def run(
        self, *arguments: str | Path, resident: bool = True, given: bytes = b"", **environ: str
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and messages of a command."""
        environment = {**self.environ, **environ, "TILEIRAS_SERVER": "1" if resident else ""}
        command = [*self.command, *map(str, arguments)]
        done = subprocess.run(command, env=environment, input=given, capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def served(self, *arguments: str | Path) -> str:
        """The exit code that the resident compiler tells, as text; None where there is none."""
        command = [sys.executable, "-c", SERVED, *map(str, arguments)]
        done = subprocess.run(command, env=self.environ, capture_output=True)
        return done.stdout.decode(errors="replace")

    def stop(self) -> None:
        """Ends the server."""
        if self.socket() is not None:
            try:
                os.kill(self.server(), signal.SIGTERM)
            except (OSError, AssertionError):
                return


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A place where a server runs."""
    folder = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))
    place = Home(folder)
    place.start()
    yield place
    place.stop()
    shutil.rmtree(folder)


@pytest.fixture
def alone() -> Iterator[Home]:
    """A place where no server runs yet."""
    folder = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))
    place = Home(folder)
    yield place
    place.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vector add as bytecode."""
    path = tmp_path_factory.mktemp("program") / "k.tileirbc"
    path.write_bytes(samples.VECTOR_ADD)
    return path


def children_of(process: int) -> list[int]:
    """The processes that a process has forked."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def started(home: Home) -> tuple[subprocess.Popen[bytes], int]:
    """A command that waits for its input in the resident compiler, and the process there."""
    parent = home.server()
    seen: list[list[int]] = []

    def is_quiet() -> bool:
        """Whether there has been one child, the spare one, for a while."""
        time.sleep(0.1)
        seen.append(children_of(parent))
        return len(seen) > 5 and len(seen[-1]) == 1 and all(s == seen[-1] for s in seen[-5:])

    home.wait_for(is_quiet)
    spare = seen[-1][0]
    command = [*home.command, "-", "-o", "-", "--gpu-name=sm_90", "--emit=ptx"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    waiting = subprocess.Popen(command, env=home.environ, **pipes)
    held = f"/proc/{spare}/fd/0"
    home.wait_for(lambda: os.readlink(held).startswith("pipe:"))
    time.sleep(0.2)
    return waiting, spare
