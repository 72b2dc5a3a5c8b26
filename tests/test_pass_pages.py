"""docs/passes.md and the pages of the passes are what docstrings and file tests say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from pass_files import cases_of_passes, show
from pass_pages import (
    COLUMNS,
    FOLDER,
    INDEX,
    KEPT,
    index,
    kept,
    option_rows,
    page,
    pages,
    sections,
)

from tileiras.ir_pass import CompileContext, IrPass
from tileiras.pipeline import EVERY_STEP


def compare(path: Path, made: str, bless: bool) -> None:
    """Compares the generated part of a page; writes it when blessing."""
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    wanted = made + kept(present)
    if bless:
        path.write_text(wanted, encoding="utf-8")
        return
    assert present == wanted, f"{path.name} is out of date: run `make bless`, read the diff"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """All pages."""
    return pages()


@pytest.mark.parametrize("name", [step.pass_name for step in EVERY_STEP])
def test_page_is_current(name: str, made: dict[str, str], request: pytest.FixtureRequest) -> None:
    """`make bless` writes it anew."""
    compare(FOLDER / f"{name}.md", made[name], bool(request.config.getoption("--bless")))


def test_index_is_current(request: pytest.FixtureRequest) -> None:
    """Every pass has a row, in order."""
    compare(INDEX, index(), bool(request.config.getoption("--bless")))


def test_there_are_no_pages_of_other_passes(request: pytest.FixtureRequest) -> None:
    """Of passes that have gone; blessing removes them, unless somebody wrote on them."""
    names = {f"{step.pass_name}.md" for step in EVERY_STEP}
    stale = [path for path in sorted(FOLDER.glob("*.md")) if path.name not in names]
    if request.config.getoption("--bless"):
        for path in stale:
            if KEPT not in path.read_text(encoding="utf-8"):
                path.unlink()
        return
    assert stale == []


def test_what_is_written_by_hand_stays(tmp_path: Path) -> None:
    """And what is not, does not."""
    path = tmp_path / "page.md"
    path.write_text(f"old\n\n{KEPT}\n\nby hand\n")
    compare(path, "new\n", bless=True)
    assert path.read_text() == f"new\n\n{KEPT}\n\nby hand\n"
    compare(path, "new\n", bless=False)
    with pytest.raises(AssertionError, match="out of date"):
        compare(path, "newer\n", bless=False)


def test_docstrings_are_taken_apart() -> None:
    """Sections may repeat, and go on over several lines."""
    first, parts = sections(
        """Does it.

        More of it.

        Before   a
                   b
        After    c
        Requires nothing
        Leaves   the
                 rest
        """
    )
    assert first == "Does it.\n\nMore of it."
    assert parts == [
        ("Before", "a\n  b"),
        ("After", "c"),
        ("Requires", "nothing"),
        ("Leaves", "the\nrest"),
    ]


@dataclass(frozen=True)
class TunedPass(IrPass):
    """A pass with options."""

    name = "tuned"
    title: ClassVar[str] = "Tuned"
    num_warps: int = 4
    """How many warps there are."""
    kind: str = "fast"

    def apply(self, ctx: CompileContext, op: object) -> None:  # pyright: ignore
        """Does nothing."""


def test_options_are_listed() -> None:
    """With type, default and docstring."""
    assert option_rows(TunedPass) == [
        "| `num-warps` | int | `4` | How many warps there are. |",
        "| `kind` | str | `fast` |  |",
    ]


def test_example_is_that_of_the_file() -> None:
    """Before and after, and what was left out where it is long."""
    step = next(step for step in EVERY_STEP if step.pass_name == "cse")
    shown = show(cases_of_passes()["cse"][0])
    text = page(step, shown)
    assert shown.before.rstrip() in text
    assert shown.after.rstrip() in text
    assert shown.before.count("muli") == 2
    assert shown.after.count("muli") == 1


def prose_lines(text: str) -> list[str]:
    """Lines that are neither listings nor rows of tables."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for line in plain.split("\n") if not line.startswith(("|", "    "))]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_prose_is_narrow(path: Path) -> None:
    """Listings of the compiler and tables aside."""
    wide = [line for line in prose_lines(path.read_text("utf-8")) if len(line) > COLUMNS]
    assert wide == []
