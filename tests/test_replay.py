"""`make replay`: what differs between two versions of the sources is named, and nothing else."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tileiras.driver import read_source, verify_input

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import replay  # noqa: E402
from replay import Comparison, Kept, Outcome, Target, Task, compile_tasks, table_of  # noqa: E402

TARGET = Target("sm_90", ("wgmma",))
OPTIONS = """from types import SimpleNamespace
def CompileOptions(**given):
    return SimpleNamespace(**given)
"""
ERRORS = """class TileirasError(Exception):
    exit_code = 5
    def render(self):
        return str(self)
"""
DRIVER = """import os, signal, time
from types import SimpleNamespace
from tileiras.errors import TileirasError
def compile_module(source, options, filename):
    name, text = filename, source.decode()
    made = BODY
    return SimpleNamespace(output=made.encode())
"""


def sources(folder: Path, body: str) -> Path:
    """A package `tileiras` that makes `body` of a file's `name` and `text` and of `options`."""
    package = folder / "tileiras"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "options.py").write_text(OPTIONS)
    (package / "errors.py").write_text(ERRORS)
    (package / "driver.py").write_text(DRIVER.replace("BODY", body))
    return folder


def tasks(folder: Path, *names: str) -> list[Task]:
    """A task for each of the files, which hold their own names."""
    for name in names:
        (folder / name).write_text(name)
    return [Task("kernels", folder / name, TARGET) for name in names]


def differing(given: list[Task], before: Path, after: Path) -> list[str]:
    """The lines on tasks of which two compilers make something different."""
    pairs = zip(given, compile_tasks(given, before), compile_tasks(given, after))
    found = [Comparison(*each) for each in pairs]
    return [comparison.line for comparison in found if not comparison.is_same]


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "'ptx of ' + text")
    after = sources(tmp_path / "after", "'ptx of ' + text.replace('a', 'x')")
    given = tasks(tmp_path, "a.bc", "c.mlir")
    (only,) = differing(given, before, after)
    assert only.startswith("a.bc.sm_90-wgmma: PTX ")
    assert differing(given, before, before) == []


def test_features_are_taken_from_the_target(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "options.gpu_name + str(options.disabled_features)")
    after = sources(tmp_path / "after", "'sm_90' + str(('wgmma',))")
    assert differing(tasks(tmp_path, "a.bc"), before, after) == []


def test_new_failure_is_a_difference(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "'ptx'")
    after = sources(tmp_path / "after", "(_ for _ in ()).throw(TileirasError('no'))")
    given = tasks(tmp_path, "a.bc")
    (line,) = differing(given, before, after)
    assert line.endswith("-> exit code 5")
    assert differing(given, after, after) == []


def test_other_message_is_a_difference(tmp_path: Path) -> None:
    before = sources(tmp_path / "before", "(_ for _ in ()).throw(TileirasError('no'))")
    after = sources(tmp_path / "after", "(_ for _ in ()).throw(KeyError('no'))")
    (line,) = differing(tasks(tmp_path, "a.bc"), before, after)
    assert line.endswith("exit code 5 -> exit code 5")


def test_tasks_behind_one_that_ends_the_process_are_done(tmp_path: Path) -> None:
    body = "os.kill(os.getpid(), signal.SIGKILL) if 'b' in name else name"
    folder = sources(tmp_path / "sources", body)
    found = compile_tasks(tasks(tmp_path, "a.x", "b.x", "d.x", "be.x"), folder)
    assert [outcome.exit_code for outcome in found] == [0, -9, 0, -9]


def test_task_that_does_not_end_is_ended(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", "time.sleep(60) if 'b' in name else name")
    found = compile_tasks(tasks(tmp_path, "a.x", "b.x", "d.x"), folder, limit=0.3)
    assert [outcome.exit_code for outcome in found] == [0, -14, 0]


def test_compiler_that_does_not_start_is_no_outcome(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match="does not start"):
        compile_tasks(tasks(tmp_path, "a.x"), tmp_path / "empty")


def test_outcomes_of_a_commit_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = sources(tmp_path / "package", "'ptx of ' + name")
    unpacked: list[str] = []

    def unpack(commit: str, folder: Path) -> None:
        unpacked.append(commit)
        (package / "tileiras").rename(folder / "tileiras")

    monkeypatch.setattr(replay, "unpack", unpack)
    given = tasks(tmp_path, "a.x", "d.x")
    made = Kept(tmp_path, "1234").complete(given, "1234", 1)
    assert Kept(tmp_path, "1234").complete(given, "1234", 1) == made
    assert unpacked == ["1234"]
    assert not Kept(tmp_path, "5678").outcomes
    given[0].path.write_text("other")
    assert given[0].key() not in Kept(tmp_path, "1234").outcomes


def test_texts_of_differences_are_left(tmp_path: Path) -> None:
    folder = sources(tmp_path / "sources", "'ptx of ' + name")
    compile_tasks(tasks(tmp_path, "a.x"), folder, tmp_path)
    assert (tmp_path / "a.x.sm_90-wgmma").read_text() == "ptx of a.x"


def test_table_counts_by_set_and_target() -> None:
    good, other, failed = Outcome(0, "a", 1.0), Outcome(0, "b", 2.0), Outcome(5, "c", 0.5)
    pairs = [(good, good), (good, other), (failed, failed)]
    task = Task("corpus", Path("a.bc"), TARGET)
    console = Console(width=110, file=StringIO())
    console.print(table_of(Comparison(task, *pair) for pair in pairs))
    assert isinstance(console.file, StringIO)
    row = next(line for line in console.file.getvalue().splitlines() if "corpus" in line)
    assert " ".join(row.replace("│", " ").split()) == "corpus sm_90-wgmma 3 2 1 1 2.5 3.5"


def test_targets_are_read_as_they_are_shown() -> None:
    assert Target.parse("sm_90-wgmma") == TARGET
    assert Target.parse(TARGET.text) == TARGET
    assert Target.parse("sm_80") == Target("sm_80")


def test_kernels_of_the_tests_have_different_names() -> None:
    names = [name for name, _ in replay.kernels_of_tests()]
    assert len(names) == len(set(names)) > 150
    for word in ("product_", "attention_", "turns", "experts_", "rows_"):
        assert any(name.startswith(word) for name in names), word


def test_kernels_of_the_tests_are_valid() -> None:
    """A text that is no program would be the same before and after whatever changes."""
    for name, source in replay.kernels_of_tests():
        verify_input(read_source(source, name), from_bytecode=False)
