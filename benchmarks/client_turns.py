"""A pytest plugin for the client's benchmarks: files take turns on a GPU, no figure is lost.

    PYTHONPATH=benchmarks pytest -p client_turns --turns-lock gpu0.lock --turns-results ours.json
        test/bench_fft.py -m benchmark -o addopts= -o python_functions='bench_*'

Several such commands may be started at once: each imports and collects, then waits for the lock, so
that one runs at a time. Each result is added to the file of results as soon as it is measured, in
the form in which `client_report.py` reads it. `--turns-seconds` ends a file that takes longer.
"""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

WRITTEN = pytest.StashKey[int]()
"""How many results of this process are in the file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("turns")
    group.addoption("--turns-lock", type=Path, help="the file that the runs of one GPU lock")
    group.addoption("--turns-results", type=Path, help="the file that results are added to")
    group.addoption("--turns-seconds", type=int, default=0, help="the longest turn")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Runs the collected tests while no other command with this lock does."""
    config = session.config
    lock: Path | None = config.getoption("--turns-lock")
    if lock is None:
        return (yield)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        start = time.monotonic()
        # The default action ends the process even while it waits for a GPU inside of a library.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(config.getoption("--turns-seconds") or 0)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            free_memory()
            print(f"\nturn of {config.args}: {time.monotonic() - start:.0f} s")


def free_memory() -> None:
    """Gives back what torch keeps of the GPU's memory: the process goes on for a while."""
    if "torch" in sys.modules:
        torch: Any = sys.modules["torch"]
        torch.cuda.empty_cache()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid: str) -> None:
    """Forces what a test printed out: a command may be cut off."""
    sys.stdout.flush()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Adds what the test measured to the file of results."""
    result = yield
    results: Path | None = item.config.getoption("--turns-results")
    measured: Any = getattr(item.config, "_benchmarksession", None)
    if results is None or measured is None:
        return result
    done = item.config.stash.get(WRITTEN, 0)
    add_results(
        results, [record(found) for found in measured.benchmarks[done:] if found.stats.data]
    )
    item.config.stash[WRITTEN] = len(measured.benchmarks)
    return result


def record(found: Any) -> dict[str, Any]:
    """What is kept of one benchmark: its name, seconds, and how often they were measured."""
    stats = found.stats
    seconds = {"median": stats.median, "min": stats.min, "max": stats.max, "mean": stats.mean}
    counts = {"rounds": stats.rounds, "iterations": found.iterations}
    return {"name": found.name, "stats": seconds | counts}


def add_results(path: Path, records: list[dict[str, Any]]) -> None:
    """Writes the file with these at its end, whole or not at all. The lock keeps others out."""
    if not records:
        return
    before = json.loads(path.read_text())["benchmarks"] if path.exists() else []
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"benchmarks": before + records}, indent=1))
    new.replace(path)
