"""Words that the field's own have replaced (docs/glossary.md, "Older words") do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "tileiras").rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
]
NEVER = (
    *("head_start", "early_loads", "start_loads", "finish_loads", "kept_tiles", "operand_slots"),
    *("slot_tiles", "turned_tile", "turned_words", "other_way_round", "share_out", "may_talk"),
    *("longest_first", "pair_tile_blocks", "join_tiles", "store_agent", "product_agent"),
    *("transpose_agent", "hopper_plan", "would_pair", "is_promoted", "twins", "wish", "placer"),
)
"""Parts of names, written with underscores; in pages with spaces or dashes."""
ENGLISH = ("start_loads", "finish_loads")
"""Names that were words of the house; in a sentence they are not."""
TOLD = ("glossary.md", "six-tasks.md")
"""Pages that say what the words were."""


def parts_of(name: str) -> str:
    """A name with an underscore between its words and at both ends: `HeadStart`, `head_start`."""
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_") + "_"


def old_word_in(name: str) -> str:
    """The old word that a name has in it; empty for none."""
    return next((word for word in NEVER if f"_{word}_" in parts_of(name)), "")


def names_in(text: str) -> set[str]:
    """Every name and word of a module, comments and docstrings included."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def test_no_name_of_the_code_has_an_old_word() -> None:
    """Nor has a file."""
    named = {path: {path.stem, *names_in(path.read_text(encoding="utf-8"))} for path in SOURCES}
    old = {name for name in set().union(*named.values()) if old_word_in(name)}
    found = [f"{path.relative_to(ROOT)}: {name}" for path in SOURCES for name in named[path] & old]
    assert found == []


def old_words_of(page: Path) -> list[str]:
    """The old words on a page; links to decisions keep the names of their files."""
    text = re.sub(r"\]\([^)]*\)", "]", page.read_text(encoding="utf-8"))
    words = "_" + "_".join(re.findall(r"[a-z0-9]+", text.lower())) + "_"
    exempt = NEVER if page.name in TOLD else ENGLISH
    return [word for word in NEVER if f"_{word}_" in words and word not in exempt]


def test_no_page_has_an_old_word(tmp_path: Path) -> None:
    """But those that tell what the words were."""
    found = {str(page.relative_to(ROOT)): old_words_of(page) for page in PAGES}
    assert {page: words for page, words in found.items() if words} == {}
    page = tmp_path / "page.md"
    page.write_text("a [head start](early_loads.md)")
    assert old_words_of(page) == ["head_start"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("HeadStartOp", "head_start"),
        ("plan_head_start", "head_start"),
        ("_twins", "twins"),
        ("headstrong_start", ""),
        ("wishes", ""),
    ],
)
def test_old_words_are_found(name: str, word: str) -> None:
    """In names of either kind, as whole words."""
    assert old_word_in(name) == word
