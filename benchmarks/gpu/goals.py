"""What speed is aimed at, from goals.toml: which entries reach it, and which do not.

A goal is a table with

- `names`: a regular expression that the entries' names match, from their start on;
- one or more of `library`, `vendor`: our speed as a multiple of theirs; `floor`: as a part of the
  floor's; `speed`: in the unit of the entry (TFLOP/s, GB/s);
- `best = true`: the fastest of these entries has to reach it, not each of them;
- `why` and `tried`: what stands in the way where it is not reached, and the numbers of the
  decisions which have what was tried.

A later goal for the same entry and measure replaces an earlier one.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOALS = Path(__file__).with_name("goals.toml")
MEASURES = ("library", "vendor", "floor", "speed")


@dataclass(frozen=True)
class Goal:
    """A figure that an entry, or the best of some, is to reach."""

    names: str
    measure: str
    asked: float
    is_of_best: bool
    why: str
    tried: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """A goal beside what was measured: of one entry, or of the best of some."""

    name: str
    goal: Goal
    found: float

    @property
    def is_reached(self) -> bool:
        """Whether it is, as the page prints it: with two digits, or none for speeds."""
        digits = 0 if self.goal.measure == "speed" else 2
        return round(self.found, digits) >= self.goal.asked


def read_goals(path: Path = GOALS) -> list[Goal]:
    """The goals of a file, one for each measure. Raises ValueError if a table has no measure."""
    goals: list[Goal] = []
    for table in tomllib.loads(path.read_text())["goal"]:
        asked = {name: table[name] for name in MEASURES if name in table}
        if not asked:
            raise ValueError(f"{path.name}: the goal for {table['names']!r} has no measure")
        goals += [
            Goal(
                table["names"],
                measure,
                float(figure),
                bool(table.get("best", False)),
                table.get("why", ""),
                tuple(table.get("tried", ())),
            )
            for measure, figure in asked.items()
        ]
    return goals


def goals_of(name: str, goals: list[Goal]) -> dict[str, Goal]:
    """What an entry of this name is to reach by itself, by measure."""
    return {
        goal.measure: goal for goal in goals if not goal.is_of_best and re.match(goal.names, name)
    }


def outcomes(rows: list[dict[str, Any]], goals: list[Goal]) -> list[Outcome]:
    """Each goal of each row that was measured, and of the best of some rows behind them."""
    found = [
        Outcome(row["name"], goal, figure)
        for row in rows
        for measure, goal in goals_of(row["name"], goals).items()
        if (figure := _measured(row, measure)) is not None
    ]
    for goal in goals:
        if goal.is_of_best:
            figures = [
                (figure, row["name"])
                for row in rows
                if re.match(goal.names, row["name"])
                and (figure := _measured(row, goal.measure)) is not None
            ]
            if figures:
                figure, name = max(figures)
                found.append(Outcome(f"best of {len(figures)}: {name}", goal, figure))
    return found


def _measured(row: dict[str, Any], measure: str) -> float | None:
    if measure == "speed":
        return row["speed"].get("ours")
    return row.get(f"of_{measure}")
