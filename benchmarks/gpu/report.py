"""The benchmark's figures as a table on the terminal, as Markdown, and as a bar chart in SVG.

python benchmarks/gpu/report.py bench-gpu.json --output docs/performance.md
"""

from __future__ import annotations

import argparse
import html
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from goals import Goal, Outcome, goals_of, outcomes, read_goals

RATES = {"f16": 798e12, "tf32": 399e12, "fp8": 1596e12, "int8": 1596e12, "f32": 133e12}
"""Operations per second that an H100 SXM holds under load: f16 as measured with torch on random
data at 8192^3, the others by the rate relative to f16; f32 is six products of bf16."""

DEFAULT_COPY = 3.0e12
"""Bytes per second of a copy on an H100 SXM; a run measures its own."""

TOOLS = ("ours", "vendor", "library")
COLOURS = {"ours": "#2f6fab", "vendor": "#b8b8b8", "library": "#e0a030"}
HEADINGS = {
    "GEMM": "Products",
    "attention": "Attention",
    "attention variants": "Variants of attention, and its gradients",
    "memory": "Memory-bound kernels",
}

NOTES = "\n## Notes\n"

BESIDE = {"library": "x library", "vendor": "x vendor", "floor": "x floor", "speed": "speed"}
NO_REASON = "not looked into yet"

DECISIONS = Path(__file__).resolve().parents[2] / "docs" / "decisions"


def figures(
    entry: dict[str, Any], result: dict[str, Any], machine: dict[str, Any]
) -> dict[str, Any]:
    """A row of the tables: speeds, ratios, and what is wrong with our cubins."""
    tools = result["tools"]
    floor = max(
        entry["flops"] / RATES[entry["rate"]], entry["bytes"] / machine.get("copy", DEFAULT_COPY)
    )
    is_memory = entry["group"] == "memory" or floor > entry["flops"] / RATES[entry["rate"]]
    work = entry["bytes"] / 1e3 if is_memory else entry["flops"] / 1e6
    variants: list[str] = entry.get("variants", [])
    row: dict[str, Any] = {
        "name": entry["name"],
        "group": entry["group"],
        "unit": "GB/s" if is_memory else "TFLOP/s",
        "floor_us": floor * 1e6,
        "specialised": entry["ours"].get("specialised"),
        "registers": entry["ours"].get("registers"),
        "spills": entry["ours"].get("spills"),
        "tools": tools,
        "variants": variants,
        "speed": {
            name: work / tools[name]["us"]
            for name in (*TOOLS, *variants)
            if "us" in tools.get(name, {})
        },
        "faults": faults(entry, result),
    }
    us = {name: tools[name]["us"] for name in row["speed"]}
    if "ours" in us:
        row["of_floor"] = floor * 1e6 / us["ours"]
        for other in ("library", "vendor"):
            if other in us:
                row[f"of_{other}"] = us[other] / us["ours"]
    return row


