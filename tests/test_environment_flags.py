"""TILEIRAS_FLAGS: options where a client writes the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras import cli

VECTOR_ADD = Path(__file__).resolve().parent.parent / "examples" / "vector_add.mlir"


def compile_with(flags: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """`tileiras` on the example, in this process."""
    monkeypatch.setenv("TILEIRAS_FLAGS", flags)
    return cli.run([str(VECTOR_ADD), *arguments])


def test_flags_win_over_the_command_line(monkeypatch, capsys):
    assert compile_with("--emit=nv_tileaa", monkeypatch, "--emit=cuda_tile") == 0
    assert "nv_tileaa." in capsys.readouterr().out


def test_empty_flags_change_nothing(monkeypatch, capsys):
    assert compile_with("", monkeypatch, "--emit=cuda_tile") == 0
    assert "cuda_tile" in capsys.readouterr().out


def test_lists_are_joined(monkeypatch, capsys):
    arguments = ("--gpu-name=sm_90", "--disable-feature=tma")
    assert compile_with("--disable-feature=warp-drive", monkeypatch, *arguments) == 2
    assert "unknown feature 'warp-drive'" in capsys.readouterr().err


def test_quotes_hold_words_together(monkeypatch, tmp_path):
    target = tmp_path / "with space.mlir"
    assert compile_with(f"--emit=cuda_tile -o '{target}'", monkeypatch) == 0
    assert target.exists()


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ("--bogus", "no such option"),
        ("--emit=assembly", "'assembly' is not one of"),
        ("'--emit", "no closing quotation"),
    ],
)
def test_mistake_is_located_in_the_variable(flags, part, monkeypatch, capsys):
    assert compile_with(flags, monkeypatch, "--emit=cuda_tile") == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("error: in the environment variable TILEIRAS_FLAGS: ")
    assert part in first.lower()


def test_input_file_is_refused(monkeypatch, capsys):
    assert compile_with("other.mlir", monkeypatch, "--emit=cuda_tile") == 1
    assert "takes options only, found the argument 'other.mlir'" in capsys.readouterr().err
