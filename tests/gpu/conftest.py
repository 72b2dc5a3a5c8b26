"""The compiler on PATH for clients, and the table of errors at the end of the run."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROWS = pytest.StashKey[list[Any]]()
"""Rows (name, shape, error, bound, is_ok) that tests hand in for the final table."""

# A cached cubin would hide the compiler under test; the client reads this when it is imported.
os.environ["CUDA_TILE_CACHE_DIR"] = "off"

LAUNCHER = """#!/bin/sh
if [ -f "$1" ]; then cp -- "$1" "{captured}/$$.tileirbc"; fi
exec {command} "$@"
"""


@dataclass(frozen=True)
class CompilerOnPath:
    """The `tileiras` that clients find first, and where it leaves a copy of every input."""

    captured: Path

    def inputs(self) -> set[Path]:
        """The copies made so far."""
        return set(self.captured.glob("*.tileirbc"))


@pytest.fixture(scope="session")
def compiler_on_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompilerOnPath]:
    """Puts a `tileiras` first on PATH that keeps its input and runs the one under test.

    That is the one already on PATH, else this checkout's.
    """
    if _has_package("nvidia-cuda-tileiras"):
        pytest.fail("nvidia-cuda-tileiras is installed: the client would use it instead of ours")
    folder = tmp_path_factory.mktemp("bin")
    captured = tmp_path_factory.mktemp("captured")
    found = shutil.which("tileiras")
    main = "import sys; from tileiras.cli import main; sys.exit(main())"
    command = f"'{found}'" if found else f"'{sys.executable}' -c '{main}'"
    launcher = folder / "tileiras"
    launcher.write_text(LAUNCHER.format(captured=captured, command=command))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
        root = str(Path(__file__).resolve().parents[2])
        patch.setenv("PYTHONPATH", os.pathsep.join([root, *filter(None, sys.path)]))
        yield CompilerOnPath(captured)


def _has_package(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


@pytest.fixture
def table(request: pytest.FixtureRequest) -> list[Any]:
    """The rows printed at the end of the run; tests append to it."""
    return request.config.stash.setdefault(ROWS, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints the table of what ran on the GPU."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("kernels on the GPU")
    terminalreporter.write_line(f"{'name':36} {'shape':28} {'max error':>10} {'bound':>10} ok")
    for row in rows:
        line = f"{row.name:36} {row.shape:28} {row.error:10.2e} {row.bound:10.2e} "
        terminalreporter.write_line(line + ("yes" if row.is_ok else "NO"))
