"""Makes a page of the client's own benchmarks from what pytest-benchmark measured.

    cd cutile-python; pytest test/bench_*.py -m benchmark -o addopts= --benchmark-json=ours.json
    python benchmarks/client_report.py ours.json [--vendor vendor.json] [--page docs/...md]

The second file is of the same run with NVIDIA's compiler. Times are medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

CLIENT, LIBRARY = "cutile", "torch"
HEADER = "| work | ours | vendor | torch | x vendor | x torch |\n|---|---:|---:|---:|---:|---:|"
NOTES = "## Notes"


def read_medians(path: Path) -> dict[tuple[str, str], float]:
    """Microseconds by work and backend."""
    medians: dict[tuple[str, str], float] = {}
    for record in json.loads(path.read_text())["benchmarks"]:
        name = record["name"].removeprefix("bench_")
        kind, _, rest = name.partition("[")
        words = rest.removesuffix("]").split("-")
        backend = next((word for word in words if word in (CLIENT, LIBRARY)), None)
        if backend is None:
            raise ValueError(f"{path}: '{record['name']}' names no backend")
        words.remove(backend)
        medians[f"{kind} {'-'.join(words)}", backend] = record["stats"]["median"] * 1e6
    return medians


def row(work: str, ours: float, vendor: float | None, library: float | None) -> str:
    """One line of a table."""
    times = [f"{time:.1f}" if time else "-" for time in (ours, vendor, library)]
    ratios = [f"{time / ours:.2f}" if time else "-" for time in (vendor, library)]
    return f"| {' | '.join([work, *times, *ratios])} |"


def tables(
    ours: dict[tuple[str, str], float], vendor: dict[tuple[str, str], float]
) -> dict[str, list[str]]:
    """The lines of each kind of work, in the order of the run."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for (work, backend), time in ours.items():
        if backend == CLIENT:
            kind, _, size = work.partition(" ")
            library = ours.get((work, LIBRARY))
            lines[kind].append(row(size, time, vendor.get((work, CLIENT)), library))
    return dict(lines)


def page(found: dict[str, list[str]], before: str) -> str:
    """The page: what stands before the tables and the notes are kept."""
    title = before.partition("\n## ")[0].rstrip() or "# The client's own benchmarks"
    notes = NOTES + before.partition(NOTES)[2] if NOTES in before else ""
    parts = [title]
    parts += ["\n".join([f"## {kind}", "", HEADER, *lines]) for kind, lines in found.items()]
    return "\n\n".join([*parts, notes.rstrip()]).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Prints the tables, or writes them into a page; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ours", type=Path)
    parser.add_argument("--vendor", type=Path, help="the same with NVIDIA's compiler")
    parser.add_argument("--page", type=Path, help="the page whose tables are replaced")
    options = parser.parse_args(arguments)
    vendor = read_medians(options.vendor) if options.vendor else {}
    found = tables(read_medians(options.ours), vendor)
    if options.page is None:
        print(page(found, ""), end="")
        return 0
    before = options.page.read_text() if options.page.exists() else ""
    options.page.write_text(page(found, before))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
