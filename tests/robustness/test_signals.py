"""A signal ends `tileiras` with one line, the shell's exit code, and leaves nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.robustness.processes import (
    COMPILE,
    WITHOUT_PACKAGES,
    environment,
    fake_ptxas,
    is_running,
    path_with,
    run,
    start,
    wait_until,
)

ENDINGS = [
    (signal.SIGINT, 130, "error: interrupted\n"),
    (signal.SIGTERM, 143, "error: terminated\n"),
    (signal.SIGHUP, 129, "error: hung up\n"),
]
SLOW_PTXAS = 'echo $$ > "$(dirname "$0")/pid.new"; touch "$TMPDIR/left"; mkdir "$TMPDIR/folder"\n'
SLOW_PTXAS += 'mv "$(dirname "$0")/pid.new" "$(dirname "$0")/pid"; exec sleep 60'


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def signals_are_not_ignored() -> Iterator[None]:
    """As under `nohup` or in a shell's background: processes inherit it, and leave it so.

    A handler of Python's own, such as that of SIGINT here, is not inherited.
    """
    before: dict[int, Any] = {}
    for number, *_ in ENDINGS:
        if signal.getsignal(number) is signal.SIG_IGN:
            handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            before[number] = signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code", "message"), ENDINGS)
def test_signal_while_ptxas_runs_leaves_nothing(
    number: int, code: int, message: str, tmp_path: Path
) -> None:
    """To the parent alone: ptxas is killed, and the temporary folder goes."""
    tools = fake_ptxas(tmp_path / "bin", SLOW_PTXAS)
    (tmp_path / "tmp").mkdir()
    variables = environment(PATH=path_with(tools), TMPDIR=tmp_path / "tmp")
    process = start(*COMPILE, "-o", "k.cubin", program=WITHOUT_PACKAGES, env=variables)
    wait_until((tools / "pid").exists)
    assert len(list((tmp_path / "tmp").glob("*/left"))) == 1
    process.send_signal(number)
    _, shown = process.communicate(timeout=20)
    assert (process.returncode, shown) == (code, message)
    wait_until(lambda: not is_running(int((tools / "pid").read_text())))
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not Path("k.cubin").exists()


@pytest.mark.parametrize(("number", "code", "message"), ENDINGS)
def test_signal_in_native_code_is_not_waited_for(number: int, code: int, message: str) -> None:
    """Python's own handlers would run when the call of native code returns: here, never."""
    script = (
        "import tileiras_command, ctypes, os, sys; from tileiras import cli\n"
        "def compile_module(*_, **__):\n"
        "    os.write(1, b'.')\n"
        "    libc = ctypes.CDLL(None)\n"
        "    while True: libc.usleep(60_000_000)\n"
        "from tileiras import driver; driver.compile_module = compile_module\n"
        "tileiras_command.main()"
    )
    reading, writing = os.pipe()
    process = start(*COMPILE, program=[sys.executable, "-c", script], stdout=writing)
    os.close(writing)
    assert os.read(reading, 1) == b"."
    process.send_signal(number)
    _, shown = process.communicate(timeout=10)
    assert (process.returncode, shown) == (code, message)
    os.close(reading)


@pytest.mark.parametrize(("number", "code", "message"), ENDINGS)
def test_signal_before_the_compiler_is_imported(number: int, code: int, message: str) -> None:
    """From the first line of ours on there is no traceback."""
    script = f"import tileiras_command, os; os.kill(os.getpid(), {int(number)}); print('went on')"
    done = run(program=[sys.executable, "-c", script])
    assert (done.returncode, done.stderr, done.stdout) == (code, message, "")


def test_interrupt_while_the_first_module_is_found_has_no_traceback() -> None:
    """A KeyboardInterrupt of Python's own handler, before ours is installed."""
    script = (
        "import sys, builtins\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tileiras.early_signals': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt()); import tileiras_command; print('went on')"
    )
    done = run(program=[sys.executable, "-c", script])
    assert (done.returncode, done.stderr, done.stdout) == (130, "error: interrupted\n", "")


def test_ignored_signals_stay_ignored() -> None:
    """As under `nohup`: the compilation goes on."""
    script = (
        "import signal, os; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "import tileiras_command; from tileiras import driver; real = driver.compile_module\n"
        "def told(*a, **k):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    return real(*a, **k)\n"
        "driver.compile_module = told; tileiras_command.main()"
    )
    done = run(*COMPILE, "-o", "k.cubin", program=[sys.executable, "-c", script])
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("k.cubin").exists()


def test_half_written_output_goes(tmp_path: Path) -> None:
    """A signal between the file's making and its renaming leaves neither it nor the old one cut."""
    Path("k.cubin").write_bytes(b"old")
    script = (
        "import tileiras_command, os, signal, time; from tileiras import file_replacement\n"
        "def told(*_):\n"
        "    os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "file_replacement.rename_file = told; tileiras_command.main()"
    )
    variables = environment(XDG_CACHE_HOME="/dev/null/cache")
    arguments = [*COMPILE, "--emit=cuda_tile", "-o", "k.cubin"]
    done = run(*arguments, program=[sys.executable, "-c", script], env=variables)
    assert (done.returncode, done.stderr) == (143, "error: terminated\n")
    assert [path.name for path in tmp_path.iterdir()] == ["k.cubin"]
    assert Path("k.cubin").read_bytes() == b"old"


def test_library_leaves_signals_to_the_program() -> None:
    """Only commands install handlers."""
    script = (
        "import signal; before = [signal.getsignal(n) for n in range(1, 32)]\n"
        "from tileiras import driver, options\n"
        "from pathlib import Path; import sys\n"
        "driver.compile_module(Path(sys.argv[1]).read_bytes(),"
        " driver.with_environment(options.CompileOptions(gpu_name='sm_90')))\n"
        "print(before == [signal.getsignal(n) for n in range(1, 32)])"
    )
    done = run(COMPILE[0], program=[sys.executable, "-c", script])
    assert done.stdout == "True\n", done.stderr


def test_interrupted_wait_kills_ptxas(tmp_path: Path) -> None:
    """In a library, too, where Ctrl-C is an exception."""
    tools = fake_ptxas(tmp_path / "bin", SLOW_PTXAS)
    script = (
        "import sys; from pathlib import Path; from tileiras import driver, options\n"
        "from tileiras.codegen import cuda_toolkit; cuda_toolkit.package_folders = list\n"
        "driver.compile_module(Path(sys.argv[1]).read_bytes(),"
        " driver.with_environment(options.CompileOptions(gpu_name='sm_90')))\n"
    )
    (tmp_path / "tmp").mkdir()
    variables = environment(PATH=path_with(tools), TMPDIR=tmp_path / "tmp")
    process = start(COMPILE[0], program=[sys.executable, "-c", script], env=variables)
    wait_until((tools / "pid").exists)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=20)
    assert shown.endswith("KeyboardInterrupt\n")
    assert not is_running(int((tools / "pid").read_text()))
    assert list((tmp_path / "tmp").iterdir()) == []
