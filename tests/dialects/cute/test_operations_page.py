"""`docs/cute-operations.md` lists the operations; `--bless` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.dialects.cute.dialect import CHAPTERS
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.types import TYPES

PAGE = Path(__file__).parents[3] / "docs" / "cute-operations.md"
HEAD = """# Operations of the cute dialect

Made from the classes of `tileiras/dialects/cute` by `tests/dialects/cute/test_operations_page.py`.
[cute.md](cute.md) says how programs are written. `|` separates kinds of operands, `?` marks one
that may be left out, `*` one that may come any number of times; `<n>` is the number of static
parameters.
"""


def _operands(op: type[CuteOp]) -> str:
    """The signature of a row operation."""
    parts = ("\\|".join(each.kinds) + each.count for each in op.SIGNATURE.operands)
    counts = op.SIGNATURE.statics
    statics = "" if not counts[-1] else f"<{counts[0]}{'..' if len(counts) > 1 else ''}> "
    return f"{statics}{', '.join(parts)}".strip()


def page() -> str:
    """The page's text."""
    lines = [HEAD, "## Types", "", "| type | what |", "|---|---|"]
    lines += [
        f"| `!{each.name}` | {' '.join(str(each.__doc__).split()).replace('|', chr(92) + '|')} |"
        for each in TYPES
    ]
    for chapter in CHAPTERS:
        title = str(chapter.__doc__).splitlines()[0]
        lines += ["", f"## {chapter.__name__.rpartition('.')[2].capitalize()}", "", title, ""]
        lines += ["| operation | operands | result | what |", "|---|---|---|---|"]
        for op in chapter.OPERATIONS:
            says = " ".join(str(op.__doc__).split("\n\n")[0].split()).replace("|", "\\|")
            operands, result = "", ""
            if issubclass(op, CuteOp):
                operands, result = _operands(op), op.SIGNATURE.result.replace("|", "\\|")
            lines.append(f"| `{op.name}` | {operands} | {result} | {says} |")
    return "\n".join(lines) + "\n"


def test_page_is_of_these_operations(pytestconfig: pytest.Config) -> None:
    """Blessed, or made by hand: the same text."""
    made = page()
    if pytestconfig.getoption("--bless"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made
