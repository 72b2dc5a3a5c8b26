"""A crash of LLVM, and any mistake of ours, ends with a message, a place and a reproducer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.processes import TILEIRAS, VECTOR_ADD, environment, run
from tileiras.bytecode.writer import write_module
from tileiras.driver import read_source
from tileiras.errors import InternalError
from tileiras.reproducer import Case, keep_case, options_of

FAILED = "error: failed to compile Tile IR program"

OVERFLOW = "@g = external global " + "[1 x " * 400_000 + "i32" + "]" * 400_000
UNSELECTABLE = """
declare i64 @llvm.read_register.i64(metadata)
define i64 @f() { %x = call i64 @llvm.read_register.i64(metadata !0) ret i64 %x }
!0 = !{!"nosuch"}
"""
CRASHES = {
    "an illegal access": ("ctypes.CDLL(None).strlen(8)", "SIGSEGV"),
    "abort": ("ctypes.CDLL(None).abort()", "SIGABRT"),
    "a stack overflow": (f"llvm.parse_text(llvm.call('ContextCreate'), {OVERFLOW!r})", "SIGSEGV"),
    "a fatal error of LLVM": ("", "SIGABRT"),
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory, which has a folder for reproducers."""
    monkeypatch.chdir(tmp_path)
    Path("tmp").mkdir()
    return tmp_path


