"""`@FILE` on a command line: the arguments in the file, as LLVM's tools read them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras import cli
from tileiras.errors import UsageError
from tileiras.response_files import expand, split

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", []),
        (" \t\r\n\v\f ", []),
        ("-o x\n--gpu-name=sm_90\n", ["-o", "x", "--gpu-name=sm_90"]),
        ("-o 'a b'", ["-o", "a b"]),
        ('ab"c d"e', ["abc de"]),
        ('"it\'s" \'a "b"\'', ["it's", 'a "b"']),
        (r"a\ b \"c", ["a b", '"c']),
        (r"'q\z \' w'", ["qz ' w"]),
        ("a\\\nb", ["a\nb"]),
        ("x\\", ["x\\"]),
        ("'not closed -o x\n", ["not closed -o x\n"]),
        ("'' \"\"", ["", ""]),
        ("a # b", ["a", "#", "b"]),
        ("no\u00a0break", ["no\u00a0break"]),
    ],
)
def test_arguments_in_a_text(text: str, arguments: list[str]) -> None:
    assert split(text) == arguments


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_what_is_escaped_comes_back(arguments: list[str]) -> None:
    escaped = ("".join(f"\\{character}" for character in word) or "''" for word in arguments)
    assert split(" ".join(escaped)) == arguments


def test_a_files_arguments_stand_in_its_place() -> None:
    Path("options").write_text("-b 'c d'")
    assert expand(["-a", "@options", "-e"]) == ["-a", "-b", "c d", "-e"]


def test_files_name_files() -> None:
    Path("outer").write_text("1 @inner 4")
    Path("inner").write_text("2 3")
    assert expand(["@outer", "@inner"]) == ["1", "2", "3", "4", "2", "3"]


def test_what_is_no_file_stands_for_itself() -> None:
    assert expand(["@missing", "@", "a@b"]) == ["@missing", "@", "a@b"]


def test_byte_order_marks_are_no_arguments() -> None:
    Path("utf8").write_bytes(b"\xef\xbb\xbf-o x")
    Path("utf16").write_bytes("-o \u00e4".encode("utf-16"))
    assert expand(["@utf8", "@utf16"]) == ["-o", "x", "-o", "\u00e4"]


def test_names_of_any_bytes_are_kept() -> None:
    Path("options").write_bytes(b"-o \xff.cubin")
    assert [os.fsencode(word) for word in expand(["@options"])] == [b"-o", b"\xff.cubin"]


@pytest.mark.parametrize("names", [["one"], ["one", "two", "three"]])
def test_a_file_that_names_itself_is_a_mistake(names: list[str]) -> None:
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        Path(name).write_text(f"@{following}")
    with pytest.raises(UsageError, match="response file 'one' names itself"):
        expand(["@one"])


def test_a_link_to_itself_is_found_under_its_other_name() -> None:
    Path("real").write_text("@link")
    Path("link").symlink_to("real")
    with pytest.raises(UsageError, match="response file 'link' names itself"):
        expand(["@real"])


def test_a_folder_is_told_with_the_reason(scratch: Path) -> None:
    (scratch / "folder").mkdir()
    with pytest.raises(UsageError, match="unable to read response file 'folder': Is a directory"):
        expand(["@folder"])


def test_broken_utf16_is_told_with_the_reason() -> None:
    Path("odd").write_bytes(b"\xff\xfea")
    with pytest.raises(UsageError, match="unable to read response file 'odd': truncated data"):
        expand(["@odd"])


def test_a_binary_file_is_told() -> None:
    Path("binary").write_bytes(b"\x7fELF\x00")
    with pytest.raises(UsageError, match="unable to read response file 'binary': a null byte"):
        expand(["@binary"])


def test_compiler_takes_its_whole_command_line_from_a_file() -> None:
    Path("options").write_text(f"'{VECTOR_ADD}' --emit=cuda_tile -o 'with space.mlir'")
    assert cli.run(["@options"]) == 0
    assert "entry @vector_add" in Path("with space.mlir").read_text()


@pytest.mark.parametrize(("word", "loaded"), [("--help", "False"), ("@options", "True")])
def test_nothing_is_imported_where_no_file_is_named(word: str, loaded: str) -> None:
    Path("options").write_text("--list-versions")
    script = (
        "import sys; from tileiras import cli; cli.run(sys.argv[1:]);"
        "print('tileiras.response_files' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, word],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert done.stdout.splitlines()[-1] == loaded


@pytest.mark.parametrize("program", [cli.run, cli.run_disassembler, cli.run_assembler])
def test_every_program_reports_a_mistake(program, capsys) -> None:
    Path("options").write_text("@options")
    assert program(["@options"]) == 1
    assert capsys.readouterr().err == "error: response file 'options' names itself\n"


def test_verbose_in_a_file_shows_tracebacks_too(monkeypatch, capsys) -> None:
    def read(*arguments: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("tileiras.driver.read_source", read)
    Path("options").write_text("-v --gpu-name=sm_90")
    assert cli.run([str(VECTOR_ADD), "@options"]) == 5
    assert "Traceback" in capsys.readouterr().err
