"""The documentation is true to the tree: files, targets, options and variables that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tileiras.cli import FLAGS_VARIABLE
from tileiras.command_line import (
    DISASSEMBLER_OPTIONS,
    Option,
    assembler_options,
    compiler_options,
)
from tileiras.driver import KNOWN_KNOBS
from tileiras.native_launcher.__main__ import SNAPSHOT_VARIABLE
from tileiras.reduce_command import OPTIONS as REDUCE_OPTIONS
from tileiras.registry import PASSES
from tileiras.resident.protocol import ALLOWING_VARIABLE, IDLE_VARIABLE
from tileiras.result_cache import FOLDER_VARIABLE, SIZE_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")

FOLDERS = "tileiras|tests|docs|benchmarks|examples"
IN_PACKAGE = "analysis|bytecode|codegen|dialects|explain|interpreter|passes|planning|runtime"
FILE = re.compile(rf"(?<![\w/.])((?:{FOLDERS}|{IN_PACKAGE})/[\w./-]*[\w-]\.(?:py|md|mlir|json))\b")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MADE = ("corpus-summary.json", "drop_prints.py")


def name_of(path: Path) -> str:
    """The path as shown in test ids."""
    return str(path.relative_to(ROOT))


def missing_files(text: str, folder: Path) -> list[str]:
    """What a page in `folder` names and links to that does not exist."""
    named = [name for name in FILE.findall(text) if Path(name).name not in MADE]
    bases = (ROOT, ROOT / "tileiras", folder)
    missing = [name for name in named if not any((base / name).exists() for base in bases)]
    return missing + [link for link in LINK.findall(text) if not (folder / link).exists()]


def missing_tests(text: str) -> list[str]:
    """Tests that a page names and that their file does not have."""
    return [
        f"{file}::{name}"
        for file, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text)
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]


def unknown_targets(text: str) -> list[str]:
    """Targets that a page tells to `make` and the Makefile lacks."""
    known = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    told = re.findall(r"(?:`|^    )make ((?:[a-z-]+ ?)+)", text, re.MULTILINE)
    return [word for words in told for word in words.split() if word not in known]


def found_on_pages(wrong: Callable[[str, Path], list[str]]) -> dict[str, list[str]]:
    """Page -> what a check of its text and folder finds; nothing where it finds nothing."""
    found = {name_of(page): wrong(page.read_text(encoding="utf-8"), page.parent) for page in PAGES}
    return {page: words for page, words in found.items() if words}


def test_named_files_exist() -> None:
    """Paths into the tree and links between pages."""
    assert found_on_pages(missing_files) == {}


def test_make_targets_exist() -> None:
    """What a reader is told to run."""
    assert found_on_pages(lambda text, _: unknown_targets(text)) == {}


def test_the_checks_find_what_is_missing() -> None:
    """They can fail."""
    text = "see `tests/no_such.py`, codegen/libdevice.py and [a page](no_such.md)"
    assert missing_files(text, ROOT / "docs") == ["tests/no_such.py", "no_such.md"]
    assert unknown_targets("run `make test nonsense`\n    make help\n") == ["nonsense"]


@pytest.mark.parametrize("option", compiler_options(()), ids=lambda option: option.name)
def test_options_are_documented(option: Option) -> None:
    """docs/command-line.md has every option with its short forms."""
    for name in (option.name, *option.aliases):
        if name.startswith("help") or name == "h":
            name = "help"
        dashes = "-" if len(name) == 1 else "--"
        assert f"`{dashes}{name}`" in COMMAND_LINE


OURS = (
    FLAGS_VARIABLE,
    ALLOWING_VARIABLE,
    IDLE_VARIABLE,
    SNAPSHOT_VARIABLE,
    FOLDER_VARIABLE,
    SIZE_VARIABLE,
)
"""Variables of the environment that are no other compiler's."""


