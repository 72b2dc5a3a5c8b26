"""`tileirasm` and `--emit=bytecode`: bytecode files from text and from other bytecode."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tileiras import cli
from tileiras.bytecode.format import VERSIONS, version_text
from tileiras.bytecode.sections import read_header

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = [ROOT / "examples" / name for name in ("vector_add.mlir", "matmul.mlir")]
VECTOR_ADD = EXAMPLES[0]
NAMES = [version_text(version) for version in VERSIONS]
NEW_OP = """
entry @wait() {
  %token = make_token : token
  %after = gdc_wait_tko token = %token -> token
}
"""

LOCATED = """
#di_file = #cuda_tile.di_file<"kernel.py" in "/src">
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 5, name = "wait",
    linkageName = "wait", compileUnit = #di_compile_unit, scopeLine = 5>
entry @wait() {
  %token = make_token : token loc(#place)
} loc(#place)
#place = #cuda_tile.di_loc<loc("kernel.py":7:3) in #di_subprogram>
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assemble(*arguments: str | Path) -> int:
    """`tileirasm` in this process."""
    return cli.run_assembler([str(argument) for argument in arguments])


def compile_it(*arguments: str | Path) -> int:
    """`tileiras` in this process."""
    return cli.run([str(argument) for argument in arguments])


def text_of(path: str, *options: str) -> str:
    """What the disassembler makes of a file."""
    assert cli.run_disassembler([path, *options, "-o", "read.mlir"]) == 0
    return Path("read.mlir").read_text()


class TestAssembler:
    """`tileirasm`."""

    @pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
    def test_text_comes_back(self, example: Path) -> None:
        assert assemble(example, "-o", "a.tileirbc") == 0
        first = text_of("a.tileirbc")
        assert assemble("read.mlir", "-o", "b.tileirbc") == 0
        assert text_of("b.tileirbc") == first
        assert Path("b.tileirbc").read_bytes() == Path("a.tileirbc").read_bytes()

    @pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
    def test_compiles_to_what_the_text_compiles_to(self, example: Path, capsys) -> None:
        assert assemble(example, "-o", "a.tileirbc") == 0
        assert compile_it(example, "--gpu-name=sm_90", "--emit=ptx") == 0
        direct = capsys.readouterr().out
        assert compile_it("a.tileirbc", "--gpu-name=sm_90", "--emit=ptx") == 0
        assert capsys.readouterr().out == direct

    @pytest.mark.parametrize("name", NAMES)
    def test_writes_the_version_that_is_asked_for(self, name: str) -> None:
        assert assemble(VECTOR_ADD, f"--bytecode-version={name}", "-o", "a.tileirbc") == 0
        assert version_text(read_header(Path("a.tileirbc").read_bytes())) == name
        assert "entry @vector_add" in text_of("a.tileirbc")

    def test_text_becomes_the_newest_version(self) -> None:
        assert assemble(VECTOR_ADD, "-o", "a.tileirbc") == 0
        assert read_header(Path("a.tileirbc").read_bytes()) == VERSIONS[-1]

    def test_bytecode_keeps_its_version(self) -> None:
        assert assemble(VECTOR_ADD, "--bytecode-version=13.2", "-o", "a.tileirbc") == 0
        assert assemble("a.tileirbc", "-o", "b.tileirbc") == 0
        assert Path("b.tileirbc").read_bytes() == Path("a.tileirbc").read_bytes()

    def test_bytecode_is_taken_to_another_version(self) -> None:
        assert assemble(VECTOR_ADD, "-o", "new.tileirbc") == 0
        assert assemble("new.tileirbc", "--bytecode-version=13.1", "-o", "old.tileirbc") == 0
        assert read_header(Path("old.tileirbc").read_bytes()) == VERSIONS[0]
        assert text_of("old.tileirbc") == text_of("new.tileirbc")

    def test_what_a_version_lacks_is_an_error(self, capsys) -> None:
        Path("new.mlir").write_text(NEW_OP)
        assert assemble("new.mlir", "-o", "a.tileirbc", "--bytecode-version=13.4") == 0
        assert assemble("new.mlir", "-o", "b.tileirbc", "--bytecode-version=13.3") == 3
        shown = capsys.readouterr().err
        assert "gdc_wait_tko" in shown and "13.4" in shown and "13.3" in shown
        assert not Path("b.tileirbc").exists()

    def test_locations_in_the_text_are_written(self) -> None:
        Path("located.mlir").write_text(LOCATED)
        assert assemble("located.mlir", "-o", "a.tileirbc") == 0
        assert 'loc("kernel.py":7:3)' in text_of("a.tileirbc", "-g")

    def test_places_in_the_text_itself_are_not(self) -> None:
        assert assemble(VECTOR_ADD, "-o", "a.tileirbc") == 0
        assert b"vector_add.mlir" not in Path("a.tileirbc").read_bytes()

    def test_text_goes_from_stdin_to_stdout(self) -> None:
        command = [sys.executable, "-c", "from tileiras.cli import asm_main; asm_main()", "-"]
        done = subprocess.run(
            command, input=VECTOR_ADD.read_bytes(), capture_output=True, cwd=ROOT, check=True
        )
        assert read_header(done.stdout) == VERSIONS[-1]

    def test_bytecode_is_not_printed_on_a_terminal(self, monkeypatch, capsys) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert assemble(VECTOR_ADD) == 1
        assert "not printed on a terminal, expected --output-file" in capsys.readouterr().err

    def test_text_of_a_later_stage_is_refused(self, capsys) -> None:
        assert compile_it(VECTOR_ADD, "--emit=nv_tileaa", "-o", "s.mlir") == 0
        assert assemble("s.mlir", "-o", "x") == 5
        shown = capsys.readouterr().err
        assert shown == "error: a module of stage nv_tileaa has no bytecode, expected cuda_tile\n"

    @pytest.mark.parametrize(
        ("arguments", "code", "part"),
        [
            ([], 1, "no input file"),
            (["nope"], 1, "unable to read input file 'nope'"),
            (["bad"], 3, "input does not correspond to Tile IR bytecode"),
            (["wrong.mlir"], 3, 'loc("wrong.mlir":2:'),
            (["--bogus"], 1, "try 'tileirasm --help'"),
            (["bad", "--bytecode-version=12.0"], 1, "'12.0' is not one of '13.1'"),
        ],
    )
    def test_mistakes(self, arguments: list[str], code: int, part: str, capsys) -> None:
        Path("bad").write_bytes(b"\xff\xfe\x00")
        Path("wrong.mlir").write_text("entry @f() {\n  %0 = nosuchop : tile<i32>\n}\n")
        assert assemble(*arguments) == code
        shown = capsys.readouterr().err
        assert part in shown and (shown.startswith(("error: ", "loc(")))

    def test_inert_options_say_so(self, capsys) -> None:
        assert assemble(VECTOR_ADD, "-o", "x", "--preview=simt", "-v") == 0
        assert "note: --preview has no effect" in capsys.readouterr().err

    @pytest.mark.parametrize("option", ["--help", "--version"])
    def test_information(self, option: str, capsys) -> None:
        assert assemble(option) == 0
        assert "tileirasm" in capsys.readouterr().out


class TestEmitBytecode:
    """`tileiras --emit=bytecode`."""

    def test_text_becomes_the_newest_version(self) -> None:
        assert compile_it(VECTOR_ADD, "--emit=bytecode", "-o", "a.tileirbc") == 0
        assert read_header(Path("a.tileirbc").read_bytes()) == VERSIONS[-1]

    def test_bytecode_keeps_its_version(self) -> None:
        assert assemble(VECTOR_ADD, "--bytecode-version=13.2", "-o", "a.tileirbc") == 0
        assert compile_it("a.tileirbc", "--emit=bytecode", "-o", "b.tileirbc") == 0
        assert version_text(read_header(Path("b.tileirbc").read_bytes())) == "13.2"

    @pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
    @pytest.mark.parametrize("level", ["-O0", "-O3"])
    def test_is_what_emit_cuda_tile_prints(self, example: Path, level: str) -> None:
        assert compile_it(example, level, "--emit=bytecode", "-o", "a.tileirbc") == 0
        assert compile_it(example, level, "--emit=cuda_tile", "-o", "printed.mlir") == 0
        assert assemble("printed.mlir", "-o", "b.tileirbc") == 0
        assert Path("b.tileirbc").read_bytes() == Path("a.tileirbc").read_bytes()

    def test_named_passes_run_before(self, capsys) -> None:
        options = ["--pass-pipeline=canonicalize", "--emit=bytecode", "-o", "a.tileirbc"]
        assert compile_it(VECTOR_ADD, *options) == 0
        assert "entry @vector_add" in text_of("a.tileirbc")

    def test_named_passes_that_leave_the_stage_are_refused(self, capsys) -> None:
        options = ["--pass-pipeline=convert-cudatile-to-tileaa", "--gpu-name=sm_90"]
        assert compile_it(VECTOR_ADD, *options, "--emit=bytecode", "-o", "x") == 5
        assert "a module of stage nv_tileaa has no bytecode" in capsys.readouterr().err
        assert not Path("x").exists()

    def test_text_of_a_later_stage_cannot_go_back(self, capsys) -> None:
        assert compile_it(VECTOR_ADD, "--emit=nv_tileaa", "-o", "s.mlir") == 0
        assert compile_it("s.mlir", "--emit=bytecode", "-o", "x") == 5
        expected = "input of stage nv_tileaa cannot be taken back to bytecode"
        assert expected in capsys.readouterr().err

    def test_bytecode_is_not_printed_on_a_terminal(self, monkeypatch, capsys) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert compile_it(VECTOR_ADD, "--emit=bytecode") == 1
        assert "not printed on a terminal" in capsys.readouterr().err
