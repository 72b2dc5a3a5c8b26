"""Same input, same options, same bytes out, whatever differs around the compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.random_programs import make_program
from tests.sweeps.determinism_sweep import Results, compare, run
from tileiras.bytecode.writer import write_module

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SEEDS = range(0, 40, 8)


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """The examples, random programs, and corpus files where there is a corpus."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    for example in sorted((ROOT / "examples").glob("*.mlir")):
        shutil.copy(example, folder)
    for seed in SEEDS:
        program = make_program(seed)
        (folder / f"random{seed}.tileirbc").write_bytes(write_module(program.kernel.module))
    for path in sorted(CORPUS.glob("*.tileirbc"))[::130]:
        shutil.copy(path, folder)
    return sorted(folder.iterdir())


def test_runs_differing_in_hashes_places_and_order_give_the_same_bytes(inputs: list[Path]):
    first, second = run(inputs, 1, ["sm_90"]), run(inputs[::-1], 2, ["sm_90"])
    assert first.died == second.died == []
    assert len(first.digests) == len(inputs)
    assert compare(first, second) == []
    assert all(len(found) == 2 for name, found in first.digests.items() if "random" in name)


def test_program_from_a_seed_does_not_depend_on_hashes():
    program = f"import sys; sys.path[:0] = {[str(ROOT)]}\n"
    program += "from tests.kernels.random_programs import make_program\n"
    program += "print(make_program(3).kernel.module)"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_different_digests_are_reported():
    first, second = Results({"a": ["1", "2"], "b": ["3"]}, []), Results({"a": ["1", "4"]}, [])
    assert compare(first, second) == ["a: ['1', '2'] and ['1', '4']", "b: ['3'] and None"]
