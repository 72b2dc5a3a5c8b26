"""Pages whose commands are run: what stands below a command is what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_runs import ROOT, Run, excerpt, folder_for, missing, refreshed

AXPY = [f"examples/tutorial/{name}" for name in ("axpy.py", "axpy.tileirbc", "axpy_any.tileirbc")]
PRODUCT = [
    f"examples/tutorial/{name}"
    for name in ("product.py", "product.tileirbc", "product_any.tileirbc")
]
PAGES = {
    "README": ["examples"],
    "tutorial": [*AXPY, *PRODUCT],
    "wrong-results": AXPY,
    "faq": AXPY,
    "explain": ["examples/matmul.mlir"],
    "abi": ["examples/vector_add.mlir"],
    "remarks": ["examples"],
    "walk-cmake": [
        "integrations/cmake_program/CMakeLists.txt",
        "integrations/c/main.c",
        "examples/vector_add.mlir",
    ],
}
"""A page -> the files and folders of the tree that its reader has."""


def path_of(name: str) -> Path:
    """The file of a page; docs/index.md is made from README."""
    return ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"


@pytest.mark.parametrize("name", PAGES)
def test_what_commands_print_is_current(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`make bless` writes it anew; a command whose tool is missing here keeps its listing."""
    path = path_of(name)
    run = folder_for(PAGES[name], tmp_path)
    page = path.read_text(encoding="utf-8")
    made = refreshed(page, run)
    if request.config.getoption("--bless"):
        path.write_text(made, encoding="utf-8")
        return
    assert page == made
    if run.left_out:
        pytest.skip(f"all but {len(run.left_out)} are current: {', '.join(run.left_out)}")


def page_of(kind: str, body: str, marks: str = "") -> str:
    return f"text\n\n{marks}```{kind}\n{body}```\n\nmore\n"


def test_output_replaces_what_stood_there(tmp_path: Path) -> None:
    made = refreshed(page_of("console", "$ echo one\nold\n$ echo two\n"), Run(tmp_path))
    assert made == page_of("console", "$ echo one\none\n$ echo two\ntwo\n")


def test_a_failing_command_shows_its_error(tmp_path: Path) -> None:
    """Messages are what some pages are about."""
    made = refreshed(
        page_of("console", "$ tileiras nothing.mlir --gpu-name sm_90\n"), Run(tmp_path)
    )
    assert "error: " in made


def test_python_blocks_share_names_and_can_fail(tmp_path: Path) -> None:
    two = page_of("python", "a = 1\n") + page_of("python", "assert a == 1\n")
    assert refreshed(two, Run(tmp_path)) == two
    with pytest.raises(AssertionError):
        refreshed(page_of("python", "assert False\n"), Run(tmp_path))


def test_listings_of_files_follow_the_file(tmp_path: Path) -> None:
    (tmp_path / "k.txt").write_text("a\n  b\n  c\nd\n")
    marks = '<!-- file: k.txt -->\n<!-- lines: from "b" to "c" -->\n\n'
    made = refreshed(page_of("text", "old\n", marks), Run(tmp_path))
    assert made == page_of("text", "b\nc\n", marks)


def test_an_excerpt_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no line has 'x'"):
        excerpt("a\nb", '<!-- lines: from "x" to "b" -->')
    with pytest.raises(ValueError, match="no line has 'a' after 'b'"):
        excerpt("a\nb", '<!-- lines: from "b" to "a" -->')


def test_long_lines_are_cut() -> None:
    assert excerpt("x" * 200, "") == "x" * 136 + " ..."


def test_a_block_for_another_release_is_left_out(tmp_path: Path) -> None:
    """Its listing stays, and the run says why."""
    marks = "<!-- with: ptxas 1.0 -->\n\n"
    run = Run(tmp_path)
    page = page_of("console", "$ nvdisasm k.cubin\nold\n", marks)
    assert refreshed(page, run) == page
    assert run.left_out == [missing(marks)] != [""]


def test_a_block_for_programs_that_are_missing_is_left_out(tmp_path: Path) -> None:
    run = Run(tmp_path)
    page = page_of("console", "$ nosuchprogram\nold\n", "<!-- with: nosuchprogram -->\n\n")
    assert refreshed(page, run) == page and run.left_out == ["nosuchprogram not installed"]
    assert missing("<!-- with: sh -->") == ""
