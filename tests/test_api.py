"""`tileiras.compile`: the command's bytes, side by side in threads, imported when it is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tileiras
from tileiras import cli
from tileiras.errors import BytecodeError, TargetError, UsageError
from tileiras.options import STAGES

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
EXAMPLES = [ROOT / "examples" / name for name in ("vector_add.mlir", "experts.mlir")]


@pytest.fixture(scope="module")
def compiled() -> tileiras.CompiledKernel:
    """The vector-add example."""
    return tileiras.compile(VECTOR_ADD, "sm_90", remarks="all")


def by_command(path: Path, place: Path, *options: str) -> bytes:
    """What the command makes of a file."""
    assert cli.run([str(path), "--gpu-name=sm_90", "-o", str(place), *options]) == 0
    return place.read_bytes()


def test_eight_threads_make_the_bytes_of_the_command(tmp_path: Path) -> None:
    """Two programs at two levels, twice each, all at once."""
    jobs = [(path, level) for path in EXAMPLES for level in (3, 0)] * 2
    with ThreadPoolExecutor(len(jobs)) as pool:
        made = list(
            pool.map(lambda job: tileiras.compile(job[0], "sm_90", opt_level=job[1]).cubin, jobs)
        )
    for (path, level), cubin in zip(jobs[:4], made[:4], strict=True):
        assert cubin == by_command(path, tmp_path / "k", f"-O{level}")
    assert made[:4] == made[4:]
    assert len(set(made)) == 4


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_every_stage_is_what_the_command_prints(
    compiled: tileiras.CompiledKernel, stage: str, tmp_path: Path
) -> None:
    assert list(compiled.stages) == list(STAGES[:-1])
    expected = by_command(VECTOR_ADD, tmp_path / "k", f"--emit={stage}").decode()
    assert compiled.stages[stage] == expected


def test_stages_begin_with_that_of_the_source(compiled: tileiras.CompiledKernel) -> None:
    later = tileiras.compile(compiled.stages["nv_tileas"], "sm_90")
    assert list(later.stages) == ["nv_tileas", "llvm-dialect", "llvm", "ptx"]
    with pytest.raises(KeyError):
        later.stages["cuda_tile"]
    with pytest.raises(KeyError):
        later.stages["no such stage"]


def test_kernel_says_what_it_needs(compiled: tileiras.CompiledKernel) -> None:
    assert compiled.name == "vector_add" and compiled.target == "sm_90"
    assert compiled.ptx == compiled.stages["ptx"] and compiled.llvm_ir == compiled.stages["llvm"]
    assert [p.type for p in compiled.kernels[0].parameters] == ["ptr<f32>"] * 3 + ["i32"]
    used = compiled.resources["vector_add"]
    assert used.registers == compiled.kernels[0].registers and used.registers > 0
    assert compiled.notes[0].startswith("vector_add: ")


def test_remarks_are_those_asked_for() -> None:
    """None if nobody asks."""
    source = ROOT / "examples" / "matmul.mlir"
    assert tileiras.compile(source, "sm_90").remarks == ()
    found = tileiras.compile(source, "sm_90", remarks="tensorcore").remarks
    assert found and {remark.category.value for remark in found} == {"tensorcore"}


def test_source_may_be_text_bytes_or_a_path(compiled: tileiras.CompiledKernel) -> None:
    text = VECTOR_ADD.read_text()
    assert tileiras.compile(text, "sm_90").cubin == compiled.cubin
    assert tileiras.compile(text.encode(), "sm_90").cubin == compiled.cubin


def test_mistakes_are_errors_with_the_place() -> None:
    with pytest.raises(BytecodeError) as caught:
        tileiras.compile(VECTOR_ADD.read_text().replace("addf", "adff"), "sm_90", filename="k.mlir")
    assert caught.value.render().startswith('loc("k.mlir":26:12): error: unknown operation')
    with pytest.raises(TargetError, match="unknown target 'sm_1', expected one of sm_80"):
        tileiras.compile(VECTOR_ADD, "sm_1")
    with pytest.raises(TargetError, match="invalid optimization level: 7"):
        tileiras.compile(VECTOR_ADD, "sm_90", opt_level=7)
    with pytest.raises(UsageError, match="remarks is 'some', expected one of none, all"):
        tileiras.compile(VECTOR_ADD, "sm_90", remarks="some")
    with pytest.raises(UsageError, match="launch is 'x', expected one of tile"):
        tileiras.compile(VECTOR_ADD, "sm_90", launch="x")
    with pytest.raises(UsageError, match="unable to read input file 'none.mlir'"):
        tileiras.compile(Path("none.mlir"), "sm_90")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tileiras.nonsense  # noqa: B018


def test_importing_the_package_imports_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import tileiras; "
        "print(sorted(m for m in set(sys.modules) - before if '.' in m or m[:1] != '_'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    heavy = ("xdsl", "numpy", "tileiras.", "cuda", "typing", "importlib.")
    assert "tileiras" in done.stdout and not any(name in done.stdout for name in heavy), done.stdout


def test_blocks_of_the_page_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of docs/python-api.md that need no GPU, in order, in one namespace."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "python-api.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102 - our own page
    out = capsys.readouterr().out
    assert "unknown operation 'retrun'" in out
    assert out.endswith("(1, 0, 0) addf [(1024,), (1024,)]\n")
