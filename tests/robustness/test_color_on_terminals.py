"""A terminal gets colours, a pipe does not, and no compilation pays for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.processes import COMPILE, TILEIRAS, environment, run


def said_on_terminal(command: list[str], **variables: str) -> str:
    """What a process writes to standard error that is a terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stderr=theirs, env=environment(**variables))
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


@pytest.mark.parametrize(
    ("variables", "option", "coloured"),
    [
        ({"TERM": "xterm"}, "--color=auto", True),
        ({"TERM": "xterm"}, "--color=never", False),
        ({"TERM": "dumb"}, "--color=auto", False),
        ({"TERM": "dumb"}, "--color=always", True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "--color=auto", False),
    ],
)
def test_terminal(variables: dict[str, str], option: str, coloured: bool) -> None:
    command = [*TILEIRAS, "no-such-file", "--gpu-name=sm_90", option]
    said = said_on_terminal(command, **{"NO_COLOR": "", **variables})
    assert ("\x1b[" in said) == coloured
    assert "unable to read input file 'no-such-file'" in said


def test_pipe_gets_plain_text() -> None:
    done = run("no-such-file", "--gpu-name=sm_90", env=environment(TERM="xterm", NO_COLOR=""))
    assert done.stderr.startswith("error: unable to read") and "\x1b" not in done.stderr


@pytest.mark.parametrize("option", ["--verify-each", "--color=always"])
def test_nothing_is_imported_for_a_compilation_that_says_nothing(
    option: str, tmp_path: Path
) -> None:
    script = (
        "import os, sys; from tileiras import cli\n"
        "code = cli.run(sys.argv[1:])\n"
        "print(code, 'tileiras.colors' in sys.modules)"
    )
    output = str(tmp_path / "k.cubin")
    done = run(*COMPILE, option, "-o", output, program=[sys.executable, "-c", script])
    assert done.stdout == "0 False\n"
