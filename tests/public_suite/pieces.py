"""The pieces of the public suite: what each text says about itself.

A file is split at its `// -----` lines where its command line splits it. A piece is wrong if it has
`expected-error` remarks, or if its file's tool must fail; otherwise it is right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CUDA_TILE_SUITE"
"""The environment variable that names a checkout of NVIDIA/cuda-tile."""

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_ERROR = re.compile(
    r"//\s*expected-error(?:-re)?\s*(?:@(\w+|[-+]\d+))?\s*(\d+)?\s*\{\{(.*?)\}\}", re.DOTALL
)
_CHECKED = re.compile(r"//\s*CHECK[\w-]*:\s*(?:.*?error:\s*)?(.*)")
_FOLDERS = ("test/Dialect/CudaTile", "test/Bytecode", "test/Bytecode/invalid")
_FAILS = re.compile(r"^// RUN:\s*not .*$", re.MULTILINE)
_VERSIONED = re.compile(r"bytecode-version=(?!13\.3)")


@dataclass(frozen=True)
class Fact:
    """Words that an error must have, and the line of the piece where it must stand, if said."""

    words: str
    line: int | None


@dataclass(frozen=True)
class Piece:
    """One program of the suite. `facts` are the words that its errors must have."""

    name: str
    text: str
    is_wrong: bool
    facts: tuple[Fact, ...]
    strict_hints: bool = False
    to_bytecode: bool = False
    """Whether the mistake shows only when bytecode is written."""


def suite_folder() -> Path | None:
    """The checkout, if there is one."""
    name = os.environ.get(VARIABLE)
    return Path(name) if name else None


def read_pieces(folder: Path) -> Iterator[Piece]:
    """All pieces of all files, in order."""
    for part in _FOLDERS:
        for path in sorted((folder / part).glob("*.mlir")):
            yield from _pieces_of(path, path.relative_to(folder / "test").as_posix())


def _pieces_of(path: Path, name: str) -> Iterator[Piece]:
    text = path.read_text()
    commands = "\n".join(line for line in text.splitlines() if line.startswith("// RUN:"))
    if _VERSIONED.search(commands) or not commands:
        return  # tests of the suite's own invented bytecode versions, and inputs of others
    fails = _FAILS.search(text) is not None
    splits = "-split-input-file" in commands or "// -----" in text
    parts = list(_split(text)) if splits else [(1, text)]
    for line, part in parts:
        if not _has_program(part):
            continue
        facts = tuple(_fact(part, match) for match in _ERROR.finditer(part))
        if fails:
            found = [match[1].strip() for match in _CHECKED.finditer(part)]
            facts = tuple(Fact(words, None) for words in found if words)
        yield Piece(
            f"{name}:{line}",
            part,
            is_wrong=bool(facts) or (fails and "expected-error" not in text),
            facts=facts,
            strict_hints="-Werr-hints" in commands,
            to_bytecode=(fails or "-verify-diagnostics" in commands)
            and "-mlir-to-cudatilebc" in commands,
        )


def _fact(part: str, match: re.Match[str]) -> Fact:
    """The fact of one remark: `@below` is the next line that is no remark, `@+2` two lines on."""
    line = part.count("\n", 0, match.start()) + 1
    where = match[1] or ""
    if where == "below":
        lines = part.split("\n")
        line += 1 + match[0].count("\n")
        while line <= len(lines) and lines[line - 1].lstrip().startswith("//"):
            line += 1
    elif where == "above":
        line -= 1
    elif where:
        line += int(where)
    return Fact(match[3], line)


def _split(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for match in (*_SPLIT.finditer(text), None):
        end = len(text) if match is None else match.start()
        yield text.count("\n", 0, start) + 1, text[start:end]
        start = end if match is None else match.end()


def _has_program(text: str) -> bool:
    """Whether anything is left without comments."""
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("//") for line in lines)
