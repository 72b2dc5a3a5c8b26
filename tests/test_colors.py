"""What is coloured, and when: rustc's manners on a terminal, plain text elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileiras import cli, colors, reduce_command
from tileiras.colors import BLUE, BOLD, CYAN, GREEN, RED, RESET, YELLOW

TEXT = "cuda_tile.module @m {\n  entry @k() {\n    %0 = iotta : tile<8xi32>\n    return\n  }\n}\n"
ESCAPE = re.compile(r"\x1b\[[\d;]*m")
COMPILE = ["k.mlir", "--gpu-name=sm_90"]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a wrong program; no variables that say something of colours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TILEIRAS_FLAGS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Path("k.mlir").write_text(TEXT)


@pytest.mark.parametrize(
    ("choice", "environ", "on_terminal", "wanted"),
    [
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "xterm"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ("always", {"TERM": "dumb", "NO_COLOR": "1"}, False, True),
        ("never", {"TERM": "xterm"}, True, False),
        ("mistaken", {"TERM": "xterm"}, False, False),
    ],
)
def test_when_colors_are_wanted(
    choice: str, environ: dict[str, str], on_terminal: bool, wanted: bool
) -> None:
    assert colors.are_wanted(choice, environ, on_terminal) == wanted


@pytest.mark.parametrize(
    ("argv", "choice"),
    [
        ([], "auto"),
        (["--color=always"], "always"),
        (["-color", "never", "k.mlir"], "never"),
        (["--color=always", "--color=never"], "never"),
        (["color", "always"], "auto"),
        (["--color"], ""),
    ],
)
def test_choice_on_a_command_line(argv: list[str], choice: str) -> None:
    assert colors.choice_in(argv) == choice


def test_error_has_the_colors_of_rustc(capsys: pytest.CaptureFixture[str]) -> None:
    """Level and caret red, message bold, gutter blue; the place stays as it is."""
    assert cli.run([*COMPILE, "--color=always"]) == 3
    assert capsys.readouterr().err.splitlines()[:3] == [
        f"loc(\"k.mlir\":3:10): {RED}error{RESET}{BOLD}: unknown operation 'iotta'{RESET}",
        f"{BLUE}  3 | {RESET}    %0 = iotta : tile<8xi32>",
        f"{BLUE}    | {RESET}{RED}         ^^^^^ did you mean 'iota'?{RESET}",
    ]


def test_notes_and_warnings_have_their_own_colors() -> None:
    """And the carets under them, until the next message."""
    text = 'loc("k":3:5): note: here\n    | ^\nwarning: slow\n    |  ^^ why'
    assert colors.painted(text).splitlines() == [
        f'loc("k":3:5): {GREEN}note{RESET}: here',
        f"{BLUE}    | {RESET}{GREEN}^{RESET}",
        f"{YELLOW}warning{RESET}{BOLD}: slow{RESET}",
        f"{BLUE}    | {RESET}{YELLOW} ^^ why{RESET}",
    ]


def test_colors_change_nothing_but_colors(capsys: pytest.CaptureFixture[str]) -> None:
    """Without them the text is that of a pipe."""
    said: list[str] = []
    for when in ("always", "never", "auto"):
        cli.run([*COMPILE, f"--color={when}"])
        said.append(capsys.readouterr().err)
    assert ESCAPE.search(said[0]) and ESCAPE.sub("", said[0]) == said[1] == said[2]


def test_remarks_have_colors(capsys: pytest.CaptureFixture[str]) -> None:
    """The kind's, and plain ones on a pipe."""
    example = str(Path(__file__).parent.parent / "examples" / "matmul.mlir")
    command = [example, "--gpu-name=sm_90", "--remarks=all", "--emit=ptx", "-o", "k.ptx"]
    assert cli.run([*command, "--color=always"]) == 0
    coloured = capsys.readouterr().err
    assert cli.run(command) == 0
    plain = capsys.readouterr().err
    assert ESCAPE.sub("", coloured) == plain
    assert re.search(r"\x1b\[1;3\dmremark\[\w+\]\x1b\[0m\x1b\[1m: ", coloured)
    assert f"{BLUE}       = {RESET}name: " in coloured


def test_help_has_colors(capsys: pytest.CaptureFixture[str]) -> None:
    """Of every command that has a table of options; plain on a pipe."""
    for command in (cli.run, cli.run_disassembler, cli.run_assembler, reduce_command.run):
        assert command(["--help", "--color=always"]) == 0
        coloured = capsys.readouterr().out
        assert command(["--help"]) == 0
        plain = capsys.readouterr().out
        assert ESCAPE.sub("", coloured) == plain
        assert f"{GREEN}Usage:{RESET}" in coloured
        assert f"{CYAN}--color{RESET} WHEN" in coloured and "--color WHEN" in plain


def test_wrong_command_line_has_colors_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the table cannot be read to its end, and from the variable with options."""
    assert cli.run(["--color", "always", "--no-such-option"]) == 1
    assert capsys.readouterr().err.startswith(f"{RED}error{RESET}{BOLD}: no such option")


def test_variable_with_options_sets_colors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the command line and wins."""
    monkeypatch.setenv("TILEIRAS_FLAGS", "--color=always")
    assert cli.run([*COMPILE, "--color=never"]) == 3
    assert RED in capsys.readouterr().err


def test_unknown_choice_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Without colours."""
    assert cli.run([*COMPILE, "--color=alwys"]) == 1
    shown = capsys.readouterr().err
    assert "'alwys' is not one of 'auto', 'always', 'never'" in shown
    assert "note: did you mean 'always'?" in shown
