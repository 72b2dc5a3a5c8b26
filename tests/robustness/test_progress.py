"""A compilation that takes long says so on a terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.processes import (
    COMPILE,
    WITHOUT_PACKAGES,
    environment,
    fake_ptxas,
    path_with,
)

SLOW = 'test -e "$0.asked" && exit 1; touch "$0.asked"; sleep 4; exit 1'
"""The first call takes long: that is enough, and the others are not waited for."""


@dataclass(frozen=True)
class Compilation:
    """A process under way, and our end of what it has as standard error."""

    process: subprocess.Popen[bytes]
    said: int

    def to_the_end(self) -> str:
        """Waits for it and gives what it has written to standard error."""
        said = b""
        try:
            while piece := os.read(self.said, 4096):
                said += piece
        except OSError:  # nobody holds the other end of a terminal any more
            pass
        self.process.wait()
        os.close(self.said)
        return said.decode()


def started(folder: Path, script: str, on_terminal: bool) -> Compilation:
    """A compilation with such a ptxas."""
    variables = environment(PATH=path_with(fake_ptxas(folder / "bin", script)))
    command = [*WITHOUT_PACKAGES, *COMPILE, "-o", str(folder / "k.cubin")]
    ours, theirs = os.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(command, stderr=theirs, env=variables)
    os.close(theirs)
    return Compilation(process, ours)


def test_terminal_is_told_what_takes_long_and_a_pipe_nothing(tmp_path: Path) -> None:
    """Both at once: most of it is waiting."""
    terminal = started(tmp_path / "terminal", SLOW, on_terminal=True)
    pipe = started(tmp_path / "pipe", SLOW, on_terminal=False)
    lines = terminal.to_the_end().splitlines()
    told = [line for line in lines if line.startswith("tileiras: ")]
    times = [f"tileiras: {seconds} s, at '" for seconds in (3, 6, 12, 24)]
    assert told and all(line.startswith(time) for line, time in zip(told, times))
    assert "tileiras: " not in pipe.to_the_end()


def test_quick_compilation_says_nothing_on_a_terminal(tmp_path: Path) -> None:
    assert "tileiras: " not in started(tmp_path, "exit 1", True).to_the_end()
