"""Every remark that a pass can make is explained in the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REMARK_NAME = re.compile(r"[A-Z][A-Za-z]+")
REMARK_MAKERS = ("Remark", "_remark", "remark_about")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def _is_kind(node: ast.expr) -> bool:
    """Whether an argument is a `RemarkKind`, chosen on the spot or not."""
    parts = (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,)
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "RemarkKind"
        for part in parts
    )


def _names_in(tree: ast.AST) -> Iterator[str]:
    """The names in calls that make remarks."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        is_remark = isinstance(node.func, ast.Name) and node.func.id in REMARK_MAKERS
        if not is_remark and not any(map(_is_kind, node.args)):
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        words = [item.value for item in given if isinstance(item, ast.Constant)]
        yield from (word for word in words if isinstance(word, str) and REMARK_NAME.fullmatch(word))


@cache
def remark_names() -> list[str]:
    """All names of remarks in the sources; what makes one has the word in it."""
    sources = sorted((ROOT / "tileiras").rglob("*.py"))
    texts = (path.read_text(encoding="utf-8") for path in sources)
    trees = (ast.parse(text) for text in texts if "Remark" in text or "remark" in text)
    return sorted({name for tree in trees for name in _names_in(tree)})


def test_names_are_found() -> None:
    """By a search that would otherwise find nothing to look for."""
    assert {"Specialized", "PipelineStages", "Tiling"} <= set(remark_names())


@pytest.mark.parametrize("name", remark_names())
def test_remarks_are_documented(name: str) -> None:
    """In the table of the glossary."""
    assert f"| `{name}` |" in GLOSSARY


def test_documented_remarks_exist() -> None:
    """The table names nothing that no pass says."""
    table = GLOSSARY.partition("## Remarks")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == sorted(
        remark_names(), key=str.lower
    )


def test_old_names_are_told_with_the_new_ones() -> None:
    """Of remarks: no pass says the old ones, and passes say what the table has in their place."""
    rows = [line.split("|") for line in GLOSSARY.splitlines() if line.startswith("| remarks ")]
    before, after = (
        [name for row in rows for name in re.findall(r"`(\w+)`", row[cell])] for cell in (1, 2)
    )
    assert len(before) == len(after) == 6
    assert not set(before) & set(remark_names())
    assert set(after) <= set(remark_names())
