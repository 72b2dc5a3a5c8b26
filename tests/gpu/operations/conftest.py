"""Runs the selected rows together, in processes, and prints their table at the end."""

from __future__ import annotations

import os
from collections import defaultdict
from io import StringIO
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .checking import Outcome
    from .rows import Row

OUTCOMES = pytest.StashKey["list[tuple[Row, Outcome]]"]()
WORKERS = 12


class OneByOne(dict[int, "Outcome"]):
    """Runs rows in this process when they are asked for: what is left under pytest-xdist."""

    def __missing__(self, number: int) -> Outcome:
        from ..launch import gpu_name
        from .checking import run_row
        from .table import ROWS

        self[number] = run_row(ROWS[number], "launch", gpu_name())
        return self[number]


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[int, Outcome]:
    """What became of every selected row, by its number."""
    if hasattr(request.config, "workerinput"):
        return OneByOne()
    from ..launch import gpu_name
    from .pool import run_rows
    from .table import ROWS

    chosen = [
        item.callspec.params["number"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.get_closest_marker("gpu_row") is not None
        and hasattr(item, "callspec")
    ]
    jobs = min(WORKERS, os.cpu_count() or 1)
    found = dict(run_rows(chosen, "launch", gpu_name(), jobs))
    request.config.stash[OUTCOMES] = [(ROWS[number], found[number]) for number in sorted(found)]
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker by which the fixture finds the selected rows."""
    config.addinivalue_line("markers", "gpu_row: one row of the table of operations")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line for each family: how many rows, what became of them, the worst error."""
    results = config.stash.get(OUTCOMES, [])
    if not results:
        return
    families: dict[str, list[tuple[Row, Outcome]]] = defaultdict(list)
    for row, outcome in results:
        families[row.family].append((row, outcome))
    statuses = ("passed", "failed", "crashed", "unsupported")
    from rich.console import Console
    from rich.table import Table

    table = Table("family", "rows", *statuses, "worst error / bound (ulp)", "row")
    for family, members in families.items():
        counts = [str(sum(o.status == status for _, o in members)) for status in statuses]
        table.add_row(family, str(len(members)), *counts, *worst_of(members))
    terminalreporter.section("operations on the GPU")
    text = StringIO()
    Console(file=text, width=150).print(table)
    terminalreporter.write_line(text.getvalue())


def worst_of(members: list[tuple[Row, Outcome]]) -> tuple[str, str]:
    """The error nearest to (or farthest above) its bound, and whose it is."""
    bounded = [(row, outcome) for row, outcome in members if outcome.bound > 0]
    if not bounded:
        return "exact", ""
    row, worst = max(bounded, key=lambda pair: pair[1].error / pair[1].bound)
    return f"{worst.error:.3g} / {worst.bound:.3g}", row.name
