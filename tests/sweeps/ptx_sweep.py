"""Runs the PTX of every kernel of a directory of bytecode files and compares it with its meaning.

    python tests/sweeps/ptx_sweep.py ../shared/corpus --gpu-name sm_90 --part 0/10

Exit status 1 if the PTX computes something else than the tile interpreter, races, or reads what is
not finished.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.kernels.ptx_comparison import compare_ptx_file  # noqa: E402
from tests.kernels.stage_comparison import Outcome  # noqa: E402


class _TooSlow(Exception):
    """One file took longer than it may."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def main() -> int:
    """Prints every kernel that is not the same, then counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--seconds", type=int, default=60, help="per file")
    parser.add_argument("--pattern", default="*.tileirbc")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th file, from the i-th")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _stop)
    start = time.perf_counter()
    for path in sorted(options.corpus.glob(options.pattern))[part::parts]:
        signal.alarm(options.seconds)
        try:
            outcomes = compare_ptx_file(path, options.gpu_name)
        except _TooSlow:
            outcomes = [Outcome(path.name, "slow")]
        except Exception as error:  # a crash of the machine is a finding, too
            outcomes = [Outcome(path.name, "crash", f"{type(error).__name__}: {error}")]
        signal.alarm(0)
        for outcome in outcomes:
            counts[outcome.kind] += 1
            if outcome.kind != "same":
                print(f"{outcome.kind:12} {outcome.name}  {outcome.detail[:300]}", flush=True)
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{summary}; {time.perf_counter() - start:.0f} s")
    return int(counts["different"] + counts["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
