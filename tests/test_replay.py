"""`make replay`: what differs between two versions of the sources is named, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from replay import differences  # noqa: E402


def sources(folder: Path, body: str) -> Path:
    """A package `tileiras` whose command is `body`, with the input file's name in `name`."""
    package = folder / "tileiras"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    lines = ["import sys", "def main():", "    name = sys.argv[1].rsplit('/')[-1]", f"    {body}"]
    (package / "cli.py").write_text("\n".join(lines) + "\n")
    return folder


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "print('ptx of', name)")
    after = sources(tmp_path / "after", "print('ptx of', name.replace('b', 'c'))")
    paths = [tmp_path / "a.bc", tmp_path / "x.tileirbc"]
    (only,) = differences(paths[:1], before, after, "sm_90", 1)
    assert only.startswith("a.bc: PTX ")
    assert differences(paths, before, before, "sm_90", 2) == []


def test_new_failure_is_a_difference(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "print('ptx')")
    after = sources(tmp_path / "after", "sys.exit('error: no')")
    (line,) = differences([tmp_path / "a.bc"], before, after, "sm_90", 1)
    assert line.endswith("-> exit code 1")
    assert differences([tmp_path / "a.bc"], after, after, "sm_90", 1) == []