def test_options_in_the_documentation_exist() -> None:
    """The tables have no option that was removed, and no variable that nobody reads."""
    tables = (
        compiler_options(()),
        DISASSEMBLER_OPTIONS,
        assembler_options(("13.5",)),
        REDUCE_OPTIONS,
    )
    known = {
        name for table in tables for option in table for name in (option.name, *option.aliases)
    }
    named = re.findall(r"`--([\w-]+)`", COMMAND_LINE)
    assert sorted(set(named) - known) == []
    variables = re.findall(r"`(TILEIR\w*)`", COMMAND_LINE)
    assert sorted(set(variables)) == sorted((*OURS, *KNOWN_KNOBS))


def test_named_tests_exist() -> None:
    """`tests/FILE.py::NAME` is a test of that file."""
    assert found_on_pages(lambda text, _: missing_tests(text)) == {}


def test_named_tests_that_do_not_exist_are_found() -> None:
    """The check itself."""
    text = "`tests/test_documentation.py::test_named_tests_exist` and `tests/conftest.py::test_no`"
    assert missing_tests(text) == ["tests/conftest.py::test_no"]


def unknown_passes(text: str) -> list[str]:
    """Passes in the commands of a page that there are not."""
    named = re.findall(r"--(?:print-(?:before|after)|pass-pipeline)=([a-z][\w,-]*)", text)
    return [name for names in named for name in names.split(",") if name not in PASSES]


def test_passes_that_commands_name_exist() -> None:
    """`--print-after=NAME` and `--pass-pipeline=NAME` in examples."""
    assert found_on_pages(lambda text, _: unknown_passes(text)) == {}
    assert unknown_passes("`--print-after=cse,nonsense`") == ["nonsense"]


def unlisted_decisions(names: list[str], text: str) -> list[str]:
    """Decisions that a page does not link to, or whose number is not the next one."""
    expected = [f"{number:04}" for number in range(1, len(names) + 1)]
    return [
        name
        for name, number in zip(sorted(names), expected, strict=True)
        if f"](decisions/{name})" not in text or name[:4] != number
    ]


def test_decisions_are_numbered_and_listed() -> None:
    """docs/architecture.md links to every one; no number is used twice or left out."""
    names = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md")]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert unlisted_decisions(names, text) == []
    assert unlisted_decisions(["0001-a.md", "0001-b.md"], "[](decisions/0001-a.md)") == [
        "0001-b.md"
    ]


def test_every_file_of_planning_has_its_question() -> None:
    """docs/planning.md names each."""
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    files = sorted((ROOT / "tileiras" / "planning").rglob("*.py"))
    assert len(files) > 50
    names = [path.name for path in files if path.name != "__init__.py"]
    assert [name for name in names if not re.search(rf"[`/]{re.escape(name)}`", page)] == []


FILES_OF = {
    "analysis": "analysis",
    "bytecode": "bytecode",
    "cute": "dialects/cute/algebra",
    "ptx-machine": "interpreter/ptx",
}
"""A page that says what is in which file -> the folder in tileiras that it is about."""


@pytest.mark.parametrize("page", FILES_OF)
def test_pages_name_every_file_of_their_folder(page: str) -> None:
    """By its name, with or without `.py`."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    names = [path.stem for path in sorted((ROOT / "tileiras" / FILES_OF[page]).glob("*.py"))]
    assert len(names) > 10
    named = set(re.findall(r"[`/](\w+)(?:\.py)?`", text))
    assert [name for name in names if name not in named and name != "__init__"] == []


def test_every_part_of_the_package_stands_in_a_layer() -> None:
    """The table of docs/architecture.md names modules and packages of the top level."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Packages")[2].partition("\n## ")[0]
    parts = [
        path for path in sorted((ROOT / "tileiras").iterdir()) if not path.name.startswith("_")
    ]
    names = [path.stem for path in parts if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert len(names) > 40
    assert [name for name in names if not re.search(rf"`{name}/?`", table)] == []
