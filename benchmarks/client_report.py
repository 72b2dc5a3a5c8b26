"""Makes a page of the client's own benchmarks from what pytest-benchmark measured.

    cd cutile-python; pytest test/bench_*.py -m benchmark -o addopts= --benchmark-json=ours.json
    python benchmarks/client_report.py ours.json [--vendor vendor.json] [--page docs/...md]

The second file is of the same run with NVIDIA's compiler. Times are medians in microseconds. Tables
of the page whose benchmarks were not measured stay. `--page` without files makes the page again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from client_floors import floor_us

CLIENT, LIBRARY = "cutile", "torch"
COLUMNS = ("work", "ours", "vendor", "torch", "floor", "x vendor", "x torch")
HEADER = f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}"
NOTES = "## Notes"
MEANS = "Geometric means"
MEANS_TEXT = """
Of our speed as a multiple of theirs. The last two columns: what they would be if each of our
kernels took the time of its floor (`benchmarks/client_floors.py`: memory's bandwidth, the tensor
cores' rate, or an empty launch). Four benchmarks are in the client's file of products.
""".strip()
MEANS_HEADER = (
    "| benchmarks | rows | x vendor | x torch | floor x vendor | floor x torch |\n"
    "|---|---:|---:|---:|---:|---:|"
)
FILE_OF: dict[str, str] = dict.fromkeys(
    ("matmul_split_k", "batch_matmul", "persistent_matmul"), "matmul"
)
"""The client's file of a benchmark that has not its name."""


@dataclass(frozen=True)
class Times:
    """Microseconds of one row; None for what was not measured."""

    ours: float
    vendor: float | None = None
    library: float | None = None


Found = dict[str, dict[str, Times]]
"""Times by kind of work and by work, in the order of the run."""


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


def measured(ours: dict[tuple[str, str], float], vendor: dict[tuple[str, str], float]) -> Found:
    """The rows of a run."""
    found: defaultdict[str, dict[str, Times]] = defaultdict(dict)
    for (work, backend), time in ours.items():
        if backend == CLIENT:
            kind, _, size = work.partition(" ")
            found[kind][size] = Times(time, vendor.get((work, CLIENT)), ours.get((work, LIBRARY)))
    return dict(found)


def read_page(text: str) -> Found:
    """The rows that a page has."""
    found: defaultdict[str, dict[str, Times]] = defaultdict(dict)
    kind = ""
    for line in text.partition(f"\n{NOTES}")[0].splitlines():
        if line.startswith("## "):
            kind = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if kind == MEANS or len(cells) < 4 or not cells[1].replace(".", "").isdigit():
            continue
        ours, vendor, library = (None if cell == "-" else float(cell) for cell in cells[1:4])
        found[kind][cells[0]] = Times(ours or 0.0, vendor, library)
    return dict(found)


def merged(before: Found, new: Found) -> Found:
    """A page's rows with those of benchmarks that were measured now in their place.

    Times of a compiler or library that was not run again stay.
    """
    result = dict(before)
    for kind, rows in new.items():
        old = before.get(kind, {})
        result[kind] = {work: filled(times, old.get(work)) for work, times in rows.items()}
    return result


def filled(times: Times, old: Times | None) -> Times:
    """A row's times, with those of before where there is none."""
    if old is None:
        return times
    return Times(times.ours, times.vendor or old.vendor, times.library or old.library)


def row(kind: str, work: str, times: Times) -> str:
    """One line of a table."""
    values = (times.ours, times.vendor, times.library, floor_us(kind, work))
    texts = [f"{time:.1f}" if time else "-" for time in values]
    ratios = [f"{t / times.ours:.2f}" if t else "-" for t in (times.vendor, times.library)]
    return f"| {' | '.join([work, *texts, *ratios])} |"


def geometric(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def ratios(kind: str, rows: dict[str, Times]) -> list[list[float]]:
    """Vendor's and torch's time by ours, then by the floor, of each row that has them."""
    table: list[list[float]] = [[], [], [], []]
    for work, times in rows.items():
        floor = min(floor_us(kind, work) or times.ours, times.ours)
        for place, theirs in enumerate((times.vendor, times.library)):
            if theirs:
                table[place].append(theirs / times.ours)
                table[place + 2].append(theirs / floor)
    return table


def means(found: Found) -> list[str]:
    """Lines of the table of means: each benchmark, then three ways to take all together."""
    by_kind = {kind: ratios(kind, rows) for kind, rows in found.items()}
    by_file: defaultdict[str, list[list[float]]] = defaultdict(lambda: [[], [], [], []])
    for kind, table in by_kind.items():
        for place, values in enumerate(table):
            by_file[FILE_OF.get(kind, kind)][place] += values
    lines = [
        mean_line(kind, len(found[kind]), [geometric(v) for v in table])
        for kind, table in by_kind.items()
    ]
    count = sum(map(len, found.values()))
    tables = {"**over benchmarks**": by_kind.values(), "**over files**": by_file.values()}
    for name, parts in tables.items():
        each = [[geometric(values) for values in part] for part in parts]
        columns = [[part[place] for part in each] for place in range(4)]
        lines.append(mean_line(name, count, [geometric(filter(None, c)) for c in columns]))
    rows = [[v for table in by_kind.values() for v in table[place]] for place in range(4)]
    lines.append(mean_line("**over rows**", count, [geometric(values) for values in rows]))
    return lines


def mean_line(name: str, count: int, values: Sequence[float | None]) -> str:
    """One line of the table of means."""
    texts = [f"{value:.2f}" if value else "-" for value in values]
    return f"| {' | '.join([name, str(count), *texts])} |"


def page(found: Found, before: str) -> str:
    """The page: what stands before the tables and the notes are kept."""
    title = before.partition("\n## ")[0].rstrip() or "# The client's own benchmarks"
    notes = NOTES + before.partition(NOTES)[2] if NOTES in before else ""
    parts = [title, f"## {MEANS}", MEANS_TEXT, "\n".join([MEANS_HEADER, *means(found)])]
    for kind, rows in found.items():
        lines = [row(kind, work, times) for work, times in rows.items()]
        parts.append("\n".join([f"## {kind}", "", HEADER, *lines]))
    return "\n\n".join([*parts, notes.rstrip()]).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Prints the tables, or writes them into a page; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ours", type=Path, nargs="*")
    parser.add_argument(
        "--vendor", type=Path, nargs="+", default=[], help="the same with NVIDIA's compiler"
    )
    parser.add_argument("--page", type=Path, help="the page whose tables are replaced")
    options = parser.parse_args(arguments)
    ours, vendor = (
        {key: time for path in paths for key, time in read_medians(path).items()}
        for paths in (options.ours, options.vendor)
    )
    found = measured(ours, vendor)
    if options.page is None:
        print(page(found, ""), end="")
        return 0
    before = options.page.read_text() if options.page.exists() else ""
    found = merged(read_page(before), found)
    options.page.write_text(page(found, before))
    print("\n".join([MEANS_HEADER, *means(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