def faults(entry: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """What makes the entry fail: errors, wrong results, spills, serialised products."""
    found = []
    ours = result["tools"].get("ours", {})
    if "error" in result:
        found.append(result["error"].splitlines()[0][:120])
    if "error" in entry["ours"]:
        found.append("does not compile")
    if "error" in ours:
        found.append(ours["error"].splitlines()[0][:80])
    if ours.get("wrong"):
        found.append(f"{ours['wrong']} elements wrong")
    if entry["ours"].get("spills"):
        found.append(f"{entry['ours']['spills']} bytes spilled")
    if any("C7510" in line or "C7511" in line for line in entry["ours"].get("advisories", [])):
        found.append("products serialised")
    for name in entry.get("variants", []):
        if "error" in entry[name]:
            found.append(f"{name}: does not compile")
        if wrong := result["tools"].get(name, {}).get("wrong"):
            found.append(f"{name}: {wrong} elements wrong")
    return found


def speed_of(row: dict[str, Any], tool: str) -> str:
    """A cell: time and speed, or what happened instead."""
    record = row["tools"].get(tool, {})
    if "us" not in record:
        return "error" if "error" in record else "-"
    mark = " wrong" if record.get("wrong") else ""
    us = f"{record['us']:.{1 if record['us'] < 1000 else 0}f}"
    return f"{us} us {row['speed'][tool]:.0f}{mark}"


def ratio(row: dict[str, Any], key: str) -> str:
    """A cell: a ratio of speeds."""
    return f"{row[key]:.2f}" if key in row else "-"


def beside(row: dict[str, Any], measure: str, goal: Goal | None) -> str:
    """A cell: how our speed compares, and the figure aimed at where it is not reached."""
    cell, figure = ratio(row, f"of_{measure}"), row.get(f"of_{measure}")
    if goal is None or figure is None or Outcome(row["name"], goal, figure).is_reached:
        return cell
    return f"{cell} ({goal.asked:.2f})"


def cells(row: dict[str, Any], goals: list[Goal]) -> list[str]:
    """A row of either table."""
    asked = goals_of(row["name"], goals)
    return [
        row["name"],
        *(speed_of(row, tool) for tool in TOOLS),
        *(beside(row, measure, asked.get(measure)) for measure in ("library", "vendor", "floor")),
        "; ".join(["roles"] * bool(row["specialised"]) + row["faults"]),
    ]


COLUMNS = [
    "work",
    "ours",
    "vendor",
    "library",
    "x library",
    "x vendor",
    "x floor",
    "remarks",
]


def variant_cells(row: dict[str, Any], names: list[str]) -> list[str]:
    """Times of the variants, and the first one's speed as a multiple of each other's."""
    us = {name: row["tools"].get(name, {}).get("us") for name in names}
    known = [us[names[0]] and us[name] and us[name] / us[names[0]] for name in names[1:]]
    return [
        *(speed_of(row, name) for name in names),
        *("-" if factor is None else f"{factor:.2f}" for factor in known),
    ]


def rich_table(outcome: dict[str, Any]) -> None:
    """Prints the figures, and in a table of their own those of variants."""
    from rich.console import Console
    from rich.table import Table

    machine = outcome["machine"]
    copy = machine.get("copy", DEFAULT_COPY) / 1e12
    table = Table(title=f"{machine.get('device')}, a copy moves {copy:.2f} TB/s")
    last, goals = len(COLUMNS) - 1, read_goals()
    for position, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if position in (0, last) else "right")
    for row in outcome["rows"]:
        table.add_row(*cells(row, goals))
    console = Console(width=200)
    console.print(table)
    found = outcomes(outcome["rows"], goals)
    console.print(f"{sum(one.is_reached for one in found)} of {len(found)} goals are reached")
    names = outcome["rows"][0]["variants"] if outcome["rows"] else []
    if names:
        columns = ["work", *names, *(f"{names[0]} x {name}" for name in names[1:]), "remarks"]
        table = Table(*columns, title="Variants")
        for row in outcome["rows"]:
            table.add_row(row["name"], *variant_cells(row, names), "; ".join(row["faults"]))
        console.print(table)


LEGEND = {
    "ours, vendor, library": "the median time of a launch, warm, and the speed: TFLOP/s, or GB/s "
    "where memory is the floor",
    "x library, x vendor, x floor": "our speed as a multiple of theirs; the floor is the larger of "
    "operations over the tensor cores' rate, and bytes over the speed of a copy",
    "in brackets": "the figure that this project aims at (`benchmarks/gpu/goals.toml`), where "
    "it is not reached; what stands in the way is told [below](#goals)",
    "remarks": "roles: warps have roles, as in a producer and consumers; and what should not be: "
    "wrong results, errors, spills, or products that ptxas serialises",
}
"""What the columns of a table are."""


def markdown(outcome: dict[str, Any], chart: str) -> str:
    """The page docs/performance.md."""
    machine, goals = outcome["machine"], read_goals()
    lines = [
        "# Performance",
        "",
        f"Measured on one {machine.get('device', 'GPU')} by `make bench-gpu`. Three contenders run",
        "in one process, in turns: cubins of this compiler (ours) and of NVIDIA's tileiras 13.5",
        "(vendor), made from the same bytecode, and the library (cuBLAS, cuDNN or the kernels of",
        "torch). Results are checked against float64 before anything is timed.",
        "",
        *(
            textwrap.fill(f"- {column}: {what}", 100, subsequent_indent="  ")
            for column, what in LEGEND.items()
        ),
        "",
        f"A copy moves {machine.get('copy', DEFAULT_COPY) / 1e12:.2f} TB/s here.",
        "",
        f"![Speed relative to the library]({chart})",
    ]
    for group, heading in HEADINGS.items():
        rows = [row for row in outcome["rows"] if row["group"] == group]
        if not rows:
            continue
        lines += ["", f"## {heading}", "", "| " + " | ".join(COLUMNS) + " |"]
        lines.append("|---|" + "---:|" * (len(COLUMNS) - 2) + "---|")
        lines += ["| " + " | ".join(cells(row, goals)) + " |" for row in rows]
    return "\n".join([*lines, *_goals_section(outcomes(outcome["rows"], goals))]) + "\n"


