"""docs/targets.md: its table is what the targets' evidence says; `-v` says what is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import wrong_generation
from tileiras.codegen.target import TARGET_NAMES
from tileiras.codegen.target.evidence import EVIDENCE, Evidence, evidence_of
from tileiras.driver import compile_module
from tileiras.options import CompileOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "targets.md"
HEAD = "| target | on its own hardware | on other hardware | in the PTX machine | assembled |\n"
TWO_KERNELS = b"""cuda_tile.module @m {
  entry @one() { return }
  entry @two() { return }
}
"""
SAID = "has not run on hardware of its own yet"


def table() -> str:
    """A row for each target."""
    lines = ["|---|---|---|---|---|"]
    for name in TARGET_NAMES:
        found = evidence_of(name)
        cells = [found.hardware, found.elsewhere, found.machine, "yes"]
        lines.append(f"| {name} | {' | '.join(cell or '-' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def test_page_has_the_evidence_for_every_target(pytestconfig: pytest.Config) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(HEAD)
    after = re.sub(r"\A(?:\|.*\n)+", "", rest)
    wanted = f"{before}{HEAD}{table()}{after}"
    if pytestconfig.getoption("--bless"):
        PAGE.write_text(wanted, encoding="utf-8")
    else:
        assert text == wanted
    assert evidence_of("sm_120").note("sm_120") in text


def test_evidence_is_for_targets() -> None:
    assert set(EVIDENCE) <= set(TARGET_NAMES)


def test_notes_say_what_was_done_instead() -> None:
    assert Evidence("an H200", "x", "y").note("sm_90") == ""
    assert Evidence().note("sm_86") == (
        f"sm_86 {SAID}: its code was only assembled (docs/targets.md)"
    )
    assert "ran in the PTX machine only" in Evidence(machine="x").note("sm_100")
    assert "ran on an H200 only" in Evidence(elsewhere="an H200").note("sm_80")


@pytest.mark.parametrize("emit", ["ptx", "cubin"])
@pytest.mark.parametrize(("target", "times"), [("sm_90", 0), ("sm_100", 1), ("sm_86", 1)])
def test_a_compilation_says_once_what_has_not_run(target: str, times: int, emit: str) -> None:
    options = CompileOptions(gpu_name=target, emit=emit)
    notes = compile_module(TWO_KERNELS, options).notes
    assert len([note for note in notes if SAID in note]) == times


@pytest.mark.parametrize(("options", "is_said"), [(["-v"], True), ([], False)])
def test_the_command_says_so_to_who_wants_details(
    options: list[str], is_said: bool, tmp_path: Path
) -> None:
    source, output = tmp_path / "k.mlir", tmp_path / "k.ptx"
    source.write_bytes(TWO_KERNELS)
    command = [sys.executable, "-m", "tileiras", str(source), "--gpu-name", "sm_120"]
    command += ["--emit=ptx", "-o", str(output), *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0
    assert (run.stdout + run.stderr).count(SAID) == int(is_said)


def test_a_gpu_of_another_generation_or_none_is_told() -> None:
    assert wrong_generation("blackwell", None).endswith("no CUDA device")
    assert wrong_generation("blackwell", "sm_90").endswith("this one is sm_90")
    assert wrong_generation("hopper", "sm_90") == ""
    for name in ("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"):
        assert wrong_generation("blackwell", name) == ""


def test_tests_for_a_generation_are_skipped_where_there_is_none() -> None:
    """They neither pass nor vanish; other tests are not taken."""
    folder = "tests/gpu/test_smem_operands.py"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "--only-on=hopper", "--co", folder], capture_output=True, text=True, cwd=ROOT
    )
    collected = run.stdout.count("::test_")
    wanted = "hopper" if not Path("/dev/nvidiactl").exists() else "blackwell"
    command += [f"--only-on={wanted}", folder, "tests/test_targets_page.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if f"needs a GPU of generation {wanted}" not in run.stdout:
        pytest.skip(f"this machine has a GPU of generation {wanted}")
    assert f"{collected} skipped" in run.stdout and "passed" not in run.stdout
