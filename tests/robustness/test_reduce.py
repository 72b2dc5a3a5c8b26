"""`tileiras-reduce`: what is left is small, and fails as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.processes import ROOT, environment, run
from tileiras.bytecode.writer import write_module
from tileiras.driver import is_bytecode, read_source, verify_input
from tileiras.reducer import reduce_program

MATMUL = ROOT / "examples" / "matmul.mlir"

MISTAKE_IN_A_PASS = """
from tileiras import registry
real = registry.load_pass
def load(name):
    found = real(name)
    if name == "convert-cudatile-to-tileaa":
        before = found.apply
        def apply(self, ctx, module):
            for op in module.walk():
                if op.name == "cuda_tile.mmaf":
                    raise ZeroDivisionError(f"mistake {len(list(module.walk()))}")
            return before(self, ctx, module)
        found.apply = apply
    return found
registry.load_pass = load
"""
CRASH_IN_LLVM = """
import ctypes
from tileiras.codegen import llvm_backend
real = llvm_backend._compile
def crash(llvm, text, *others):
    if "cp.async" in text:
        ctypes.CDLL(None).abort()
    return real(llvm, text, *others)
llvm_backend._compile = crash
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory, which has a folder for temporary files."""
    monkeypatch.chdir(tmp_path)
    Path("tmp").mkdir()
    return tmp_path


def reduce_with(
    patch: str, *arguments: str, command: str = "reduce"
) -> subprocess.CompletedProcess[str]:
    """`tileiras-reduce` (or another command) of a compiler in which something was replaced."""
    Path("patch.py").write_text(patch)
    script = f"import tileiras_command; exec(open('patch.py').read()); tileiras_command.{command}()"
    return run(
        *arguments,
        program=[sys.executable, "-c", script],
        env=environment(TMPDIR=Path("tmp").absolute()),
        timeout=300,
    )


def operations(source: bytes) -> list[str]:
    """The names of a program's operations."""
    return [op.name.removeprefix("cuda_tile.") for op in read_source(source).walk()]


def test_mistake_in_a_pass_keeps_what_it_needs() -> None:
    """Of 32 operations the product, its operands and the frame; the option after -- is used."""
    options = ["--gpu-name=sm_90", "-O0"]
    done = reduce_with(MISTAKE_IN_A_PASS, str(MATMUL), "-o", "small.mlir", "--", *options)
    assert done.returncode == 0, done.stderr
    small = Path("small.mlir").read_bytes()
    assert len(operations(MATMUL.read_bytes())) == 32
    left = operations(small)
    assert left.count("mmaf") == 1
    assert set(left) <= {"builtin.module", "module", "entry", "mmaf", "constant", "return"}
    verify_input(read_source(small), from_bytecode=False)
    assert "%arg0" not in small.decode()
    failing = reduce_with(MISTAKE_IN_A_PASS, "small.mlir", *options, "-o", "k", command="main")
    assert "ZeroDivisionError: mistake" in failing.stderr
    assert [path.name for path in Path("tmp").iterdir() if "reduce" in path.name] == []


def test_crash_from_its_reproducer() -> None:
    """The folder that `tileiras` names is all that is needed; bytecode stays bytecode."""
    Path("k.bc").write_bytes(write_module(read_source(MATMUL.read_bytes())))
    failing = reduce_with(
        CRASH_IN_LLVM, "k.bc", "--gpu-name=sm_80", "-o", "k.cubin", command="main"
    )
    assert failing.returncode == 5
    (folder,) = Path("tmp").iterdir()
    done = reduce_with(CRASH_IN_LLVM, str(folder), "-o", "small.bc", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    small = Path("small.bc").read_bytes()
    assert is_bytecode(small)
    assert len(small) < len(Path("k.bc").read_bytes())
    assert len(operations(small)) < 32
    again = reduce_with(CRASH_IN_LLVM, "small.bc", "--gpu-name=sm_80", "-o", "k", command="main")
    assert "it was ended by SIGABRT" in again.stderr
    assert sorted(path.name for path in Path("tmp").iterdir())[0].startswith("tileiras-reproducer")


def test_script_says_what_is_interesting() -> None:
    """Here: whatever has a loop."""
    script = Path("interesting.sh")
    script.write_text("#!/bin/sh\nexec grep -q ' for ' \"$1\"\n")
    script.chmod(0o755)
    done = reduce_with("", str(MATMUL), "-o", "small.mlir", "--script=./interesting.sh")
    assert done.returncode == 0, done.stderr
    left = operations(Path("small.mlir").read_bytes())
    assert left.count("for") == 1
    assert len(left) < 12
    assert "bytes, " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input file provided"),
        ([str(MATMUL)], "no output file given, expected -o FILE"),
        ([str(MATMUL), "-o", "s", "--", "--emit=nv_tileaa"], "tileiras does not fail on the input"),
        ([str(MATMUL), "-o", "s", "--script=/nowhere"], "'/nowhere' cannot be executed"),
        ([str(MATMUL), "-o", "s", "--script=/bin/false"], "the input is not interesting"),
        (["tmp", "-o", "s"], "'tmp' is no folder of a reproducer"),
        (["patch.py", "-o", "s"], "only what can be read can be made smaller"),
    ],
)
def test_command_lines_that_make_no_sense(arguments: list[str], message: str) -> None:
    """Are usage errors, and write nothing."""
    done = reduce_with("", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message}")
    assert not Path("s").exists()
    assert os.listdir("tmp") == []


def test_interrupted_reduction_leaves_nothing() -> None:
    """Neither the trial's folder nor its process."""
    script = Path("slow.sh")
    script.write_text("#!/bin/sh\necho $$ > pid; kill -TERM $PPID; exec sleep 60\n")
    script.chmod(0o755)
    done = reduce_with("", str(MATMUL), "-o", "small.mlir", "--script=./slow.sh")
    assert (done.returncode, done.stderr) == (143, "error: terminated\n")
    assert os.listdir("tmp") == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)


def test_what_is_interesting_stays_so() -> None:
    """Every program that is accepted on the way was asked about."""
    asked: dict[bytes, bool] = {}

    def has_loads(source: bytes) -> bool:
        asked[source] = operations(source).count("load_view_tko") >= 2
        return asked[source]

    result = reduce_program(MATMUL.read_bytes(), has_loads, lambda _: None)
    assert asked[result]
    assert operations(result).count("load_view_tko") == 2
    assert len(operations(result)) < 16


def test_nothing_to_take_away() -> None:
    """A program that is only interesting as it is."""
    source = b"cuda_tile.module @m {\n  entry @f() {\n    return\n  }\n}\n"
    assert reduce_program(source, lambda program: program == source, lambda _: None) == source
