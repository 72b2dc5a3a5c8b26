"""What sweeps that compare kernels of the corpus have in common: options, a time limit, counts."""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.kernels.stage_comparison import Outcome


class _TooSlow(Exception):
    """One file took longer than it may."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def comparison_parser(description: str | None, seconds: int) -> argparse.ArgumentParser:
    """The options of a sweep; `seconds` a file are its default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--seconds", type=int, default=seconds, help="per file")
    parser.add_argument("--pattern", default="*.tileirbc")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th file, from the i-th")
    return parser


def compare_corpus(options: argparse.Namespace, compare: Callable[[Path], list[Outcome]]) -> int:
    """Compares each file; prints every kernel that is not the same, then counts. 1 if any differs.

    A crash is a finding, too.
    """
    part, parts = map(int, options.part.split("/"))
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _stop)
    start = time.perf_counter()
    for path in sorted(options.corpus.glob(options.pattern))[part::parts]:
        signal.alarm(options.seconds)
        try:
            outcomes = compare(path)
        except _TooSlow:
            outcomes = [Outcome(path.name, "slow")]
        except Exception as error:
            outcomes = [Outcome(path.name, "crash", f"{type(error).__name__}: {error}")]
        signal.alarm(0)
        for outcome in outcomes:
            counts[outcome.kind] += 1
            if outcome.kind != "same":
                print(f"{outcome.kind:12} {outcome.name}  {outcome.detail[:400]}", flush=True)
    summary = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{summary}; {time.perf_counter() - start:.0f} s")
    return int(counts["different"] + counts["crash"] > 0)
