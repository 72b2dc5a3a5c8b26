"""Runs the table of kernels with products in the PTX machine, for targets that are not at hand.

    python tests/sweeps/machine_table.py --targets sm_100,sm_120 --jobs 2
    python tests/sweeps/machine_table.py --page docs/machine-table.md

Exit status 1 if a kernel computes something else than float64, races, reads what is not finished,
or is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.kernels.machine_page import page  # noqa: E402
from tests.kernels.machine_table import ROWS, TARGETS, Result, Row, applies, run_row  # noqa: E402


def rows_of(families: list[str], pattern: str) -> list[Row]:
    """The rows that are asked for."""
    return [row for row in ROWS if pattern in row.name and (not families or row.family in families)]


def run_number(task: tuple[int, str]) -> Result:
    """The row of a number, in a process of a pool."""
    number, target = task
    return run_row(ROWS[number], target)


def results(rows: list[Row], targets: list[str], jobs: int) -> Iterator[tuple[Row, str, Result]]:
    """Row by row, target by target."""
    tasks = [(row, target) for row in rows for target in targets if applies(row, target)]
    if jobs == 1:
        for row, target in tasks:
            yield row, target, run_row(row, target)
        return
    with ProcessPoolExecutor(jobs) as pool:
        numbers = [(ROWS.index(row), target) for row, target in tasks]
        for (row, target), result in zip(tasks, pool.map(run_number, numbers), strict=True):
            yield row, target, result


def main() -> int:
    """Prints a line for each run, then counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--families", default="", help="such as GEMM,attention; all if not given")
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", type=Path, help="write the table here")
    options = parser.parse_args()
    targets = options.targets.split(",")
    rows = rows_of([name for name in options.families.split(",") if name], options.rows)
    found: dict[tuple[str, str], dict[str, Result]] = {}
    for row, target, result in results(rows, targets, options.jobs):
        found.setdefault((row.family, row.name), {})[target] = result
        line = f"{result.kind:8} {target:7} {result.seconds:6.1f} s  {row.family}: {row.name}"
        print(f"{line}  ({result.unit})  {result.detail[:300]}", flush=True)
    if options.page is not None:
        options.page.write_text(page(found, targets))
    wrong = sum(r.kind != "right" for by_target in found.values() for r in by_target.values())
    total = sum(len(by_target) for by_target in found.values())
    print(f"{total - wrong} of {total} right")
    return int(wrong > 0 or total == 0)


if __name__ == "__main__":
    sys.exit(main())
