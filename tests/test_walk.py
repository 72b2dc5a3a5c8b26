"""The listings in docs/walk-moe.md are what the compiler prints.

A line `<!-- listing: STAGE from "TEXT" to "TEXT" -->` stands above each of them. STAGE is `input`,
a pass (what there is after it), or `ptx`; the listing goes from the first line with the first text
to the next one with the second.
"""

from __future__ import annotations

import re
import textwrap
from functools import cache
from pathlib import Path

import pytest
from filetests.ir_case import Case, produce

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "walk-moe.md"
KERNEL = ROOT / "examples" / "experts.mlir"
DIRECTIVE = re.compile(r'<!-- listing: (\S+) from "([^"]+)" to "([^"]+)" -->')
LISTING = re.compile(rf"({DIRECTIVE.pattern})(?:\n\n```mlir\n.*?^```$)?", re.MULTILINE | re.DOTALL)
COLUMNS = 140


@cache
def text_of(stage: str) -> str:
    """The kernel as input, after a pass, or as PTX."""
    source = KERNEL.read_text(encoding="utf-8")
    if stage == "input":
        return source
    run = "--emit=ptx" if stage == "ptx" else f"...,{stage}"
    return produce(Case(KERNEL, run, source, 1))


def excerpt(text: str, start: str, end: str) -> str:
    """The lines from the first with `start` to the next with `end`, cut off at COLUMNS."""
    lines = text.split("\n")
    first = next(number for number, line in enumerate(lines) if start in line)
    last = next(number for number, line in enumerate(lines) if number >= first and end in line)
    chosen = textwrap.dedent("\n".join(lines[first : last + 1]).expandtabs(4))
    return "\n".join(
        line if len(line) <= COLUMNS else f"{line[: COLUMNS - 4]} ..."
        for line in chosen.split("\n")
    )


def filled(page: str) -> str:
    """The page with its listings made anew."""

    def listing(match: re.Match[str]) -> str:
        stage, start, end = match.group(2), match.group(3), match.group(4)
        return f"{match.group(1)}\n\n```mlir\n{excerpt(text_of(stage), start, end)}\n```"

    return LISTING.sub(listing, page)


def test_listings_are_current(request: pytest.FixtureRequest) -> None:
    """`make bless` writes them anew."""
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--bless"):
        PAGE.write_text(filled(page), encoding="utf-8")
        return
    assert page == filled(page)


def test_every_stage_is_shown() -> None:
    """From the input to PTX."""
    shown = [match[0] for match in DIRECTIVE.findall(PAGE.read_text(encoding="utf-8"))]
    assert list(dict.fromkeys(shown)) == [
        "input",
        "convert-cudatile-to-tileaa",
        "tileas-plan-cta",
        "convert-tileaa-to-tileas",
        "convert-nv-tileas-to-llvm",
        "ptx",
    ]


def test_excerpts_are_chosen_by_text() -> None:
    """The first line that has it; what is not there is an error."""
    assert excerpt("a\n  b 1\n    c\n  d\n  b 2", "b", "d") == "b 1\n  c\nd"
    assert excerpt("x" * 200, "x", "x") == "x" * 136 + " ..."
    with pytest.raises(StopIteration):
        excerpt("a\nb", "c", "b")


def test_stale_listings_are_replaced() -> None:
    """Whatever stands below a directive."""
    head = '<!-- listing: input from "entry @experts" to "entry @experts" -->'
    fresh = filled(f"text\n\n{head}\n\n```mlir\nold\n```\n\nmore\n")
    assert "old" not in fresh
    assert "entry @experts" in fresh.partition("```mlir")[2]
    assert fresh.endswith("```\n\nmore\n")
    assert filled(fresh) == fresh
