"""Makes docs/passes.md and a page for each pass: docstring, options, place, example.

What stands on a page below KEPT is written by hand and stays.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import MISSING, fields
from pathlib import Path

from pass_files import ShownPass, cases_of_passes, show

from tileiras.ir_pass import IrPass
from tileiras.options import CUTE
from tileiras.pass_names import ELSEWHERE
from tileiras.pipeline import CUTE_PIPELINE, PIPELINE, PRINTING, Step
from tileiras.registry import load_pass

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "passes.md"
FOLDER = ROOT / "docs" / "passes"
KEPT = "<!-- What follows is written by hand. -->"
MADE = "<!-- Made by `make bless` from the docstring and the file test of the pass. -->"
WORDS = ("Before", "After", "Requires", "Leaves")
MAX_LINES = 70
COLUMNS = 100


def sections(documentation: str) -> tuple[str, list[tuple[str, str]]]:
    """What a docstring says first, then its sections in order: word, text."""
    text = inspect.cleandoc(documentation)
    parts = re.split(rf"^({'|'.join(WORDS)})\b", text, flags=re.MULTILINE)
    first, rest = parts[0].strip(), parts[1:]
    return first, [
        (word, unhung(body, len(word))) for word, body in zip(rest[::2], rest[1::2], strict=True)
    ]


def unhung(body: str, indent: int) -> str:
    """The text of a section, whose first line follows a word of `indent` characters."""
    return textwrap.dedent(" " * indent + body).strip("\n").rstrip()


def wrapped(text: str) -> str:
    """Prose, at most COLUMNS wide, paragraph by paragraph."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(textwrap.fill(part, COLUMNS, break_on_hyphens=False) for part in paragraphs)


def narrow(text: str) -> str:
    """Code in lines that are not too long."""
    lines: list[str] = []
    for line in text.split("\n"):
        deep = " " * (len(line) - len(line.lstrip()) + 4)
        pieces = textwrap.wrap(line, COLUMNS, subsequent_indent=deep, break_on_hyphens=False)
        lines += pieces or [""]
    return "\n".join(lines)


def fenced(text: str, language: str = "") -> str:
    """A listing, cut off after MAX_LINES lines."""
    lines = text.rstrip("\n").split("\n")
    left = len(lines) - MAX_LINES
    if left > 5:
        lines = [*lines[:MAX_LINES], f"// ... and {left} lines more"]
    return "\n".join([f"```{language}", *lines, "```"])


