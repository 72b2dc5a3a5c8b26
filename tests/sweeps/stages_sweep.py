"""Compares every kernel of a directory of bytecode files at every stage of the compiler.

    python tests/sweeps/stages_sweep.py ../shared/corpus --disable-feature wgmma

Exit status 1 if a stage computes something else than the one before.
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

from tests.kernels.stage_comparison import Outcome, compare_file  # noqa: E402


class _TooSlow(Exception):
    """One file took longer than it may."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def main() -> int:
    """Prints every kernel that is not the same at all stages, then counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--disable-feature", action="append", default=[])
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--seconds", type=int, default=20, help="per file")
    parser.add_argument("--pattern", default="*.tileirbc")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th file, from the i-th")
    parser.add_argument("--threads", action="store_true", help="run the last stage, too")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _stop)
    start = time.perf_counter()
    for path in sorted(options.corpus.glob(options.pattern))[part::parts]:
        signal.alarm(options.seconds)
        try:
            outcomes = compare_file(
                path, options.disable_feature, options.gpu_name, options.threads
            )
        except _TooSlow:
            outcomes = [Outcome(path.name, "slow")]
        except Exception as error:  # a crash of a pass is a finding, too
            outcomes = [Outcome(path.name, "crash", f"{type(error).__name__}: {error}")]
        signal.alarm(0)
        for outcome in outcomes:
            counts[outcome.kind] += 1
            if outcome.kind != "same":
                print(outcome.kind, outcome.name, outcome.detail[:400], flush=True)
    print(dict(sorted(counts.items())), f"{time.perf_counter() - start:.0f} s")
    return 1 if counts["different"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
