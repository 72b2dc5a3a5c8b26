"""Runs the selected rows together, in processes, and prints their table at the end."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .checking import Outcome
    from .rows import Row

OUTCOMES = pytest.StashKey["list[tuple[Row, Outcome]]"]()
WORKERS = 12


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[int, Outcome]:
    """What became of every selected row, by its number."""
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
    terminalreporter.section("operations on the GPU")
    heads = "".join(f"{status:>12}" for status in statuses)
    terminalreporter.write_line(f"{'family':12}{'rows':>6}{heads}   worst error / bound (ulp)")
    for family, members in families.items():
        counts = "".join(f"{sum(o.status == s for _, o in members):>12}" for s in statuses)
        bounded = [(row, o) for row, o in members if o.bound > 0]
        text = "exact"
        if bounded:
            row, worst = max(bounded, key=lambda pair: pair[1].error / pair[1].bound)
            text = f"{worst.error:.3g} / {worst.bound:.3g}  {row.name}"
        terminalreporter.write_line(f"{family:12}{len(members):>6}{counts}   {text}")