def _goals_section(found: list[Outcome]) -> list[str]:
    """What is not reached, below what stands in the way and the decisions on what was tried."""
    missed = [one for one in found if not one.is_reached]
    reasons: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in missed:
        asked, got = (
            f"{figure:.{0 if one.goal.measure == 'speed' else 2}f}"
            for figure in (one.goal.asked, one.found)
        )
        line = f"{one.name}: {BESIDE[one.goal.measure]} {got}, asked {asked}"
        reasons.setdefault((one.goal.why, one.goal.tried), []).append(line)
    lines = [
        "",
        "## Goals",
        "",
        f"{len(found) - len(missed)} of {len(found)} are reached; not:",
        "",
    ]
    for (why, tried), works in reasons.items():
        links = ", ".join(_link(number) for number in tried)
        head = why + (f" (decisions {links})" if links else "")
        lines.append(_item(head or NO_REASON))
        lines += [_item(work, "    ") for work in works]
    return lines


def _item(text: str, indent: str = "") -> str:
    """An item of a list; links stay whole."""
    return textwrap.fill(
        f"- {text}",
        100,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )


def _link(number: str) -> str:
    """A link to a decision from a page of docs/; its number alone if there is no such file."""
    for page in sorted(DECISIONS.glob(f"{number}-*.md")):
        return f"[{int(number)}](decisions/{page.name})"
    return number


def svg(outcome: dict[str, Any]) -> str:
    """Bars for every entry that a library was timed on: speed relative to the library's."""
    rows = [row for row in outcome["rows"] if "library" in row["speed"]]
    left, width, step, bar = 330, 420, 34, 12
    height = step * len(rows) + 60
    scale = width / 1.5
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + 60}" height="{height}" fill="white"/>',
    ]
    for position, tool in enumerate(("ours", "vendor")):
        x = left + 110 * position
        parts.append(f'<rect x="{x}" y="12" width="14" height="14" fill="{COLOURS[tool]}"/>')
        parts.append(f'<text x="{x + 20}" y="24">{tool}</text>')
    parts.append(f'<text x="{left + 220}" y="24">line: the library</text>')
    for index, row in enumerate(rows):
        top, name = 40 + step * index, html.escape(row["name"])
        parts.append(f'<text x="{left - 8}" y="{top + 17}" text-anchor="end">{name}</text>')
        for position, tool in enumerate(("ours", "vendor")):
            share = row["speed"].get(tool, 0.0) / row["speed"]["library"]
            y, length = top + position * bar, min(share, 1.5) * scale
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 1}"'
                f' fill="{COLOURS[tool]}"/>'
            )
            parts.append(
                f'<text x="{left + length + 4:.1f}" y="{y + 10}" font-size="10">{share:.2f}</text>'
            )
    line = left + scale
    parts.append(
        f'<line x1="{line}" x2="{line}" y1="34" y2="{height - 20}" stroke="{COLOURS["library"]}"'
        ' stroke-width="2"/>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def kept_notes(page: Path) -> str:
    """What people wrote below the tables: all from the heading of the notes on."""
    text = page.read_text() if page.exists() else ""
    return text[text.index(NOTES) :] if NOTES in text else ""


def main() -> int:
    """Writes the page and its chart."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("--output", type=Path, default=Path("docs/performance.md"))
    options = parser.parse_args()
    outcome = json.loads(options.json.read_text())
    chart = options.output.with_suffix(".svg")
    chart.write_text(svg(outcome))
    notes = kept_notes(options.output)
    options.output.write_text(markdown(outcome, chart.name) + notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
