"""Makes pages of the documentation site: dialects, options, the first page, and the navigation.

`make bless` writes them. Dialects come from docstrings and definitions of operations, options from
the tables that click commands are made of, the first page from README.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from posixpath import normpath

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, OptionalDef, VariadicDef

from tests.kernels.prose import wrapped
from tileiras.command_line import Option
from tileiras.completion import _OPTIONS as TABLES
from tileiras.dialects.cuda_tile import CudaTile
from tileiras.dialects.llvm import LLVM
from tileiras.dialects.nv_tileaa import NvTileAA
from tileiras.dialects.nv_tileas import NvTileAS
from tileiras.dialects.nvvm import NVVM
from tileiras.interpreter.ptx.command import option_names as run_options
from tileiras.layout_command.command import option_names as layout_options

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "mkdocs.yml"
MADE = "<!-- Made by `make bless` from {source}. -->"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")

DIALECTS: dict[str, tuple[Dialect, str]] = {
    "cuda_tile": (CudaTile, "The input: tiles and views, without hardware."),
    "nv_tileaa": (
        NvTileAA,
        "Tensors, typed pointers, tokens that order memory accesses, and facts as attributes.",
    ),
    "nv_tileas": (
        NvTileAS,
        "What has a place in registers or in shared memory, warp roles, pipelines and matrix "
        "instructions on whole tiles. Operations that need nothing of this keep their names of "
        "[nv_tileaa](nv_tileaa.md).",
    ),
    "nvvm": (NVVM, "What a GPU thread has beyond LLVM, on vectors of the thread's own elements."),
    "llvm": (LLVM, "LLVM IR on vectors: an operation means what LLVM's instruction means."),
}


def first_sentences(documentation: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(documentation or "").split("\n\n")[0].split())


def _names(definitions: Iterable[tuple[str, object]]) -> str:
    """Names in backquotes; `?` and `*` behind what may be missing or stand several times."""
    marked: list[str] = []
    for name, definition in definitions:
        mark = "?" if isinstance(definition, OptionalDef) else ""
        mark = mark or ("*" if isinstance(definition, VariadicDef) else "")
        marked.append(f"`{name}`{mark}")
    return ", ".join(marked)


def operation_item(operation: type[Operation]) -> str:
    """Name, what the operation does, and its operands, attributes and results."""
    assert issubclass(operation, IRDLOperation)
    definition = operation.get_irdl_definition()
    segments = {"operandSegmentSizes", "resultSegmentSizes"}
    data = [
        (name, one)
        for name, one in (*definition.properties.items(), *definition.attributes.items())
        if name not in segments
    ]
    lines = [f"- `{operation.name.partition('.')[2]}`: {first_sentences(operation.__doc__)}"]
    for kind, names in (
        ("Operands", definition.operands),
        ("Attributes", data),
        ("Results", definition.results),
    ):
        lines += [f"    - {kind}: {_names(names)}"] if names else []
    return "\n".join(lines)


def attribute_item(attribute: type[Attribute]) -> str:
    """Name of a type or attribute, and what it stands for."""
    return f"- `{attribute.name}`: {first_sentences(attribute.__doc__)}"


def _list(items: Iterable[str]) -> str:
    """Items of a list, each wrapped."""
    return wrapped("\n".join(items)).rstrip()


def dialect_page(name: str) -> str:
    """Operations by the file that they are in, then types and attributes."""
    dialect, introduction = DIALECTS[name]
    parts = [
        f"# The dialect {name}",
        MADE.format(source="the docstrings of the dialect"),
        wrapped(introduction).strip(),
        wrapped(
            "`?` behind a name: it may be missing; `*`: any number. Types of operands and rules "
            "that a verifier checks are in the files named below."
        ).strip(),
    ]
    chapters: dict[str, list[type[Operation]]] = {}
    for operation in dialect.operations:
        chapters.setdefault(operation.__module__, []).append(operation)
    for module, operations in chapters.items():
        parts.append(f"## {module.rpartition('.')[2].replace('_', ' ').capitalize()}")
        parts.append(f"`{module.replace('.', '/')}.py`")
        parts.append(_list(map(operation_item, operations)))
    if attributes := list(dialect.attributes):
        parts.append("## Types and attributes")
        parts.append(_list(map(attribute_item, attributes)))
    return "\n\n".join(parts) + "\n"


def _item(forms: str, value: str, said: str) -> str:
    """An option: its forms, its value where it takes one, and what is said of it."""
    return f"- {forms}{f' `{value}`' if value else ''}: {' '.join(said.split())}"


def option_item(option: Option) -> str:
    """All forms of an option, its value, and what it does or why it does nothing."""
    names = (option.name, *option.aliases)
    forms = ", ".join(f"`-{one}`" if len(one) == 1 else f"`--{one}`" for one in names)
    said = option.help
    if option.choices:
        said += f" One of: {', '.join(option.choices)}."
    if option.inert:
        said += f" Without effect: {option.inert}."
    if option.refused:
        said += f" Refused: {option.refused}."
    return _item(forms, option.metavar if option.takes_value else "", said)


def options_page() -> str:
    """A list for each group of options of each command."""
    parts = [
        "# Options of all commands",
        MADE.format(source="the tables of the command line"),
        wrapped(
            "Every option of every command, those of `--help-hidden` included. How options are "
            "written, exit codes and environment: [command-line.md](command-line.md)."
        ).strip(),
    ]
    for command, table in TABLES.items():
        parts.append(f"## {command}")
        groups: dict[str, list[Option]] = {}
        for option in table():
            groups.setdefault(option.group, []).append(option)
        for group, options in groups.items():
            if len(groups) > 1:
                parts.append(f"### {command}: {group}")
            parts.append(_list(map(option_item, options)))
    for command, named in (("tileiras-run", run_options), ("tileiras-layout", layout_options)):
        items = [_item(f"`--{name}`", value, said) for name, said, value in named()]
        parts += [f"## {command}", _list(items)]
    return "\n\n".join(parts) + "\n"


def first_page(readme: str) -> str:
    """README as docs/index.md: links into docs are links between pages, others plain text."""

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        if re.match(r"https?:|#", target):
            return match.group()
        if target.startswith("docs/"):
            return f"[{text.removeprefix('docs/')}]({target.removeprefix('docs/')})"
        return text if text.startswith("`") else f"`{text}`"

    title, _, body = LINK.sub(link, readme).partition("\n\n")
    return wrapped(f"{title}\n\n{MADE.format(source='README.md')}\n\n{body}")


def title_of(page: Path) -> str:
    """The first heading of a page, without backquotes."""
    text = page.read_text(encoding="utf-8")
    return re.search(r"^# (.*)$", text, re.MULTILINE)[1].replace("`", "")  # pyright: ignore


def _entries(folder: str) -> Iterator[str]:
    """Lines of the navigation for all pages of a folder."""
    for page in sorted((DOCS / folder).glob("*.md")):
        title = title_of(page).replace('"', "'")
        yield f'      - "{title}": {folder}/{page.name}'


def navigation(site: str) -> str:
    """mkdocs.yml with the folders' pages listed between their marks."""

    def listed(match: re.Match[str]) -> str:
        return "\n".join([match[1], *_entries(match[2]), match[3]])

    pattern = r"(      # pages of (\S+)) *\n(?:.*\n)*?(      # end of \2)"
    return re.sub(pattern, listed, site)


def pages_in_navigation(site: str) -> list[str]:
    """The pages that mkdocs.yml names, in order."""
    return re.findall(r"^ +- .*?([\w./-]+\.md)$", site, re.MULTILINE)


def made_pages() -> dict[Path, str]:
    """Every page that is made here."""
    return {
        DOCS / "index.md": first_page((ROOT / "README.md").read_text(encoding="utf-8")),
        DOCS / "options.md": options_page(),
        **{DOCS / "dialects" / f"{name}.md": dialect_page(name) for name in DIALECTS},
    }


def slug(heading: str) -> str:
    """The anchor that mkdocs and GitHub make of a heading of letters, digits and punctuation."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def broken_links(page: str, text: str, known: dict[str, str]) -> list[str]:
    """Links of a page (its path in docs) to pages and headings that are not there."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "``", prose)
    broken: list[str] = []
    for _, target in LINK.findall(prose):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        path = normpath(f"{page}/../{file}") if file else page
        if path not in known:
            broken.append(target)
        elif anchor and path.endswith(".md"):
            headings = re.findall(r"^#+ (.*)$", known[path], re.MULTILINE)
            if anchor not in map(slug, headings):
                broken.append(target)
    return broken
