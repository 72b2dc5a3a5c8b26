"""docs/schedules.md: its tables are the rows of the targets, its listings what passes print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from tests.filetests.ir_case import read_cases
from tileiras.codegen.target import Performance, Work
from tileiras.codegen.target.performance import PERFORMANCE, Throughput
from tileiras.driver import compile_module
from tileiras.options import CompileOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "schedules.md"
KERNELS = ROOT / "tests" / "filetests" / "nv_tileaa" / "generate_schedule.mlir"
CHOOSE = "choose-strategy"
GENERATE, EXPAND = "tileas-generate-schedule", "tileas-expand-schedule"
TEXT = ("source", "reservations", "throughput")
NUMBERS = tuple(field.name for field in fields(Performance) if field.name not in TEXT)
RATES = tuple(field.name for field in fields(Throughput))


def units_table() -> str:
    """A row for each kind of work; targets with the same rows stand together."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, speed in PERFORMANCE.items():
        cells = tuple(
            ", ".join(f"`{hold.unit.value}` {hold.per_cycle}" for hold in speed.reservations[work])
            for work in Work
        )
        columns.setdefault(cells, []).append(name)
    heads = " | ".join(", ".join(names) for names in columns.values())
    lines = [f"| work | {heads} |", "|---" * (1 + len(columns)) + "|"]
    for number, work in enumerate(Work):
        lines.append(f"| `{work.value}` | {' | '.join(cells[number] for cells in columns)} |")
    return "\n".join(lines)


def performance_table() -> str:
    """A row for each number, a column for each target; then where they are from."""
    lines = [f"| | {' | '.join(PERFORMANCE)} |", "|---" * (1 + len(PERFORMANCE)) + "|"]
    for name in (*NUMBERS, *RATES):
        holders = [one if name in NUMBERS else one.throughput for one in PERFORMANCE.values()]
        numbers = " | ".join(str(getattr(holder, name)) for holder in holders)
        lines.append(f"| `{name}` | {numbers} |")
    sources = [f"- {name}: {speed.source}" for name, speed in PERFORMANCE.items()]
    return "\n".join([*lines, "", *sources])


def listing(*names: str) -> str:
    """The loop of attention, after these passes."""
    [source] = [case for case in read_cases(KERNELS) if case.name == "attention"]
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileaa")
    text = compile_module(source.text.encode(), options, pass_names=names).output.decode()
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if "nv_tileaa.for" in line or ".if" in line)
    last = next(i for i in range(first, len(lines)) if lines[i] == "    }")
    return "\n".join(["```mlir", *(line[4:] for line in lines[first : last + 1]), "```"])


MADE: dict[str, Callable[[], str]] = {
    "units": units_table,
    "performance": performance_table,
    "generated": lambda: listing(CHOOSE, GENERATE),
    "expanded": lambda: listing(CHOOSE, GENERATE, EXPAND),
}


@pytest.mark.parametrize("mark", MADE)
def test_the_page_is_current(request: pytest.FixtureRequest, mark: str) -> None:
    """`make bless` writes it anew."""
    start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
    shown, _, after = rest.partition(end)
    assert after, f"the page has no {mark}"
    made = MADE[mark]()
    if request.config.getoption("--bless"):
        PAGE.write_text(f"{before}{start}{made}{end}{after}", encoding="utf-8")
        return
    assert shown == made
