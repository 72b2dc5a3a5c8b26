"""Cheaper imports change how long things take, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras.fast_import import cache_folder

ROOT = Path(__file__).resolve().parent.parent

DEFINE = """
import dataclasses, sys
from tileiras.fast_import import cache_generated_code
save = cache_generated_code(sys.argv[1])
compiled = []
import builtins
real = builtins.compile
builtins.compile = lambda *a, **k: (compiled.append(a[0]), real(*a, **k))[1]

@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 2

assert Point(1) == Point(1, 2) < Point(1, 3)
assert repr(Point(1)) == "Point(x=1, y=2)" and hash(Point(1)) == hash(Point(1, 2))
try:
    Point(1).x = 3
except dataclasses.FrozenInstanceError:
    pass
else:
    raise SystemExit("not frozen")
save()
print(len(compiled))
"""


def run(script: str, *arguments: str | Path) -> str:
    """The output of a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    """The generated methods come from the file and behave the same."""
    assert int(run(DEFINE, tmp_path / "cache")) > 0
    assert run(DEFINE, tmp_path / "cache") == "0"


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xa7\r\r\n" + b"\xff" * 40])
def test_damaged_cache_is_ignored(tmp_path: Path, content: bytes) -> None:
    """And replaced."""
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_bytes(content)
    assert int(run(DEFINE, tmp_path)) > 0
    assert run(DEFINE, tmp_path) == "0"


def test_truncated_cache_is_ignored(tmp_path: Path) -> None:
    """A valid head does not make it valid."""
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_bytes(cache.read_bytes()[:-10])
    assert int(run(DEFINE, tmp_path)) > 0


def test_unwritable_folder_is_ignored(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    assert int(run(DEFINE, tmp_path / "file" / "cache")) > 0


def test_dialects_are_importable_without_the_finder() -> None:
    """Both forms of import, and xDSL's own users of the package."""
    script = """
from tileiras.fast_import import skip_dialect_finder
skip_dialect_finder()
from xdsl.dialects import builtin
import xdsl.dialects.test
from xdsl.dialects.builtin import ModuleOp
import xdsl.pattern_rewriter, xdsl.passes, xdsl.parser
assert ModuleOp is builtin.ModuleOp
print(str(ModuleOp([])).split()[0])
"""
    assert run(script) == "builtin.module"


def test_finder_that_is_loaded_is_left_alone() -> None:
    """The package is not replaced behind the back of those who have it."""
    script = """
import xdsl.dialects as before
from tileiras.fast_import import skip_dialect_finder
skip_dialect_finder()
import sys
print(sys.modules["xdsl.dialects"] is before)
"""
    assert run(script) == "True"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/tileiras"),
        ({"HOME": "/h"}, "/h/.cache/tileiras"),
        ({}, None),
    ],
)
def test_place_of_the_cache(environ: dict[str, str], folder: str | None) -> None:
    """As the XDG base directory specification says."""
    assert cache_folder(environ) == folder
