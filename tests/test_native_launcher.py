"""The native program for the command `tileiras` does what the Python command does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resident_home import COMMAND, EXAMPLES, Home, alone, home, program, started
from tileiras.native_launcher.__main__ import SOURCE, build, definitions, find_compiler, main
from tileiras.resident import samples
from tileiras.resident.protocol import socket_path

__all__ = ["alone", "home", "program"]  # fixtures

COMPILER = find_compiler(os.environ)
VECTOR_ADD = EXAMPLES / "vector_add.mlir"

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C compiler")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as it is installed."""
    place = tmp_path_factory.mktemp("native") / "tileiras"
    assert main(["--no-snapshot", str(place)], os.environ) == 0
    return place


@pytest.fixture(scope="module")
def pythonless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with an interpreter that does not exist."""
    return altered(tmp_path_factory.mktemp("pythonless"), sys.executable, "/nonexistent/python")


def altered(folder: Path, old: str, new: str) -> Path:
    """The program made for something else: wherever its build has a text, this has another."""
    text = definitions()
    assert quoted(old) in text
    (folder / "build.h").write_text(text.replace(quoted(old), quoted(new)))
    command = [*COMPILER, "-include", folder / "build.h", SOURCE, "-o", folder / "tileiras"]
    subprocess.run(command, check=True)
    return folder / "tileiras"


def quoted(text: str) -> str:
    """A text as it stands within the quotes of the build's header."""
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(text))


@pytest.fixture
def with_native(home: Home, native: Path) -> Home:
    """The place with a resident compiler, where commands are the native program."""
    place = Home(home.folder, [str(native)])
    place.process = home.server()
    return place


