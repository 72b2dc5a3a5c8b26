"""Which modules of the package import which, read off their sources, and a drawing of it.

Every import counts: those in functions, and those for types only.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "tileiras"
CUT = ("dialects", "passes", "codegen")
"""Packages that are drawn package by package within."""
BELOW_PASSES = ("dialects", "codegen", "bytecode", "runtime", "interpreter", "analysis", "planning")
FLOOR = (
    "colors",
    "diagnostic_output",
    "early_signals",
    "errors",
    "excerpts",
    "file_replacement",
    "limits",
    "options",
    "remarks",
    "suggestions",
    "termination",
    "text_limits",
)
PASS = "ir_pass"
"""What a pass is: above the targets, which its context knows."""

Graph = dict[str, list[str]]


@cache
def _tree(path: Path) -> ast.Module:
    """The syntax tree of a source."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    """A source as others import it, below `tileiras`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def import_graph() -> Graph:
    """Which modules of ours each one imports: anywhere, also in functions or for types only."""
    modules = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    graph: Graph = {}
    for module, path in modules.items():
        found: dict[str, None] = {}
        for node in ast.walk(_tree(path)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "tileiras."
            ):
                continue
            base = str(node.module).removeprefix("tileiras.")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found[inner if inner in modules else base] = None
        graph[module] = [other for other in found if other in modules and other != module]
    return graph


@cache
def import_graph_with_packages() -> Graph:
    """The same, where who imports a module imports the packages that it is in, too.

    Python runs `a/__init__.py` before `a.b`. What is in a package itself is counted as importing
    it only where it names it, as in `from a import b`.
    """
    graph: Graph = {}
    for module, others in import_graph().items():
        found = dict.fromkeys(_named_packages(module))
        for other in others:
            parts = other.split(".")
            above = (".".join(parts[:count]) for count in range(1, len(parts)))
            outside = (package for package in above if not f"{module}.".startswith(f"{package}."))
            found.update(dict.fromkeys((*outside, other)))
        graph[module] = list(found)
    return graph


def _named_packages(module: str) -> list[str]:
    """The packages of which a module imports a part by `from PACKAGE import PART`."""
    path = PACKAGE.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = [
        str(node.module).removeprefix("tileiras.")
        for node in ast.walk(_tree(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tileiras.")
    ]
    return [name for name in found if name != module and name in import_graph()]


def circles(graph: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """Sets of modules that reach each other, each sorted."""
    reached: dict[str, dict[str, None]] = {}
    for module in graph:
        seen: dict[str, None] = {}
        pending = list(graph[module])
        while pending:
            other = pending.pop()
            if other not in seen:
                seen[other] = None
                pending += graph[other]
        reached[module] = seen
    found = {
        tuple(sorted(other for other in seen if module in reached[other])): None
        for module, seen in reached.items()
        if module in seen
    }
    return sorted(found)


def row_of(module: str) -> str:
    """The row of the drawing that a module is in."""
    first, *inner = module.split(".")
    if first in CUT:
        has_own = bool(inner) and (first == "dialects" or (PACKAGE / first / inner[0]).is_dir())
        return f"{first}/{inner[0]}" if has_own else f"{first}/*.py"
    if first in BELOW_PASSES:
        return first
    if first in FLOOR:
        return "errors, options, remarks"
    return PASS if first == PASS else "pipeline, driver, cli"


def rows() -> Graph:
    """Which rows of the drawing import which."""
    found: dict[str, dict[str, None]] = {}
    for module, others in import_graph().items():
        if not module:  # the package itself
            continue
        own = row_of(module)
        used = (row_of(other) for other in others)
        found.setdefault(own, {}).update(dict.fromkeys(row for row in used if row != own))
    return {row: list(others) for row, others in found.items()}


def in_order(graph: Mapping[str, list[str]]) -> list[str]:
    """The rows from top to bottom: whoever imports stands above what it imports."""
    waiting = {row: dict.fromkeys(others) for row, others in sorted(graph.items())}
    order: list[str] = []
    while waiting:
        ready = [row for row, others in waiting.items() if not any(o in waiting for o in others)]
        if not ready:
            raise ValueError(f"a circle among {', '.join(waiting)}")
        order.append(ready[0])
        del waiting[ready[0]]
    return order[::-1]


CELL, LABELS, HEIGHT = 16, 210, 20
"""Policy: of the drawing, in pixels: a column, the names at the left, room above the first row."""


def drawing(graph: Mapping[str, list[str]]) -> str:
    """The rows as a table in SVG: a square in column N says that the row imports row N.

    Below the diagonal there is none: rows import what stands under them.
    """
    order = in_order(graph)
    places = {row: number for number, row in enumerate(order)}
    side = CELL * len(order)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + side + 2}" '
        f'height="{HEIGHT + side + 2}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for row, number in places.items():
        y = HEIGHT + CELL * number
        lines.append(f'<text x="{LABELS - 6}" y="{y + 12}" text-anchor="end">{row}')
        lines[-1] += f' <tspan fill="#777777">{number + 1}</tspan></text>'
        lines.append(
            f'<text x="{LABELS + CELL * number + CELL // 2}" y="{HEIGHT - 6}" '
            f'text-anchor="middle" font-size="9" fill="#777777">{number + 1}</text>'
        )
        lines.append(f'<path d="M{LABELS} {y}h{side}" stroke="#e4e4e4"/>')
        lines.append(f'<path d="M{LABELS + CELL * number} {HEIGHT}v{side}" stroke="#e4e4e4"/>')
        colors = [(number, "#bbbbbb"), *((places[other], "#2f6fb0") for other in graph[row])]
        for column, color in sorted(colors):
            x = LABELS + CELL * column + 2
            lines.append(
                f'<rect x="{x}" y="{y + 2}" width="{CELL - 3}" height="{CELL - 3}" fill="{color}"/>'
            )
    return "\n".join([*lines, "</svg>", ""])
