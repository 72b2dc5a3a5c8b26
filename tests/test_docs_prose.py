"""Prose of README, CONTRIBUTING and docs has at most 100 columns, rows of tables 140.

Generated pages included.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels.prose import LIMIT, ROW_LIMIT, long_lines, long_rows, misread_lists, wrapped

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
WORDS = "word " * 30


def lines_of_pages(wrong: Callable[[str], list[str]]) -> list[str]:
    """What a check finds on all pages, behind the page's name."""
    return [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for line in wrong(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("wrong", [long_lines, long_rows, misread_lists])
def test_pages_have_no_line_that_is(wrong: Callable[[str], list[str]]) -> None:
    """Long prose is wrapped by `tests.kernels.prose.wrapped`, or by what makes the page."""
    assert lines_of_pages(wrong) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("text\n\n- a\n- b\n  more of b\n    - c\n      more of c\n\ntext", []),
        ("1. a\n\n    ```\n  code\n    ```\n2. b", []),
        ("text:\n- a", ["- a"]),
        ("- a\n  - b", ["  - b"]),
        ("1. a\n\n   more of a", ["   more of a"]),
        ("- a\n\n      listing", ["      listing"]),
        ("text\n\n    - a listing\n      of a list", []),
    ],
)
def test_misread_lists_are_found(text: str, wrong: list[str]) -> None:
    """Not those that both read in one way."""
    assert misread_lists(text) == wrong


@pytest.mark.parametrize(
    "text", [WORDS, f"- {WORDS}", f"- short\n  {WORDS}", f"1. a\n\n   {WORDS}"]
)
def test_long_prose_is_found(text: str) -> None:
    """In paragraphs and in items of lists."""
    assert len(long_lines(text)) == 1


@pytest.mark.parametrize(
    "text", [f"| {WORDS} |", f"```\n{WORDS}\n```", f"text:\n\n    {WORDS}", f"# {WORDS}", "x" * 120]
)
def test_tables_listings_headings_and_single_words_may_be_long(text: str) -> None:
    """They cannot be broken."""
    assert long_lines(text) == []


def test_long_rows_are_found() -> None:
    """In tables; listings may have bars."""
    row = f"| {'x' * ROW_LIMIT} |"
    assert long_rows(f"| a |\n|---|\n{row}\n| b |") == [row]
    assert long_rows(f"```\n{row}\n```\n") == []
    assert long_rows(f"text:\n\n    {row}\n") == []


def test_wrapping_keeps_words_and_the_indent_of_an_item() -> None:
    """Only the paragraph that is too long changes."""
    text = f"short\nlines\n\n- {WORDS}\n- `{'code ' * 5}` stays\n"
    result = wrapped(text)
    lines = result.splitlines()
    assert result.split() == text.split()
    assert lines[:3] == ["short", "lines", ""]
    assert lines[4].startswith("  word")
    assert max(map(len, lines)) <= LIMIT


def test_wrapping_does_not_open_a_list() -> None:
    """A dash between words stays behind a word."""
    assert not any(line.startswith("- ") for line in wrapped("wordy - " * 20).splitlines())