def outcome(
    command: list[str], *arguments: str | Path, **options: object
) -> tuple[int, bytes, bytes]:
    """Exit code, output and messages of a command without a resident compiler."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TILEIRAS_"))}
    given = {"env": variables, "input": b"", **options}
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, **given)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr


LINES = [
    ("--version",),
    ("--help",),
    ("--list-versions",),
    (),
    ("--no-such-option",),
    ("/nonexistent/file", "--gpu-name=sm_90"),
    (VECTOR_ADD,),
    (VECTOR_ADD, "--gpu-name=sm_91"),
    (VECTOR_ADD, "--gpu-name=sm_90", "-O9"),
    (VECTOR_ADD, "--gpu-name=sm_90", "--emit=ptx", "-o", "-", "-v"),
    (VECTOR_ADD, "--gpu-name=sm_100", "-o", "-", "--lineinfo"),
    (VECTOR_ADD, "--gpu-name=sm_90", "-o", "/nonexistent/folder/out"),
    (VECTOR_ADD, "--gpu-name=sm_90", "--emit=llvm", "-o", "-", "--remarks=all"),
    ("-", "--gpu-name=sm_90", "-o", "-"),
    ("a b", "", "*", "ä"),
]
"""Command lines that end in each of the exit codes, and some that need care with words."""


@pytest.mark.parametrize("arguments", LINES)
def test_outcome_is_that_of_the_python_command(
    native: Path, arguments: tuple[str | Path, ...]
) -> None:
    assert outcome([str(native)], *arguments) == outcome(COMMAND, *arguments)


@pytest.mark.parametrize("arguments", LINES)
def test_outcome_of_the_resident_compiler_is_that_of_the_python_command(
    with_native: Home, arguments: tuple[str | Path, ...]
) -> None:
    assert with_native.run(*arguments) == outcome(COMMAND, *arguments)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_words_that_are_no_text_are_said_as_python_says_them(
    home: Home, pythonless: Path, locale: str
) -> None:
    environ = {**home.environ, "LC_ALL": locale}
    line = [b"\xff\xfe", b"--gpu-name=sm_90", b"-o", b"\x80"]
    there = subprocess.run([pythonless, *line], env=environ, capture_output=True)
    alone = {k: v for k, v in environ.items() if k != "TILEIRAS_SERVER"}
    here = subprocess.run([*COMMAND, *line], env=alone, capture_output=True)
    assert (there.returncode, there.stderr) == (here.returncode, here.stderr)


def test_python_is_not_started_for_the_resident_compiler(
    home: Home, pythonless: Path, program: Path, tmp_path: Path
) -> None:
    cubin = tmp_path / "k.cubin"
    command = [pythonless, program, "--gpu-name=sm_90", "-o", cubin]
    done = subprocess.run(command, env=home.environ, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert cubin.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "changes",
    [
        {"TILEIRAS_SERVER": "0"},
        {"TILEIRAS_SERVER": ""},
        {"PYTHONPATH": "/x"},
    ],
)
def test_python_is_started_where_the_resident_compiler_is_not_allowed(
    home: Home, pythonless: Path, program: Path, changes: dict[str, str]
) -> None:
    environ = {**home.environ, **changes}
    done = subprocess.run([pythonless, program], env=environ, capture_output=True)
    assert done.returncode == 127
    assert done.stderr == (
        b"error: unable to start '/nonexistent/python': No such file or directory\n"
    )


@pytest.mark.parametrize("word", ["/dev/fd/0", "-o/proc/self/fd/1"])
def test_python_is_started_for_files_of_one_process(
    home: Home, pythonless: Path, word: str
) -> None:
    done = subprocess.run([pythonless, word], env=home.environ, capture_output=True)
    assert done.returncode == 127


def test_option_allows_the_resident_compiler(home: Home, pythonless: Path, program: Path) -> None:
    environ = {k: v for k, v in home.environ.items() if k != "TILEIRAS_SERVER"}
    command = [pythonless, program, "--gpu-name=sm_90", "--emit=ptx", "-o", "-"]
    assert subprocess.run(command, env=environ, capture_output=True).returncode == 127
    assert subprocess.run([*command, "--server"], env=environ, capture_output=True).returncode == 0


def test_folder_that_others_may_enter_is_not_used(
    pythonless: Path, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "tileiras").mkdir(mode=0o755)
    environ = {**os.environ, "TILEIRAS_SERVER": "1", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run([pythonless, program], env=environ, capture_output=True)
    assert done.returncode == 127


def test_folder_and_environment_are_those_of_the_command(
    with_native: Home, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(program, "here")
    flags = "--emit=llvm -o there.ll"
    code, out, _ = with_native.run("here", "--gpu-name=sm_90", TILEIRAS_FLAGS=flags)
    assert (code, out) == (0, b"")
    assert b"define" in Path("there.ll").read_bytes()


@pytest.mark.parametrize("given", [samples.VECTOR_ADD, b"", b"garbage"])
def test_input_comes_from_the_streams_of_the_command(with_native: Home, given: bytes) -> None:
    arguments = ("-", "-o", "-", "--gpu-name=sm_90", "--emit=ptx")
    assert with_native.run(*arguments, given=given) == outcome(COMMAND, *arguments, input=given)


def test_native_command_starts_a_server_for_both(alone: Home, native: Path, program: Path) -> None:
    alone.command = [str(native)]
    alone.start()
    arguments = (program, "--gpu-name=sm_90", "--emit=ptx", "-o", os.devnull)
    assert alone.served(*arguments) == "0"
    assert alone.run(*arguments) == (0, b"", b"")


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGHUP, 129, b"hung up"),
    ],
)
def test_signal_to_the_command_ends_the_compilation(
    with_native: Home, number: int, code: int, words: bytes
) -> None:
    waiting, child = started(with_native)
    waiting.send_signal(number)
    waiting.wait()  # before its input ends
    _, errors = waiting.communicate()
    assert (waiting.returncode, errors) == (code, b"error: " + words + b"\n")
    with_native.wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_killed_command_ends_the_compilation(with_native: Home) -> None:
    waiting, child = started(with_native)
    waiting.kill()
    waiting.communicate()
    with_native.wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_killed_compilation_is_done_by_the_command(with_native: Home, program: Path) -> None:
    waiting, child = started(with_native)
    os.kill(child, signal.SIGKILL)
    with_native.wait_for(lambda: not Path(f"/proc/{child}").exists())
    out, errors = waiting.communicate(program.read_bytes())
    assert (waiting.returncode, errors) == (0, b"")
    assert out == outcome(COMMAND, program, "-o", "-", "--gpu-name=sm_90", "--emit=ptx")[1]


def test_signal_before_python_ends_it_as_python_does(native: Path) -> None:
    """One that waits for its input."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    waiting = subprocess.Popen([native, "-", "--gpu-name=sm_90"], env=variables, **pipes)
    watching = Path(f"/proc/{waiting.pid}/task")
    while len(list(watching.iterdir())) < 2:  # the thread of termination.watch
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGTERM)
    waiting.wait(60)  # before its input is closed, which would be an error of its own
    _, errors = waiting.communicate()
    assert (waiting.returncode, errors) == (143, b"error: terminated\n")


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (signal.SIGINT, 130, b"interrupted"),
        (signal.SIGTERM, 143, b"terminated"),
        (signal.SIGHUP, 129, b"hung up"),
    ],
)
def test_signal_while_python_starts_is_one_line(
    native: Path, tmp_path: Path, number: int, code: int, words: bytes
) -> None:
    """Before anything of ours is imported: Python itself answers an interrupt with a traceback."""
    text = f"import os\nos.kill(os.getpid(), {int(number)})\n"
    (tmp_path / "sitecustomize.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([native, "--version"], env=environ, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"error: " + words + b"\n")


@pytest.mark.parametrize("blocked", [[], [signal.SIGINT], [signal.SIGHUP, signal.SIGUSR1]])
def test_commands_have_the_signals_that_the_caller_blocks(
    native: Path, tmp_path: Path, blocked: list[signal.Signals]
) -> None:
    """No more, so that ptxas can be ended, and no less."""
    text = "main = lambda: print(open('/proc/self/status').read())\n"
    (tmp_path / "tileiras_command.py").write_text(text)
    done = subprocess.run(
        [native],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked),
    )
    mask = next(line for line in done.stdout.splitlines() if line.startswith("SigBlk:"))
    assert int(mask.split()[1], 16) == sum(1 << (number - 1) for number in blocked)


