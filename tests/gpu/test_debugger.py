"""cuda-gdb stops at a line of a kernel's Python source and prints its variables."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tileiras
from tests.kernels.debugged_kernel import FOLDER, write_kernel

pytestmark = pytest.mark.gpu

SECONDS = 120
"""Policy: a debugger that waits for longer waits forever."""


def program(name: str) -> str:
    """A program of the CUDA toolkit; skips where it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What cuda-gdb says to the commands in `commands.gdb`."""
    debugger, compiler = program("cuda-gdb"), program("nvcc")
    folder: Path = tmp_path_factory.mktemp("debugger")
    compiled = tileiras.compile(
        write_kernel(folder), target="sm_90", opt_level=0, device_debug=True
    )
    cubin, host = folder / "k.cubin", folder / "host"
    cubin.write_bytes(compiled.cubin)
    subprocess.run([compiler, FOLDER / "host.c", "-lcuda", "-o", host], check=True)
    command = [debugger, "--batch", "-x", FOLDER / "commands.gdb", "--args", host, cubin, "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout


def test_it_stops_at_a_line_of_the_source(transcript: str) -> None:
    assert "scale_rows.py:10" in transcript
    assert 'Line 10 of "scale_rows.py"' in transcript


def test_it_prints_scalars_and_parameters(transcript: str) -> None:
    assert "n = 3" in transcript and "factor = 1.5" in transcript
    assert "$1 = 0\n" in transcript and "$2 = 3\n" in transcript


def test_it_prints_elements_of_tiles_and_of_arrays(transcript: str) -> None:
    assert "{0, 0}" in transcript and "{3, 3}" in transcript and "{1, 1, 1, 1}" in transcript
    assert "result = {9, 9}" in transcript


def test_the_kernel_computes_what_it_should(transcript: str) -> None:
    assert "result 9\n" in transcript
