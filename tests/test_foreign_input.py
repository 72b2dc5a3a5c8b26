"""Inputs that are neither bytecode nor text of a stage; binary ones: test_cli.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.cli import run, run_disassembler


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b"hello", "1:1", "found 'hello'"),
        (b"// why\n\n  ((", "3:3", "found '('"),
        (b"\xef\xbb\xbfhello", "1:1", "found 'hello'"),
        (b"\n // nothing\n", "3:1", "found the end of the text"),
        ("é".encode() * 40_000, "1:1", "found 'é"),
    ],
)
def test_foreign_text(
    content: bytes, place: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is told as text, with its place, before options are judged."""
    Path("bad.mlir").write_bytes(content)
    assert run(["bad.mlir", "-O9"]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f'loc("bad.mlir":{place}): error: {found}')
    assert "expected Tile IR: a module, an entry or a global\n" in shown
    assert shown.endswith("error: input is not valid Tile IR text: 1 mistake\n")


@pytest.mark.parametrize(
    ("content", "place", "language"),
    [
        ("//\n.version 9.0\n.target sm_90\n.visible .entry k() {\n}\n", "2:1", "PTX"),
        ('; module\ntarget triple = "nvptx64"\ndefine void @k() {\n}\n', "2:1", "LLVM IR"),
    ],
)
def test_later_forms_are_told_by_name(
    content: str, place: str, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What --emit=ptx and --emit=llvm write is not taken for Tile IR full of mistakes."""
    Path("late.mlir").write_text(content)
    assert run(["late.mlir", "--gpu-name=sm_90"]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f'loc("late.mlir":{place}): error: found {language}, expected Tile IR')
    assert shown.endswith("error: input is not valid Tile IR text: 1 mistake\n")


def test_tile_ir_that_mentions_ptx_keeps_its_own_mistakes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A comment is no program."""
    Path("k.mlir").write_text("entry @k() {\n  // .version 9.0\n  adff\n}\n")
    assert run(["k.mlir", "--gpu-name=sm_90"]) == 3
    assert "unknown operation 'adff'" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"// caf\xe9\nentry @f() {}", b"caf\xe9"])
def test_text_in_another_encoding(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Names the first byte that is wrong."""
    Path("bad.mlir").write_bytes(content)
    assert run(["bad.mlir", "-O9"]) == 3
    place = f"1:{content.index(0xE9) + 1}"
    shown = capsys.readouterr().err
    said = "byte 0xe9 is no part of UTF-8, the encoding of text"
    assert shown.startswith(f'loc("bad.mlir":{place}): error: {said}\n')
    assert shown.endswith("error: input is not valid Tile IR text: 1 mistake\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"entry @f() {}", "error: input is text, expected bytecode; tileirasm writes"),
        (b"hello", "loc(\"k\":1:1): error: found 'hello', expected Tile IR"),
        (b"\x7fELF\0", "error: input does not correspond to Tile IR bytecode\n"),
    ],
)
def test_input_of_the_disassembler(
    content: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text is told to be text; what is neither as by the compiler."""
    Path("k").write_bytes(content)
    assert run_disassembler(["k"]) == 3
    assert capsys.readouterr().err.startswith(said)
