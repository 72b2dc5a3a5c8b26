"""The command `tileiras-run`, and the compiler's own examples through it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.command import run
from tileiras.options import CompileOptions

from .small_kernels import kernel

EXAMPLES = Path(__file__).parents[3] / "examples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


def ptx_of(name: str, target: str) -> str:
    """The PTX of an example."""
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    return compile_module(source, CompileOptions(gpu_name=target, emit="ptx")).output.decode()


@pytest.mark.parametrize("target", TARGETS)
def test_examples_compute_what_they_say(target: str) -> None:
    """The matrix product with ragged sizes, without a race or an unfinished read."""
    rng = np.random.default_rng(2)
    m, n, k = 88, 104, 72
    a, b = ((rng.integers(-6, 7, shape) / 4).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    run_ptx(ptx_of("matmul", target), [a, b, c, m, n, k], (2, 2, 1))
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


DOUBLE = kernel(
    "mad.lo.u64 %d1, %w, 4, %p0; mad.lo.u64 %d2, %w, 4, %p1;\n"
    "ld.global.f32 %f1, [%d2]; add.f32 %f1, %f1, %f1; st.global.f32 [%d1], %f1;",
    2,
)


def test_command_reads_and_saves_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrays come from files and go to files."""
    np.save(tmp_path / "in.npy", np.arange(32, dtype=np.float32))
    (tmp_path / "k.ptx").write_text(DOUBLE)
    arguments = [str(tmp_path / "k.ptx"), "--block", "32", "--arg"]
    arguments += [f"zeros:f32:32={tmp_path / 'out.npy'}", "--arg", str(tmp_path / "in.npy")]
    assert run(arguments) == 0
    assert np.load(tmp_path / "out.npy").tolist() == [2.0 * i for i in range(32)]
    assert capsys.readouterr().out.endswith("instructions\n")


WRONG = {
    ("nosuch.ptx",): "unable to read input file 'nosuch.ptx': No such file",
    ("k.ptx", "--arg", "nosuch.npy"): "cannot be read",
    ("k.ptx", "--arg", "zeros:x9:3"): "expected zeros:TYPE:128x64",
    ("k.ptx", "--arg", "what"): "is no number, no .npy file",
    ("k.ptx", "--arg", "1", "--arg", "2"): "does not say .reqntid: give a block",
    ("k.ptx", "--kernel", "other"): "no kernel 'other'; the file has: k",
    ("k.ptx", "--block", "2048", "--arg", "1"): "expected 1 to 1024 threads",
    ("k.ptx", "--block", "32", "--arg", "1"): "found 1 arguments",
    ("k.ptx", "--block", "32", "--arg", "4", "--arg", "8"): "is in no allocation",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_command_says_what_is_wrong(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1 and a message, never a traceback."""
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(DOUBLE)
    assert run(arguments) == 1
    assert WRONG[arguments] in capsys.readouterr().err


def test_messages_have_colors_where_they_are_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--color` says; a pipe has plain ones."""
    assert run(["no-such-file"]) == 1
    assert "\x1b" not in capsys.readouterr().err
    argv = ["no-such-file", "--color", "always"]
    monkeypatch.setattr("tileiras.diagnostic_output._Current.arguments", argv)
    assert run(argv) == 1
    assert capsys.readouterr().err.startswith("\x1b[1;31merror")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bogus", "k.ptx"], "error: unrecognized arguments: --bogus\nnote: try 'tileiras-run"),
        ([], "error: the following arguments are required: file"),
    ],
)
def test_mistakes_on_the_command_line_read_as_those_of_other_commands(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and a message, no usage of argparse's."""
    assert run(arguments) == 1
    assert capsys.readouterr().err.startswith(said)


def test_bytes_are_no_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cubin given for its PTX."""
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF\xff")
    assert run([str(tmp_path / "k.cubin")]) == 1
    assert "is not text, expected PTX" in capsys.readouterr().err