def test_checkout_on_pythonpath_is_used(native: Path, tmp_path: Path) -> None:
    (tmp_path / "tileiras").mkdir()
    (tmp_path / "tileiras" / "__init__.py").write_text("")
    (tmp_path / "tileiras_command.py").write_text("main = lambda: print('this one')\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run([native], env=environ, capture_output=True).stdout == b"this one\n"


def test_files_in_the_folder_of_work_are_not_imported(
    native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("click", "xdsl", "tileiras", "tileiras_command", "signal"):
        Path(f"{name}.py").write_text("raise SystemExit('trapped')\n")
    for changes in ({}, {"PYTHONHASHSEED": "1"}):
        environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | changes
        done = subprocess.run([native, "--help"], env=environ, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_closed_streams_are_those_of_the_python_command(native: Path) -> None:
    for closed in (">&-", "2>&-", "<&-"):
        script = f'"$@" {closed}'
        line = ["sh", "-c", script, "sh"]
        rest = [VECTOR_ADD, "--gpu-name=sm_90", "--emit=ptx", "-o", "-"]
        assert outcome([*line, str(native)], *rest) == outcome([*line, *COMMAND], *rest)


def test_socket_is_the_one_of_the_python_command() -> None:
    name = socket_path("")
    assert f'#define SOCKET "{quoted(name)}"' in definitions().splitlines()


PTX = (VECTOR_ADD, "--gpu-name=sm_90", "--emit=ptx", "-o", "-")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"[{sys.hexversion}, ", f"[{sys.hexversion + 1}, "),
        ("import sys\nif", "import sys; sys.path.append('/x')\nif"),
        ("    sys.path[:] = [", "    sys.path[:] = [*sys.path]; _ = ["),
    ],
    ids=["another version", "another place of the library", "packages have moved"],
)
def test_python_of_another_kind_finds_modules_by_itself(tmp_path: Path, old: str, new: str) -> None:
    assert outcome([str(altered(tmp_path, old, new))], *PTX) == outcome(COMMAND, *PTX)


def test_python_of_the_build_does_not_import_site(native: Path, tmp_path: Path) -> None:
    """What stands in site's place is not seen, unless the modules have to be found again."""
    trap = "import types; sys.modules['site'] = types.SimpleNamespace(main=lambda: print('site'))"
    for condition, said in (("if ", b""), ("if not ", b"site\n")):
        command = altered(tmp_path, "import sys\nif ", f"import sys; {trap}\n{condition}")
        done = subprocess.run([command, "--help"], capture_output=True)
        assert done.stdout.startswith(said or b"Usage")


def test_moved_environment_is_that_beside_the_program(pythonless: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = shutil.copy(pythonless, tmp_path / "bin" / "tileiras")
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert outcome([str(program)], *PTX) == outcome(COMMAND, *PTX)
    python.unlink()
    assert outcome([str(program)], *PTX)[0] == 127


def test_without_a_compiler_the_command_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "tileiras"
    place.write_text("the script")
    assert main([str(place)], {"PATH": str(tmp_path)}) == 0
    for compiler in ("no-such-compiler", "'cc"):
        assert main([str(place)], {"PATH": os.environ["PATH"], "CC": compiler}) == 0
    assert place.read_text() == "the script"
    assert (
        capsys.readouterr().err.splitlines()
        == [f"note: no C compiler is found: '{place}' stays as it is"] * 3
    )


def test_places_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the program, and of the compiler."""
    monkeypatch.chdir(tmp_path)
    Path("cc").symlink_to(COMPILER[0])
    assert main(["--no-snapshot", "tileiras"], {"CC": "./cc"}) == 0
    assert sorted(os.listdir()) == ["cc", "tileiras"]
    build(COMPILER, Path("again"))
    assert outcome(["./again"], "--version") == outcome(COMMAND, "--version")


def test_compiler_that_fails_leaves_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, compiler = tmp_path / "tileiras", tmp_path / "cc"
    place.write_text("the script")
    compiler.write_text("#!/bin/sh\necho 'no header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    assert main([str(place)], {"CC": str(compiler)}) == 1
    assert place.read_text() == "the script"
    assert [path.name for path in tmp_path.iterdir()] in (["cc", "tileiras"], ["tileiras", "cc"])
    assert capsys.readouterr().err == f"error: '{compiler}' failed:\nno header\n\n"


def test_place_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nonexistent/tileiras"], os.environ) == 1
    words = "error: unable to write '/nonexistent/tileiras': No such file or directory\n"
    assert capsys.readouterr().err == words
    assert main(["a", "b"], os.environ) == 1
    assert capsys.readouterr().err == (
        "usage: python -m tileiras.native_launcher [--no-snapshot] [PLACE]\n"
    )


def test_program_compiles_without_warnings(tmp_path: Path) -> None:
    header = tmp_path / "build.h"
    header.write_text(definitions())
    flags = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2", "-include", str(header)]
    command = [*COMPILER, *flags, str(SOURCE), "-o", str(tmp_path / "tileiras")]
    subprocess.run(command, check=True)
    build(COMPILER, tmp_path / "again")
    assert (tmp_path / "again").stat().st_mode & 0o111