def documented(pass_class: type[IrPass]) -> dict[str, str]:
    """Field -> the docstring below it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(pass_class)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, below in zip(body, body[1:]):
        if not isinstance(field, ast.AnnAssign) or not isinstance(below, ast.Expr):
            continue
        if isinstance(below.value, ast.Constant) and isinstance(field.target, ast.Name):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def option_rows(pass_class: type[IrPass]) -> list[str]:
    """A row for each option: name, type, default, what it says."""
    told = documented(pass_class)
    rows: list[str] = []
    for field in fields(pass_class):
        name = field.name.replace("_", "-")
        default = "required" if field.default is MISSING else f"`{field.default}`"
        kind = str(field.type).replace("|", "or")
        rows.append(f"| `{name}` | {kind} | {default} | {told.get(field.name, '')} |")
    return rows


def place(step: Step) -> str:
    """When the pass runs, in words; a pass with several places is described by its first."""
    if step in PRINTING:
        return f"In no pipeline, on {step.stage}: {step.reason}."
    steps = CUTE_PIPELINE if step in CUTE_PIPELINE else PIPELINE
    position = steps.index(step)
    first = CUTE if steps is CUTE_PIPELINE else "cuda_tile"
    before = steps[position - 1].stage if position else first
    level = f"from -O{step.min_opt}" if step.min_opt else "at every -O level"
    level += ", with `-g` alone" if step.only_debug else ""
    needs = [f"`{name.lower()}`" for name in step.needs]
    needs += [" or ".join(f"`{name.lower()}`" for name in step.needs_one)] * bool(step.needs_one)
    where = f", on targets with {' and '.join(needs)}" if needs else ""
    where = ", if the target is known" if step.needs_target else where
    stages = f"on {before}" if before == step.stage else f"from {before} to {step.stage}"
    reasons = [
        f"in front of `{following.pass_name}` ({other.reason})"
        for other, following in zip(steps, steps[1:])
        if other.pass_name == step.pass_name
    ]
    if len(reasons) < 2:
        return f"Runs {stages}, {level}{where}. Its place in the pipeline: {step.reason}."
    return f"Runs {stages}, {level}{where}. It has several places: {', '.join(reasons)}."


def page(step: Step, shown: ShownPass) -> str:
    """The generated part of a page."""
    pass_class = load_pass(step.pass_name)
    first, parts = sections(pass_class.__doc__ or "")
    source = Path(inspect.getfile(pass_class)).resolve().relative_to(ROOT).as_posix()
    test = shown.case.path.relative_to(ROOT).as_posix()
    pieces = [f"# {step.pass_name}", MADE, wrapped(first)]
    for word, text in parts:
        if word in ("Before", "After"):
            pieces += [f"**{word}**", fenced(narrow(text))]
        else:
            pieces.append(wrapped(f"**{word}** {text}"))
    pieces += ["## When it runs", wrapped(place(step))]
    rows = option_rows(pass_class)
    if rows:
        head = "| option | type | default | what |\n|---|---|---|---|"
        pieces += ["## Options", "\n".join([head, *rows])]
    pieces += ["## Example", f"The first case of `{test}`, just before the pass:"]
    pieces.append(fenced(shown.before, "mlir"))
    if shown.error:
        pieces.append(wrapped(f"The pass rejects it: `{shown.error}`."))
    else:
        pieces += ["And after it:", fenced(shown.after, "mlir")]
    pieces.append(wrapped(f"The code is in `{source}`."))
    return "\n\n".join(pieces) + "\n"


def first_places(steps: tuple[Step, ...] = PIPELINE) -> list[Step]:
    """The step of each pass, the first one of a pass with several."""
    found: dict[str, Step] = {}
    for step in steps:
        found.setdefault(step.pass_name, step)
    return list(found.values())


def pages() -> dict[str, str]:
    """Pass -> the generated part of its page."""
    cases = cases_of_passes()
    return {
        step.pass_name: page(step, show(cases[step.pass_name][0]))
        for step in (*first_places(), *CUTE_PIPELINE, *PRINTING)
        if cases[step.pass_name]
    }


def index() -> str:
    """docs/passes.md, its generated part."""
    seeds = [
        f"- `{name}`, by {f'[`{ours}`](passes/{ours}.md)' if ours else 'nothing'}: {what}"
        for name, (ours, what) in ELSEWHERE.items()
    ]
    return "\n".join(
        [
            "# Passes",
            "",
            MADE,
            "",
            "In the order in which they run; `choose-strategy` runs again later. The names are the",
            "interface: `--print-before=NAME`, `--print-after=NAME`, `--pass-pipeline=NAME,NAME`,",
            "dumps and timings use them.",
            "",
            *_items("cuda_tile", first_places()),
            "",
            "## Programs in CuTe's dialects",
            "",
            *_items(CUTE, list(CUTE_PIPELINE)),
            "",
            "## Passes that print",
            "",
            "In no pipeline; `--pass-pipeline` runs them.",
            "",
            *(item for step in PRINTING for item in _items(step.stage, [step])),
            "",
            "## Names of passes in NVIDIA's compiler",
            "",
            "Whoever asks for one of them is told which pass of ours does the work.",
            "",
            *(_item(seed) for seed in seeds),
            "",
        ]
    )


def _item(text: str) -> str:
    """An item of a list, wrapped."""
    return textwrap.fill(text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


def _items(first: str, steps: list[Step]) -> list[str]:
    """An item for each pass of a pipeline that begins with a stage; where it stays is not said."""
    before = [first, *(step.stage for step in steps)]
    return [
        _item(
            f"- [`{step.pass_name}`](passes/{step.pass_name}.md), "
            f"{start if start == step.stage else f'{start} to {step.stage}'}: {summary(step)}"
        )
        for start, step in zip(before, steps)
    ]


def summary(step: Step) -> str:
    """The first sentence of a pass's docstring, without its full stop."""
    first, _ = sections(load_pass(step.pass_name).__doc__ or "")
    return " ".join(first.split("\n\n")[0].split()).rstrip(".")


def kept(text: str) -> str:
    """What is written by hand on a page, with the line that tells."""
    _, marker, rest = text.partition(f"\n{KEPT}\n")
    return f"\n{marker.strip()}\n{rest}" if marker else ""
