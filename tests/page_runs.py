"""Runs what a page tells its reader to run, and writes what comes out below it.

A block of kind `console` has commands behind `$ `; what they print stands below each of them. The
commands of a page run in order, in one folder that has copies of the page's files. Lines above a
block say more:

    <!-- lines: from "TEXT" to "TEXT" -->   only these lines of the output, the first that fit
    <!-- with: ptxas 13.5 -->               the output is that of this release of ptxas (nvdisasm)
    <!-- with: cmake ninja -->              the commands need programs that may be missing

A block of kind `python` is run too, in the same folder, with the names of the blocks before it. A
block below `<!-- file: NAME -->` shows a file, or those of its lines that `lines` names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tileiras.codegen.nvdisasm import find_nvdisasm
from tileiras.codegen.ptxas_process import find_ptxas

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 140
SECONDS = 120
BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- (?:lines|with|file): [^\n]* -->\n\n?)*)"
    r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINES = re.compile(r'<!-- lines: from "([^"]+)" to "([^"]+)" -->')
FILE = re.compile(r"<!-- file: (\S+) -->")
WITH = re.compile(r"<!-- with: (ptxas|nvdisasm) ([\d.]+) -->")
WITH_PROGRAMS = re.compile(r"<!-- with: ([a-z ]+) -->")


@dataclass
class Run:
    """The state of a page: its folder, the names of its Python blocks, what was left out."""

    folder: Path
    names: dict[str, object] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """With the commands of this environment first, and nothing of the user's own."""
        scripts = str(Path(sys.executable).parent)
        tools = [scripts, *_folders_of_tools(), os.environ.get("PATH", "")]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TILEIR")}
        return kept | {"PATH": os.pathsep.join(tools), "NO_COLOR": "1", "COLUMNS": "80"}


def _folders_of_tools() -> Iterator[str]:
    """Where nvdisasm is, which pip does not put on PATH."""
    if (program := find_nvdisasm(dict(os.environ))) is not None:
        yield str(Path(program).parent)


def excerpt(text: str, marks: str) -> str:
    """The lines that the marks ask for, without a common indent, cut off at COLUMNS."""
    lines = text.expandtabs(4).split("\n")
    if (wanted := LINES.search(marks)) is not None:
        start, end = wanted.groups()
        first = next((n for n, line in enumerate(lines) if start in line), None)
        if first is None:
            raise ValueError(f"no line has '{start}' in:\n{text}")
        last = next((n for n, line in enumerate(lines) if n >= first and end in line), None)
        if last is None:
            raise ValueError(f"no line has '{end}' after '{start}' in:\n{text}")
        lines = textwrap.dedent("\n".join(lines[first : last + 1])).split("\n")
    cut = (line if len(line) <= COLUMNS else f"{line[: COLUMNS - 4]} ..." for line in lines)
    return "\n".join(line.rstrip() for line in cut).strip("\n")


def release_of(program: str) -> str:
    """The release that a program of the CUDA toolkit names."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"release ([\d.]+)", said.stdout)
    return found.group(1) if found else ""


def missing(marks: str) -> str:
    """Why a block cannot be run here; empty where it can."""
    if (programs := WITH_PROGRAMS.search(marks)) is not None:
        absent = [name for name in programs.group(1).split() if shutil.which(name) is None]
        return f"{' and '.join(absent)} not installed" if absent else ""
    wanted = WITH.search(marks)
    if wanted is None:
        return ""
    tool, release = wanted.groups()
    programs = {"ptxas": find_ptxas(dict(os.environ))}
    if tool == "nvdisasm":
        programs[tool] = find_nvdisasm(dict(os.environ)) or ""
    for name, program in programs.items():
        if not program:
            return f"{name} is not installed"
        if (found := release_of(program)) != release:
            return f"{name} is of release {found}, expected {release}"
    return ""


def _console(body: str, marks: str, run: Run) -> str:
    """The block with the output of its commands."""
    parts: list[str] = []
    for command in re.findall(r"^\$ (.*(?:\\\n.*)*)$", body, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=run.folder,
            env=run.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        said = excerpt(done.stdout, marks)
        parts += [f"$ {command}", *([said] if said else [])]
    return "\n".join(parts) + "\n"


def _python(body: str, run: Run) -> None:
    """Runs a block; what it raises names the page's block."""
    before = Path.cwd()
    os.chdir(run.folder)
    try:
        exec(compile(body, "a block of the page", "exec"), run.names)
    finally:
        os.chdir(before)


def refreshed(page: str, run: Run) -> str:
    """The page with every command run and every listing made anew."""

    def block(match: re.Match[str]) -> str:
        marks, kind, body = match["marks"], match["kind"], match["body"]
        if (file := FILE.search(marks)) is not None:
            body = excerpt((run.folder / file.group(1)).read_text(encoding="utf-8"), marks) + "\n"
        elif kind == "console":
            if why := missing(marks):
                run.left_out.append(why)
            else:
                body = _console(body, marks, run)
        elif kind == "python":
            _python(body, run)
        return f"{marks}```{kind}\n{body}```"

    return BLOCK.sub(block, page)


def folder_for(files: list[str], place: Path) -> Run:
    """A folder with copies of these files and folders of the tree."""
    for name in files:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name)
        else:
            shutil.copy(ROOT / name, place)
    return Run(place)