def compile_with(patch: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`tileiras` in which something was replaced, of the example or of the arguments' file."""
    Path("patch.py").write_text(patch)
    script = "import tileiras_command; exec(open('patch.py').read()); tileiras_command.main()"
    return run(
        *(arguments or (str(VECTOR_ADD), "--gpu-name=sm_90", "-o", "k.cubin")),
        program=[sys.executable, "-c", script],
        env=environment(TMPDIR=Path("tmp").absolute(), TILEIR_ALWAYS_SWIZZLE="1"),
        preexec_fn=no_core_files,
    )


def no_core_files() -> None:
    """For a process that is to crash."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def crash_in_llvm(kind: str) -> str:
    """A patch that crashes LLVM."""
    body, _ = CRASHES[kind]
    if not body:
        return (
            "from tileiras.codegen.llvmir import printer\n"
            f"printer.print_module = lambda *_: {UNSELECTABLE!r}\n"
        )
    return (
        "import ctypes; from tileiras.codegen import llvm_backend\n"
        f"def crash(llvm, *_):\n    {body}\n"
        "llvm_backend._compile = crash\n"
    )


def the_reproducer() -> Path:
    """The only thing in the temporary folder."""
    (folder,) = Path("tmp").iterdir()
    return folder


@pytest.mark.parametrize("kind", CRASHES)
def test_crash_of_llvm(kind: str) -> None:
    """Exit code 5, the kernel's place, the signal, a reproducer, the closing line."""
    done = compile_with(crash_in_llvm(kind))
    assert done.returncode == 5, done.stderr
    *words, first, bug, kept, last = done.stderr.splitlines()
    signal = CRASHES[kind][1]
    place = f'loc("{VECTOR_ADD}":'
    assert first.startswith(place)
    assert first.endswith(f": error: internal error in LLVM: it was ended by {signal}")
    assert bug.startswith("note: this is a bug in tileiras")
    folder = the_reproducer().absolute()
    expected = f"note: input, options and versions are in {folder}: please send them with it"
    assert kept == expected
    assert last == FAILED
    assert all(word.startswith("LLVM ERROR: ") for word in words)  # LLVM's own words come first
    assert not Path("k.cubin").exists()


def test_reproducer_has_all_that_is_needed() -> None:
    """The input byte for byte, a script that compiles it alike, versions, the part."""
    module = read_source(VECTOR_ADD.read_bytes())
    Path("k.bc").write_bytes(write_module(module))
    arguments = ["k.bc", "--gpu-name", "sm_90", "-O2", "--lineinfo", "--timeout=50", "-o", "k"]
    assert compile_with(crash_in_llvm("abort"), *arguments).returncode == 5
    folder = the_reproducer()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["input.tileirbc", "report.json", "reproduce.sh"]
    assert (folder / "input.tileirbc").read_bytes() == Path("k.bc").read_bytes()
    assert (folder.stat().st_mode & 0o777) == 0o700
    report = json.loads((folder / "report.json").read_text())
    options = ["--gpu-name=sm_90", "--opt-level=2", "--lineinfo=true"]
    assert report["command"] == ["tileiras", "input.tileirbc", *options, "-o", "/dev/null"]
    assert report["environment"] == {"TILEIR_ALWAYS_SWIZZLE": "1"}
    assert report["part"] == "LLVM"
    assert {"tileiras", "python", "xdsl", "llvmlite"} <= report["versions"].keys()
    assert "SIGABRT" in report["error"]


def test_script_of_a_reproducer_runs(tmp_path: Path) -> None:
    """Wherever it is started from: here the mistake is mended, so it compiles."""
    assert compile_with(crash_in_llvm("abort")).returncode == 5
    tools = tmp_path / "bin"
    tools.mkdir()
    program = tools / "tileiras"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{TILEIRAS[2]}" "$@"\n')
    program.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    script = str(the_reproducer().absolute() / "reproduce.sh")
    done = run(script, program=["sh"], env=environment(PATH=path), cwd="/")
    assert (done.returncode, done.stderr) == (0, "")


def test_mistake_in_a_pass() -> None:
    """Names the pass; the same mistake twice makes one reproducer."""
    patch = (
        "from tileiras import registry; real = registry.load_pass\n"
        "def load(name):\n"
        "    found = real(name)\n"
        "    if name == 'convert-cudatile-to-tileaa':\n"
        "        def apply(*_): raise ZeroDivisionError('a mistake')\n"
        "        found.apply = apply\n"
        "    return found\n"
        "registry.load_pass = load\n"
    )
    for _ in range(2):
        done = compile_with(patch)
        assert done.returncode == 5
        message = "internal error in convert-cudatile-to-tileaa: ZeroDivisionError: a mistake"
        assert f"error: {message}\n" in done.stderr
        report = json.loads((the_reproducer() / "report.json").read_text())
        assert report["part"] == "pass convert-cudatile-to-tileaa"
        assert report["error"] == message


def test_error_of_the_user_has_no_reproducer() -> None:
    """Only our own mistakes have."""
    Path("bad.mlir").write_text("entry @f() { nosuchop }")
    assert compile_with("", "bad.mlir", "--gpu-name=sm_90").returncode == 3
    assert compile_with("", str(VECTOR_ADD), "--gpu-name=sm_90", "-o", "k").returncode == 0
    assert list(Path("tmp").iterdir()) == []


def test_reproducer_that_cannot_be_written() -> None:
    """Is said; the mistake is still told."""
    Path("tmp").rmdir()
    patch = "from tileiras.codegen.llvmir import printer\nprinter.print_module = lambda *_: 1 / 0\n"
    done = compile_with(patch)
    assert done.returncode == 5
    assert "error: internal error: ZeroDivisionError: division by zero\n" in done.stderr
    assert "note: a reproducer cannot be written: [Errno 2] No such file" in done.stderr


def test_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    """A link that lies where the reproducer would go."""
    case = Case(b"text", False, ("--gpu-name=sm_90",), {"TMPDIR": str(tmp_path / "tmp")})
    error = InternalError("a mistake")
    first = Path(keep_case(case, error, "pass x"))
    assert Path(keep_case(case, error, "pass x")) == first
    first.rename(tmp_path / "elsewhere")
    first.symlink_to(tmp_path / "elsewhere")
    second = Path(keep_case(case, error, "pass x"))
    assert second != first
    assert second.parent == first.parent


def test_options_are_written_out_again() -> None:
    """In the order given, with all values."""
    values = {"": ["in.bc"], "gpu-name": ["sm_90"], "g": ["true"], "print-after": ["a", "b"]}
    expected = ("--gpu-name=sm_90", "--g=true", "--print-after=a", "--print-after=b")
    assert options_of(values, without=("",)) == expected


def test_signals_are_as_before_when_llvm_is_done() -> None:
    """A crash that is not LLVM's ends the process as ever, and is not waited for."""
    patch = (
        "import ctypes; from tileiras import cli\n"
        "cli._write_outputs = lambda *_: ctypes.string_at(8)\n"
    )
    done = compile_with(patch)
    assert done.returncode == -11
