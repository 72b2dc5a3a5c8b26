"""The documentation site: made pages are current, every page is listed, every link resolves."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.site_pages import (
    DIALECTS,
    DOCS,
    ROOT,
    SITE,
    broken_links,
    dialect_page,
    first_page,
    first_sentences,
    made_pages,
    navigation,
    options_page,
    pages_in_navigation,
    slug,
)
from tileiras.command_line import compiler_options

MADE = [DOCS / "index.md", DOCS / "options.md", *(DOCS / "dialects" / f"{n}.md" for n in DIALECTS)]


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    """The pages as they should be."""
    return made_pages()


@pytest.mark.parametrize("page", MADE, ids=lambda page: str(page.relative_to(DOCS)))
def test_made_page_is_current(
    page: Path, made: dict[Path, str], request: pytest.FixtureRequest
) -> None:
    """`make bless` writes it anew."""
    if request.config.getoption("--bless"):
        page.parent.mkdir(exist_ok=True)
        page.write_text(made[page], encoding="utf-8")
        return
    assert page.read_text(encoding="utf-8") == made[page]


def test_navigation_of_folders_is_current(request: pytest.FixtureRequest) -> None:
    """Passes, decisions, dialects and how-to pages; `make bless` lists them."""
    site = SITE.read_text(encoding="utf-8")
    if request.config.getoption("--bless"):
        SITE.write_text(navigation(site), encoding="utf-8")
        return
    assert site == navigation(site)


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that is missing here: add a line to `nav` of mkdocs.yml."""
    listed = pages_in_navigation(SITE.read_text(encoding="utf-8"))
    present = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert sorted(listed) == present


def test_navigation_is_what_mkdocs_reads() -> None:
    """The same pages by a parser of YAML."""

    def pages(entry: object) -> list[str]:
        if isinstance(entry, dict):
            return [page for value in entry.values() for page in pages(value)]
        if isinstance(entry, list):
            return [page for value in entry for page in pages(value)]
        return [str(entry)]

    site = SITE.read_text(encoding="utf-8")
    settings = yaml.safe_load(site)
    assert pages(settings["nav"]) == pages_in_navigation(site)
    assert settings["strict"] is True


def test_site_needs_no_network() -> None:
    """No fonts of another host, no plugin but the search."""
    settings = yaml.safe_load(SITE.read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert settings["plugins"] == ["search"]


def contents() -> dict[str, str]:
    """Every file of docs, by its path there; pictures are empty."""
    return {
        str(path.relative_to(DOCS)): path.read_text(encoding="utf-8")
        if path.suffix == ".md"
        else ""
        for path in DOCS.rglob("*")
        if path.is_file()
    }


def test_links_lead_to_pages_and_headings() -> None:
    """Within docs: what lies outside is not on the site."""
    known = contents()
    broken = {page: broken_links(page, text, known) for page, text in known.items()}
    assert {page: links for page, links in broken.items() if links} == {}


def test_broken_links_are_found() -> None:
    """Missing pages, missing headings, files outside of docs; not links in code."""
    known = {"a.md": "# A\n\n## Two `words`, here\n", "b/c.md": "", "p.svg": ""}
    good = "[x](a.md) [x](a.md#two-words-here) [x](#a) [x](https://a.b) ![x](p.svg) `[x](no.md)`"
    assert broken_links("a.md", f"{good}\n```\n[x](no.md)\n```\n", known) == []
    bad = "[x](no.md) [x](a.md#three) [x](../README.md)"
    assert broken_links("a.md", bad, known) == ["no.md", "a.md#three", "../README.md"]
    assert broken_links("b/c.md", "[x](a.md) [x](../a.md)", known) == ["a.md"]


def test_options_page_has_every_command_and_option() -> None:
    """Commands are those that are installed."""
    page = options_page()
    scripts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = scripts.partition("[project.scripts]\n")[2].partition("\n\n")[0].splitlines()
    for line in named:
        assert f"\n## {line.partition(' =')[0]}\n" in page
    for option in compiler_options(()):
        assert f"`{'-' if len(option.name) == 1 else '--'}{option.name}`" in page


def test_dialect_pages_have_every_operation() -> None:
    """Each with what it does."""
    for name, (dialect, _) in DIALECTS.items():
        page = dialect_page(name)
        for operation in dialect.operations:
            item = f"\n- `{operation.name.partition('.')[2]}`: "
            assert item in page
            assert first_sentences(operation.__doc__)


def test_first_page_links_between_pages_only() -> None:
    """What is outside of docs is named."""
    text = "# T\n\nSee [docs/a.md](docs/a.md), [a house](CONTRIBUTING.md), [x](https://x.y).\n"
    assert "See [a.md](a.md), `a house`, [x](https://x.y)." in first_page(text)


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("Sums of f8", "sums-of-f8"), ("Tried, and no faster", "tried-and-no-faster")],
)
def test_anchors_of_headings(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="the extra `docs` is not installed"
)
def test_mkdocs_builds_the_site_without_a_warning(tmp_path: Path) -> None:
    """As `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tutorial.html").exists()
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"?https?:[^ >]*", text)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect)[^>]*https?:[^>]*", text)
        assert loaded == [], page.name
