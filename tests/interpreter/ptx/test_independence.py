"""The PTX machine shares nothing with the compiler that it judges."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tileiras.interpreter.ptx as machine

FOLDER = Path(machine.__file__).parent
ALLOWED = (
    "tileiras.interpreter.ptx",
    "tileiras.errors",
    "tileiras.diagnostic_output",
    "tileiras.argument_parser",
)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_imports_only_itself_and_what_shows_errors(path: Path) -> None:
    """No dialect, no target table, no rule of the tile interpreter."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert not name.startswith("tileiras") or name.startswith(ALLOWED), name


def test_loads_nothing_of_the_compiler() -> None:
    """Not even through the package it lies in."""
    code = "import sys, tileiras.interpreter.ptx.launch; print('xdsl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
