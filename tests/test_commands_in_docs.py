"""Commands in the pages that are told in passing: each runs, or is at least one that exists.

Blocks of kind `console` are run, and what they print is compared, by tests/test_page_runs.py.
Here are the others: indented lines and lines of plain blocks that begin with one of our commands.
An input that a page only names (`k.tileirbc`) is a copy of an example.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kernels.debugged_kernel import write_kernel
from tileiras import cli
from tileiras.bench.command import OPTIONS as BENCH_OPTIONS
from tileiras.command_line import INPUT
from tileiras.explain.command import run as explain
from tileiras.interpreter.ptx.command import _parser as run_parser
from tileiras.layout_command import command as layout_command
from tileiras.reduce_command import OPTIONS as REDUCE_OPTIONS
from tileiras.tune.command import OPTIONS as TUNE_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("integrations/*/README.md")]
    + list((ROOT / "docs").rglob("*.md"))
)
CONSOLE = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"^(?: {4})?(?:\$ )?(tile(?:iras|irasm|irdisasm)(?:-[a-z]+)? .*)$", re.MULTILINE
)
PLACEHOLDER = re.compile(r"\[OPTIONS\]|\.\.\.|\b(FILE|NAME|EXPRESSION|X\.tilebc)\b")
RUN = {"tileiras": cli.run, "tileirdisasm": cli.run_disassembler, "tileirasm": cli.run_assembler}
ONLY_READ = {
    "tileiras-bench": BENCH_OPTIONS,
    "tileiras-tune": TUNE_OPTIONS,
    "tileiras-reduce": REDUCE_OPTIONS,
}
"""Commands that need a GPU, or a file that fails: their command lines are read, no more."""


def commands(text: str) -> list[str]:
    """The command lines, without what is said beside them."""
    found = COMMAND.findall(CONSOLE.sub("", text))
    lines = (re.split(r"\s+# |\s{3,}|\s\|\s|\s&&\s|\s>\s", line)[0].strip() for line in found)
    return [line for line in lines if not PLACEHOLDER.search(line)]


def all_commands() -> list[str]:
    """Those of all pages, each once."""
    pages = (page.read_text(encoding="utf-8") for page in PAGES)
    return list(dict.fromkeys(line for text in pages for line in commands(text)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader may have: the examples, and kernels of the names that pages use."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_kernel(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def give_inputs(words: Sequence[str]) -> None:
    """Makes the files that are named and are not there: programs, and dumps where one is read."""
    if "--dump" in words:
        dump = words[words.index("--dump") + 1]
        made = ["examples/matmul.mlir", "--gpu-name=sm_80", "--emit=nv_tileas", "-o", dump]
        assert cli.run(made) == 0
    examples = {".tileirbc": "tutorial/axpy.tileirbc", ".mlir": "vector_add.mlir"}
    for word in words:
        path = Path(word)
        if path.suffix in examples and not path.is_absolute() and not path.exists():
            shutil.copy(ROOT / "examples" / examples[path.suffix], path)


@pytest.mark.parametrize("command", all_commands())
def test_command_runs(command: str, folder: Path) -> None:
    program, *words = shlex.split(command)
    give_inputs(words)
    if program in RUN:
        assert RUN[program](words) == 0
    elif program == "tileiras-explain":
        assert explain(words) == 0
    elif program == "tileiras-layout":
        assert layout_command.main(words) == 0
    elif program == "tileiras-run":
        assert run_parser().parse_args(words).grid
    else:
        own = words[: words.index("--")] if "--" in words else words
        values = cli.parse_command_line(program, own, ONLY_READ[program], "")
        assert len(values[INPUT]) == 1


def test_commands_are_found() -> None:
    """Indented ones and those of plain blocks, not those whose output is compared."""
    text = (
        "text\n\n    tileiras k.mlir -o k   what it is\n    tileiras [OPTIONS] FILE\n\n"
        "```\n$ tileirdisasm k.tileirbc  # text\n```\n```console\n$ tileiras x.mlir\n```\n"
    )
    assert commands(text) == ["tileiras k.mlir -o k", "tileirdisasm k.tileirbc"]
    assert len(all_commands()) > 30


def test_pages_whose_commands_are_compared_are_run() -> None:
    """A page with a block of kind `console` is one of tests/test_page_runs.py.

    docs/index.md is made from README.
    """
    runs = (ROOT / "tests" / "test_page_runs.py").read_text(encoding="utf-8")
    pages = [page for page in PAGES if page.stem != "index"]
    shown = [page.stem for page in pages if CONSOLE.search(page.read_text(encoding="utf-8"))]
    assert shown and [name for name in shown if f'"{name}": ' not in runs] == []
