"""`--output-dir` and `-j`: several inputs in one command, each as if it were alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tileiras import batch, cli

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
COMMAND = [sys.executable, "-c", "from tileiras_command import main; main()"]
GPU = "--gpu-name=sm_90"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two programs and a file that is none, where temporary files go as well."""
    for name in ("vector_add.mlir", "matmul.mlir"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "bad.mlir").write_text("junk\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("jobs", [("-j2",), ("-j", "1"), ("--jobs=3",), ()])
def test_outputs_are_those_of_single_compilations(folder: Path, jobs: tuple[str, ...]) -> None:
    done = run(GPU, *jobs, "--output-dir", "out/new", "vector_add.mlir", "matmul.mlir")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("vector_add", "matmul"):
        assert cli.run([GPU, f"{name}.mlir", "-o", "alone.cubin"]) == 0
        assert (folder / f"out/new/{name}.cubin").read_bytes() == Path("alone.cubin").read_bytes()
    assert not list((folder / "tmp").glob("tileiras-*-*"))


def test_others_are_compiled_where_one_fails(folder: Path) -> None:
    done = run(GPU, "-j2", "--output-dir=out", "bad.mlir", "vector_add.mlir", "gone.mlir")
    assert done.returncode == 3
    assert [path.name for path in (folder / "out").iterdir()] == ["vector_add.cubin"]
    lines = done.stderr.splitlines()
    assert lines[0] == "bad.mlir:" and lines[1].startswith('loc("bad.mlir":1:1): error: ')
    assert lines.index("bad.mlir:") < lines.index("gone.mlir:")
    assert "error: 2 of 3 inputs failed: 'bad.mlir', 'gone.mlir'" in lines


def test_messages_stand_below_the_name_of_their_input(folder: Path) -> None:
    done = run(GPU, "-v", "--output-dir=out", "vector_add.mlir", "matmul.mlir")
    first, second = done.stderr.index("vector_add.mlir:\n"), done.stderr.index("matmul.mlir:\n")
    assert done.returncode == 0 and first == 0 and second > 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "matmul.cubin",
        "vector_add.cubin",
    ]


def test_flags_of_the_environment_count_once(folder: Path) -> None:
    done = run("--output-dir=out", "vector_add.mlir", TILEIRAS_FLAGS=f"{GPU} --emit=nv_tileaa")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nv_tileaa" in (folder / "out" / "vector_add.nv_tileaa.mlir").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "x.cubin", "vector_add.mlir"), "--output-file and --output-dir exclude each other"),
        (("--depfile=d", "vector_add.mlir"), "--depfile and --output-dir exclude each other"),
        (("a/k.mlir", "b/k.tileirbc"), "'a/k.mlir' and 'b/k.tileirbc' have the same output"),
        (("-",), "--output-dir names outputs after input files, found '-'"),
        ((), "no input file provided"),
        (("-j0", "vector_add.mlir"), "for the --jobs option: found '0', expected 1 to 1024"),
        (("-jmany", "vector_add.mlir"), "for the --jobs option: found 'many'"),
    ],
)
def test_what_does_not_go_together_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert cli.run([GPU, "--output-dir=out", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_several_inputs_need_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([GPU, "vector_add.mlir", "matmul.mlir"]) == 1
    assert (
        "extra argument (matmul.mlir), expected one input or --output-dir"
        in capsys.readouterr().err
    )


def test_a_folder_that_cannot_be_made_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([GPU, "--output-dir=bad.mlir/out", "vector_add.mlir"]) == 2
    assert "unable to make the folder 'bad.mlir/out'" in capsys.readouterr().err


def test_a_stopped_command_leaves_no_process_and_no_file(folder: Path) -> None:
    """The inputs are pipes that nobody writes: their compilations wait."""
    for name in ("one", "two"):
        os.mkfifo(folder / f"{name}.mlir")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*COMMAND, GPU, "-j2", "--output-dir=out", "one.mlir", "two.mlir"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as waiting:
        children = Path(f"/proc/{waiting.pid}/task")
        found: list[str] = []
        end = time.monotonic() + 60
        while len(found) < 2 and time.monotonic() < end:
            assert waiting.poll() is None
            found = [
                pid for path in children.glob("*/children") for pid in path.read_text().split()
            ]
        waiting.send_signal(signal.SIGTERM)
        _, errors = waiting.communicate(timeout=60)
    assert (waiting.returncode, errors) == (143, b"error: terminated\n")
    assert len(found) == 2 and not any(Path(f"/proc/{pid}").exists() for pid in found)
    assert not list((folder / "tmp").glob("tileiras-*-*"))


def test_names_of_outputs_follow_the_stage() -> None:
    assert batch.outputs_of(["a/k.tileirbc"], "d", "llvm") == {"a/k.tileirbc": "d/k.ll"}
    assert batch.outputs_of(["k"], "d", "nv_tileas") == {"k": "d/k.nv_tileas.mlir"}
