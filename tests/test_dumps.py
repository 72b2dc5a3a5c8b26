"""What `--print-*` and `--dump-dir` show."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.kernels.gemm import gemm
from tileiras.cli import run
from tileiras.registry import PASSES

KERNEL = gemm(64, 64, 64)
ADDITION = (Path(__file__).parent.parent / "examples" / "vector_add.mlir").read_bytes()


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a kernel in it."""
    monkeypatch.chdir(tmp_path)
    Path("k.mlir").write_bytes(KERNEL)
    return tmp_path


def compiled(*options: str) -> int:
    """The exit code of a compilation of the kernel for sm_90."""
    return run(["k.mlir", "--gpu-name=sm_90", "-o", "out", *options])


def headers(text: str) -> list[str]:
    """The lines above dumps."""
    return [line for line in text.splitlines() if line.startswith("*** IR")]


def test_changes_are_shown_as_differences(capsys: pytest.CaptureFixture[str]) -> None:
    """Of each pass once; a pass that changes nothing gets a line."""
    assert compiled("--emit=nv_tileas", "--print-changed") == 0
    text = capsys.readouterr().err
    lines = headers(text)
    assert all("Diff After" in line or line.endswith("omitted: no change ***") for line in lines)
    assert any("(check-target) omitted" in line for line in lines)
    assert any("Diff After" in line and "(convert-tileaa-to-tileas)" in line for line in lines)
    assert "--- before" in text
    assert "+++ after" in text
    assert "\n+#mma0 = " in text


def test_nothing_is_shown_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is a folder made."""
    assert compiled("--emit=nv_tileas") == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in Path().iterdir()) == ["k.mlir", "out"]


def test_folder_has_a_file_for_each_pass() -> None:
    """Numbered in their order, from the input to PTX."""
    assert compiled("--emit=ptx", "--dump-dir=dumps") == 0
    names = sorted(path.name for path in Path("dumps").iterdir())
    assert names[0] == "00-input.mlir"
    assert names[1] == "01-check-target.mlir"
    assert names[-2].endswith("-llvm.ll")
    assert names[-1].endswith("-llvm.ptx")
    assert [int(name[:2]) for name in names] == list(range(len(names)))
    assert all(name[3:].removesuffix(".mlir") in {*PASSES, "input"} for name in names[:-2])
    assert Path("dumps", names[-1]).read_bytes() == Path("out").read_bytes()


def test_folder_has_sass_where_nvdisasm_is_installed(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none where it is not, or fails."""
    tools = in_folder / "tools"
    tools.mkdir()
    program = tools / "nvdisasm"
    program.write_text("#!/bin/sh\necho disassembled\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CUDA_HOME", "")
    monkeypatch.setenv("CUDA_PATH", "")
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    monkeypatch.setattr("tileiras.codegen.nvdisasm.find_nvdisasm", lambda knobs: str(program))
    assert compiled("--emit=cubin", "--dump-dir=with") == 0
    assert [p.read_text() for p in Path("with").glob("*.sass")] == ["disassembled\n"]
    assert len(list(Path("with").glob("*.cubin"))) == 1
    program.write_text("#!/bin/sh\nexit 1\n")
    assert compiled("--emit=cubin", "--dump-dir=without") == 0
    assert not list(Path("without").glob("*.sass"))


def test_folder_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """As an output that cannot be written."""
    Path("file").write_text("")
    assert compiled("--emit=nv_tileaa", "--dump-dir=file/below") == 2
    assert "unable to write dump 'file/below/00-input.mlir'" in capsys.readouterr().err


def test_passes_of_llvm_are_left_out_on_demand(capfd: pytest.CaptureFixture[str]) -> None:
    """They are there otherwise: of a small kernel, since they print it some 200 times."""
    Path("k.mlir").write_bytes(ADDITION)
    assert compiled("--emit=ptx", "--print-after-all", "--no-print-llvm") == 0
    ours = capfd.readouterr().err
    assert compiled("--emit=ptx", "--print-after-all") == 0
    whole = capfd.readouterr().err
    assert "(nvptx-lower-args)" not in ours
    assert "(nvptx-lower-args)" in whole
    assert set(headers(ours)) <= set(headers(whole))
    assert compiled("--emit=ptx") == 0


def test_functions_are_picked(capsys: pytest.CaptureFixture[str]) -> None:
    """At every stage; another name picks nothing."""
    assert compiled("--emit=nv_tileas", "--print-after-all", "--print-funcs=nobody") == 0
    assert "entry @" not in (text := capsys.readouterr().err)
    assert "nv_tileaa.func @" not in text
    assert "note: --print-funcs: no function is named 'nobody', the input has 'gemm'" in text
    assert len(headers(text)) > 3


@pytest.mark.parametrize("name", ["gemm", "*", "g*m", "nobody,gemm"])
def test_functions_are_picked_by_patterns(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """At our stages and LLVM's: the client's names are long."""
    asked = ("--print-after=convert-tileaa-to-tileas,sroa", f"--print-funcs={name}")
    assert compiled("--emit=ptx", *asked) == 0
    text = capfd.readouterr().err
    assert "nv_tileaa.func @gemm(" in text
    assert "void @gemm(" in text


def test_generic_form_is_printed_on_demand() -> None:
    """And compiles further as well."""
    assert compiled("--emit=nv_tileas", "--print-generic") == 0
    assert '"nv_tileas.' in Path("out").read_text()
    assert run(["out", "--gpu-name=sm_90", "--emit=ptx", "-o", "a.ptx"]) == 0
    assert compiled("--emit=ptx") == 0
    assert Path("a.ptx").read_bytes() == Path("out").read_bytes()


def test_unknown_pass_in_an_option_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with what was meant."""
    assert compiled("--print-after=canonicalise") == 1
    assert "did you mean 'canonicalize'?" in capsys.readouterr().err
    assert compiled("--pass-pipeline=canonicalize{depth=2}") == 1
    assert "pass 'canonicalize' has no option 'depth'" in capsys.readouterr().err
