"""NVIDIA's compiler and disassembler, found through $VENDOR_TILEIRAS."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import find_vendor_tileiras

TARGET = "sm_107"
"""The one target that has every element type."""


def run_vendor(tool: str, data: bytes, folder: Path, *options: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a tool on a bytecode file."""
    compiler = find_vendor_tileiras()
    if compiler is None:
        pytest.skip("VENDOR_TILEIRAS is not set")
    path = folder / "input.tileirbc"
    path.write_bytes(data)
    command = [str(Path(compiler).with_name(tool)), *options, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    return result.returncode, result.stdout, result.stderr


def vendor_accepts(data: bytes, folder: Path) -> bool:
    """Whether a program verifies; that it cannot be compiled for the target (5) does not matter."""
    options = ("--gpu-name", TARGET, "-O0", "-o", str(folder / "out.cubin"))
    status, _, errors = run_vendor("tileiras", data, folder, *options)
    assert status in (0, 3, 5), errors
    return status != 3


def vendor_text(data: bytes, folder: Path, debug_info: bool = False) -> str:
    """What the disassembler prints."""
    options = ("-g",) if debug_info else ()
    status, text, errors = run_vendor("tileirdisasm", data, folder, *options)
    assert status == 0, errors
    return text
