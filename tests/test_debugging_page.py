"""docs/debugging.md: commands that need no GPU run here, the others are those of the GPU test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.kernels.debugged_kernel import FOLDER, write_kernel
from tileiras import cli

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "debugging.md").read_text()
COMMANDS = re.findall(r"^    (tileiras .*)$", PAGE, re.MULTILINE)
IN_DEBUGGER = re.findall(r"^    \(cuda-gdb\) (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_compiler_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path)
    assert cli.run(shlex.split(command)[1:]) == 0
    assert b"scale_rows.py" in (tmp_path / "k.cubin").read_bytes()


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 2 and len(IN_DEBUGGER) == 14


@pytest.mark.parametrize("command", IN_DEBUGGER)
def test_commands_of_the_debugger_are_run_on_a_gpu(command: str) -> None:
    assert command in (FOLDER / "commands.gdb").read_text().splitlines()
