"""A compilation that takes long says so on a terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.robustness.processes import (
    COMPILE,
    WITHOUT_PACKAGES,
    environment,
    fake_ptxas,
    path_with,
)

SLOW = "sleep 4; exit 1"


def said_by(tmp_path: Path, script: str, on_terminal: bool) -> str:
    """What a compilation with such a ptxas writes to standard error."""
    variables = environment(PATH=path_with(fake_ptxas(tmp_path / "bin", script)))
    command = [*WITHOUT_PACKAGES, *COMPILE, "-o", str(tmp_path / "k.cubin")]
    if not on_terminal:
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, env=variables).stderr
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stderr=theirs, env=variables)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:  # nobody holds the other end any more
        pass
    process.wait()
    os.close(ours)
    return said.decode()


def test_terminal_is_told_what_takes_long(tmp_path: Path) -> None:
    lines = said_by(tmp_path, SLOW, on_terminal=True).splitlines()
    told = [line for line in lines if line.startswith("tileiras: ")]
    times = [f"tileiras: {seconds} s, at '" for seconds in (3, 6, 12, 24)]
    assert told and all(line.startswith(time) for line, time in zip(told, times))


def test_quick_compilation_says_nothing_on_a_terminal(tmp_path: Path) -> None:
    assert "tileiras: " not in said_by(tmp_path, "exit 1", on_terminal=True)


def test_pipe_is_told_nothing(tmp_path: Path) -> None:
    assert "tileiras: " not in said_by(tmp_path, SLOW, on_terminal=False)
