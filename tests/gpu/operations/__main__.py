"""Runs rows from the command line: `python -m gpu.operations --how compile -k reduce`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter


def main() -> int:
    """Runs the selected rows, prints the bad ones and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=("launch", "simulate", "compile"), default="compile")
    parser.add_argument("-k", default="", help="a regular expression that row names must match")
    parser.add_argument("-j", type=int, default=2, help="worker processes")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--stride", type=int, default=1, help="take every n-th row")
    parser.add_argument("--slow", type=float, default=1e9, help="show rows of more seconds")
    options = parser.parse_args()
    from .pool import run_rows
    from .table import ROWS

    chosen = [i for i, row in enumerate(ROWS) if re.search(options.k, row.id)][:: options.stride]
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for index, outcome in run_rows(chosen, options.how, options.gpu_name, options.j):
        counts[outcome.status] += 1
        seconds = outcome.seconds
        if outcome.status != "passed" or seconds > options.slow:
            print(f"{outcome.status:12} {ROWS[index].id} {seconds:.1f} s: {outcome.message[:600]}")
            sys.stdout.flush()
    print(dict(counts), f"{time.monotonic() - start:.1f} s")
    return 1 if counts["failed"] + counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
