"""The resident compiler does what the command does, and is never in its way."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.resident_home import EXAMPLES, Home, alone, home, program, started
from tileiras import cli
from tileiras.driver import read_source, to_bytecode
from tileiras.resident import samples, server
from tileiras.resident.client import is_allowed
from tileiras.resident.protocol import ENDED, NO, answer, runtime_folder

__all__ = ["alone", "home", "program"]  # fixtures


@pytest.mark.parametrize(
    "arguments",
    [
        ("--gpu-name=sm_90", "-o", "-"),
        ("--gpu-name=sm_100", "-o", "-", "-O1", "--lineinfo"),
        ("--gpu-name=sm_90", "--emit=ptx", "-o", "-", "-v"),
        ("--gpu-name=sm_90", "--emit=llvm", "--remarks=all"),
        ("--gpu-name=sm_91",),
        ("--gpu-name=sm_90", "-O9"),
        ("--no-such-option",),
        ("--version",),
        ("--gpu-name=sm_90", "-o", "/nonexistent/folder/out"),
    ],
)
def test_result_is_that_of_the_command(
    home: Home, program: Path, arguments: tuple[str, ...]
) -> None:
    there = home.run(program, *arguments)
    assert there == home.run(program, *arguments, resident=False)
    assert home.served(program, *arguments).endswith(str(there[0]))


@pytest.mark.parametrize("given", [samples.VECTOR_ADD, b"", b"garbage", b"\x7fTileIR\x00\x0d"])
def test_input_comes_from_the_streams_of_the_command(home: Home, given: bytes) -> None:
    arguments = ("-", "-o", "-", "--gpu-name=sm_90", "--emit=ptx")
    there = home.run(*arguments, given=given)
    assert there == home.run(*arguments, given=given, resident=False)


def test_folder_and_environment_are_those_of_the_command(
    home: Home, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(program, "here")
    code, out, _ = home.run("here", "--gpu-name=sm_90", TILEIRAS_FLAGS="--emit=llvm -o there.ll")
    assert (code, out) == (0, b"")
    assert b"define" in Path("there.ll").read_bytes()


def test_umask_and_limits_are_those_of_the_command(
    home: Home, program: Path, tmp_path: Path
) -> None:
    line = (
        "umask 077; {} {} -o {}/k --gpu-name=sm_90 --emit=ptx;"
        "ulimit -f 0; {} {} -o {}/big --gpu-name=sm_90 --emit=ptx 2>&1"
    )
    call = f"{sys.executable} -c 'import tileiras_command; tileiras_command.main()'"
    script = line.format(call, program, tmp_path, call, program, tmp_path)
    done = subprocess.run(["bash", "-c", script], env=home.environ, capture_output=True)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert b"unable to write output file" in done.stdout
    assert done.returncode == 2


def test_socket_and_folder_are_private(home: Home) -> None:
    path = home.socket()
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_folder_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == str(tmp_path / "tileiras")
    (tmp_path / "tileiras").chmod(0o755)
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) is None


def test_link_in_place_of_the_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "tileiras").symlink_to(tmp_path / "other")
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("argv", "environ", "allowed"),
    [
        (["k"], {"TILEIRAS_SERVER": "1"}, True),
        (["k", "--server"], {}, True),
        (["k"], {}, False),
        (["k"], {"TILEIRAS_SERVER": "0"}, False),
        (["k"], {"TILEIRAS_SERVER": "1", "PYTHONUNBUFFERED": "1"}, True),
        (["k"], {"TILEIRAS_SERVER": "1", "PYTHONPATH": "/x"}, False),
        (["/dev/fd/63"], {"TILEIRAS_SERVER": "1"}, False),
        (["k", "-o/proc/self/fd/1"], {"TILEIRAS_SERVER": "1"}, False),
    ],
)
def test_when_it_is_used(argv: list[str], environ: dict[str, str], allowed: bool) -> None:
    assert is_allowed(argv, environ) == allowed


def test_option_is_known_to_a_command_without_server(alone: Home, program: Path) -> None:
    arguments = (program, "--gpu-name=sm_90", "--emit=ptx", "--server")
    code, out, errors = alone.run(*arguments, resident=False)
    assert (code, errors) == (0, b"") and b".visible" in out


def test_command_compiles_by_itself_until_there_is_a_server(alone: Home, program: Path) -> None:
    arguments = (program, "--gpu-name=sm_90", "--emit=ptx")
    assert alone.served(*arguments) == "None"
    assert alone.run(*arguments) == alone.run(*arguments, resident=False)
    alone.wait_for(lambda: alone.socket() is not None)
    assert alone.served(*arguments).endswith("0")


def test_it_ends_when_nobody_asks(alone: Home, program: Path) -> None:
    alone.environ["TILEIRAS_SERVER_IDLE"] = "0.5"
    alone.start()
    alone.wait_for(lambda: alone.socket() is None)
    assert alone.run(program, "--gpu-name=sm_90", "--emit=ptx")[0] == 0


def test_killed_server_leaves_a_command_that_compiles(alone: Home, program: Path) -> None:
    alone.start()
    os.kill(alone.server(), signal.SIGKILL)
    arguments = (program, "--gpu-name=sm_90", "--emit=ptx")
    assert alone.run(*arguments) == alone.run(*arguments, resident=False)


def test_killed_child_hurts_nobody(home: Home, program: Path) -> None:
    """Its command compiles by itself, and the next one is served."""
    waiting, child = started(home)
    os.kill(child, signal.SIGKILL)
    home.wait_for(lambda: not Path(f"/proc/{child}").exists())
    out, errors = waiting.communicate(program.read_bytes())
    assert (waiting.returncode, errors) == (0, b"")
    assert out == home.run(program, "-o", "-", "--gpu-name=sm_90", "--emit=ptx")[1]
    assert home.served(program, "--gpu-name=sm_90", "--emit=ptx", "-o/dev/null") == "0"


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")],
)
def test_signal_to_the_command_ends_the_compilation(
    home: Home, number: int, code: int, words: bytes
) -> None:
    waiting, child = started(home)
    waiting.send_signal(number)
    waiting.wait()  # before its input ends
    _, errors = waiting.communicate()
    assert (waiting.returncode, errors) == (code, b"error: " + words + b"\n")
    home.wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_killed_command_ends_the_compilation(home: Home) -> None:
    waiting, child = started(home)
    waiting.kill()
    waiting.communicate()
    home.wait_for(lambda: not Path(f"/proc/{child}").exists())


class FakeListener:
    """A listening socket to which somebody has connected."""

    def __init__(self) -> None:
        self.client, self.connection = socket.socketpair()

    def accept(self) -> tuple[socket.socket, str]:
        """The other end."""
        return self.connection, ""


def accepting(listener: FakeListener) -> server.Server:
    """A server that would fork for this connection."""

    def never(_: list[str]) -> None:
        raise AssertionError("compiled")

    return server.Server(listener, never, lambda _: None)  # type: ignore[arg-type]


def test_other_user_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_peer_of", lambda _: (1, os.geteuid() + 1))
    listener = FakeListener()
    accepting(listener)._accept({})
    assert listener.client.recv(16) == b""


def test_more_than_it_can_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_CHILDREN", 0)
    listener = FakeListener()
    accepting(listener)._accept({})
    assert listener.client.recv(16) == answer(NO)


def test_changed_source_ends_it() -> None:
    """The command compiles by itself, and starts the next server."""
    listener = socket.socket(socket.AF_UNIX)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        listener.bind(f"{folder}/s")
        listener.listen()
        asked = socket.socket(socket.AF_UNIX)
        asked.connect(f"{folder}/s")
        one = server.Server(listener, lambda *_: os._exit(1), lambda _: None)
        source = Path(folder, "source.py")
        source.touch()
        one.look_after([(str(source), source.stat().st_mtime_ns, 0)])
        assert not one._is_stale()
        source.write_text("pass\n")
        ours, theirs = socket.socketpair()
        one._spare = server.Spare(0, ours)
        before = signal.getsignal(signal.SIGCHLD)
        one.run(30.0, {})
        signal.signal(signal.SIGCHLD, before)
        signal.set_wakeup_fd(-1)
        _, descriptors, _, _ = socket.recv_fds(theirs, 4, 1)
        assert theirs.recv(1) == b""  # the child that has it is not told to go on
        os.close(descriptors[0])
        assert asked.recv(16) == b""


def test_request_of_nobody_we_know_is_not_read() -> None:
    ours, theirs = socket.socketpair()
    ours.send(b"GET / HTTP/1.1")
    with pytest.raises(ValueError, match="found a head that no client sends"):
        server._receive(theirs)
    ours.send((1 << 30).to_bytes(4, "little"))
    ours.close()


def test_client_imports_nothing_heavy(home: Home, program: Path) -> None:
    """Nor many modules: a request takes as long as Python takes to start."""
    script = (
        "import os, sys; before = set(sys.modules); leave = os._exit\n"
        "os._exit = lambda code: (os.write(1, ' '.join(sorted(set(sys.modules) - before))"
        ".encode()), leave(code))\n"
        "import tileiras_command; tileiras_command.main()"
    )
    command = [sys.executable, "-I", "-S", "-c"]
    path = f"import sys; sys.path.insert(0, {str(EXAMPLES.parent)!r})\n"
    arguments = [program, "--gpu-name=sm_90", "-o", os.devnull]
    done = subprocess.run(
        [*command, path + script, *arguments], env=home.environ, capture_output=True
    )
    modules = done.stdout.decode().split()
    assert "tileiras.resident.client" in modules
    assert not {"typing", "re", "enum", "dataclasses", "socket", "tileiras.cli"} & set(modules)
    assert len(modules) <= 8


@pytest.mark.parametrize("name", ["vector_add", "traced_add", "matmul"])
def test_samples_are_the_examples(name: str) -> None:
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    expected: bytes = getattr(samples, name.upper())
    assert to_bytecode(read_source(source, f"examples/{name}.mlir"), source) == expected


def test_answers_have_one_size() -> None:
    assert len(answer(NO)) == len(answer(ENDED, 2**31)) == 5


def test_a_rehearsal_is_a_command_that_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[int, dict[str, str]]] = []
    environ = {"TILEIRAS_FLAGS": "--emit=none", "TILEIR_X": "1", "PATH": os.environ["PATH"]}

    def run(argv: list[str]) -> int:
        ends.append((command(argv), dict(environ)))
        return ends[-1][0]

    command = cli.run
    monkeypatch.setattr(cli, "run", run)
    for sample in (samples.VECTOR_ADD, samples.TRACED_ADD, samples.MATMUL):
        server.rehearse(environ, sample)
    assert ends == [(0, {"PATH": os.environ["PATH"]})] * 3
    assert len(environ) == 3


def test_everything_is_loaded_before_a_kernel_needs_it() -> None:
    script = """
import sys
from tileiras.resident.everything import load_passes, make_definitions
load_passes()
make_definitions()
from tileiras.driver import compile_module
from tileiras.options import CompileOptions
from tileiras.dialects.nv_tileaa import TiledLoadOp
def parts():
    names = tuple(f"tileiras.{name}." for name in ("analysis", "planning", "passes", "codegen"))
    return sorted(name for name in sys.modules if name.startswith(names))
before = parts()
for path in sys.argv[1:]:
    compile_module(open(path, "rb").read(), CompileOptions(gpu_name="sm_100", emit="ptx"), path)
print(sorted(set(parts()) - set(before)), len(before) > 200)
print("verify" in vars(TiledLoadOp.get_irdl_definition()))
"""
    programs = [str(EXAMPLES / f"{name}.mlir") for name in ("traced_add", "matmul", "experts")]
    done = subprocess.run([sys.executable, "-c", script, *programs], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[] True", "True"], done.stderr
