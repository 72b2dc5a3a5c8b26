"""Dependency files, and the CMake project of integrations/cmake."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernels.c_driver import DRIVER, DRIVER_HEADER
from tileiras import cli, driver
from tileiras.depfile import make_rule

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
PROJECT = ROOT / "integrations" / "cmake"
PROGRAM = ROOT / "integrations" / "cmake_program" / "CMakeLists.txt"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rule_escapes_what_make_reads() -> None:
    assert make_rule("a b", ["c#d", "$e", "-", "c#d"]) == "a\\ b: \\\n  c\\#d \\\n  $$e\n"


def test_depfile_names_the_input_and_response_files() -> None:
    """Each once, also those that response files name."""
    Path("inner").write_text("--gpu-name=sm_90")
    Path("outer").write_text("@inner --depfile=k.d")
    assert cli.run([str(VECTOR_ADD), "@outer", "@inner", "-o", "k.ptx", "--emit=ptx"]) == 0
    assert Path("k.d").read_text() == f"k.ptx: \\\n  {VECTOR_ADD} \\\n  outer \\\n  inner\n"
    assert cli.run([str(VECTOR_ADD), "--gpu-name=sm_90", "--depfile=k.d", "-o", "k"]) == 0
    assert Path("k.d").read_text() == f"k: \\\n  {VECTOR_ADD}\n"


def test_depfile_is_written_where_the_output_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a compilation that takes the output of an earlier one from the cache."""
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", "cache")
    arguments = [str(VECTOR_ADD), "--gpu-name=sm_90", "--depfile=k.d", "-o", "k"]
    assert cli.run(arguments) == 0
    Path("k.d").unlink()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(driver, "compile_module", never)
    assert cli.run(arguments) == 0
    assert Path("k.d").read_text() == f"k: \\\n  {VECTOR_ADD}\n"


def test_make_reads_the_rule() -> None:
    """With a space in the input's name: the output is out of date when the input is newer."""
    shutil.copy(VECTOR_ADD, "a b.mlir")
    assert cli.run(["a b.mlir", "--gpu-name=sm_90", "--depfile=k.d", "-o", "k.cubin"]) == 0
    Path("Makefile").write_text("all: k.cubin\ninclude k.d\nk.cubin:\n\t@echo made again\n")
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    make = ["make", "-s"]
    assert subprocess.run(make, capture_output=True, text=True).stdout == ""
    later = time.time() + 10
    os.utime("a b.mlir", (later, later))
    assert subprocess.run(make, capture_output=True, text=True).stdout == "made again\n"


def test_depfile_is_written_on_success_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.mlir").write_text(VECTOR_ADD.read_text().replace("addf", "adff"))
    assert cli.run(["broken.mlir", "--gpu-name=sm_90", "--depfile=k.d", "-o", "k"]) == 3
    assert cli.run([str(VECTOR_ADD), "--emit=cuda_tile", "--depfile=k.d"]) == 1
    assert "--depfile needs a named output, expected --output-file" in capsys.readouterr().err
    assert not Path("k.d").exists() and not Path("k").exists()


def cmake(*arguments: str, code: int = 0) -> str:
    """The output of cmake, which must end with this code."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    done = subprocess.run(["cmake", *arguments], capture_output=True, text=True)
    assert (done.returncode != 0) == bool(code), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def compiler(scratch: Path) -> Path:
    """A command `tileiras` that is this checkout's."""
    script = scratch / "bin" / "tileiras"
    script.parent.mkdir()
    main = "from tileiras.cli import main; main()"
    script.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -c '{main}' \"$@\"\n"
    )
    script.chmod(0o755)
    return script


def test_cmake_project_builds_the_cubin(compiler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once; again when the source has changed; and says what is wrong with it."""
    assert cli.run(["--cmake-dir"]) == 0
    folder = capsys.readouterr().out.strip()
    shutil.copytree(PROJECT, "project")
    variables = (f"-Dtileiras_DIR={folder}", f"-DTILEIRAS_EXECUTABLE={compiler}")
    cmake("-S", "project", "-B", "build", *variables)
    assert "Compiling Tile IR vector_add.mlir for sm_90" in cmake("--build", "build")
    cubin = Path("build/vector_add.cubin")
    assert cli.run(["project/vector_add.mlir", "--gpu-name=sm_90", "-o", "expected"]) == 0
    assert cubin.read_bytes() == Path("expected").read_bytes()
    launch = json.loads(Path("build/vector_add.cubin.json").read_text())
    assert launch["kernels"][0]["name"] == "vector_add"
    assert "Compiling" not in cmake("--build", "build")
    source = Path("project/vector_add.mlir")
    source.write_text(source.read_text().replace("addf", "adff"))
    later = time.time() + 10
    os.utime(source, (later, later))
    assert "unknown operation 'adff'" in cmake("--build", "build", code=1)


def test_cmake_says_that_the_compiler_is_missing() -> None:
    folder = ROOT / "tileiras" / "cmake"
    missing = "-DTILEIRAS_EXECUTABLE=TILEIRAS_EXECUTABLE-NOTFOUND"
    make = f"-DCMAKE_MAKE_PROGRAM={shutil.which('make') or shutil.which('ninja')}"
    off = (
        make,
        "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF",
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
    )
    arguments = ("-S", str(PROJECT), "-B", "build", f"-Dtileiras_DIR={folder}", missing, *off)
    assert "set TILEIRAS_EXECUTABLE" in cmake(*arguments, code=1)


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_project_with_a_program_runs(
    generator: str, compiler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two GPUs, a launcher made from one of them, and a program against a driver in C."""
    if shutil.which("ninja" if generator == "Ninja" else "make") is None:
        pytest.skip(f"there is nothing for {generator} here")
    c_compiler = shutil.which("cc") or shutil.which("gcc")
    if c_compiler is None:
        pytest.skip("no C compiler is installed")
    assert cli.run(["--cmake-dir"]) == 0
    folder = capsys.readouterr().out.strip()
    for path in (PROGRAM, ROOT / "integrations" / "c" / "main.c", VECTOR_ADD):
        shutil.copy(path, ".")
    Path("cuda").mkdir()
    Path("cuda/cuda.h").write_text(DRIVER_HEADER)
    Path("cuda/driver.c").write_text(DRIVER)
    library = ["-shared", "-fPIC", "-DBLOCK=1", "cuda/driver.c", "-o", "cuda/libcuda.so"]
    subprocess.run([c_compiler, "-Icuda", *library], check=True)
    python = compiler.parent / "python3"
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    variables = (f"-Dtileiras_DIR={folder}", f"-DTILEIRAS_EXECUTABLE={compiler}")
    cuda = Path("cuda").resolve()
    places = (f"-DPYTHON={python}", f"-DCUDA_INCLUDE={cuda}", f"-DCUDA_DRIVER={cuda}/libcuda.so")
    cmake("-G", generator, "-B", "build", *variables, *places)
    said = cmake("--build", "build")
    assert said.count("Compiling Tile IR vector_add.mlir for sm_") == 2
    done = subprocess.run(["build/sums", "build/vector_add_sm_90.cubin"], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"1500 sums are right\n")
    said = cmake("--build", "build")
    assert "Compiling" not in said and "Writing" not in said
    later = time.time() + 10
    os.utime("vector_add.mlir", (later, later))
    assert "Writing vector_add.h" in cmake("--build", "build")
