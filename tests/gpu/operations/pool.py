"""Runs rows in worker processes, so that none can take the others down.

A kernel that faults spoils its process's GPU context, one that hangs never returns, and LLVM ends
the process on what it cannot select: the worker is replaced, the row has crashed.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from .checking import How, Outcome, run_row

ROW_LIMIT = 60.0
"""Seconds after which a row counts as hanging."""

STICKY = ("ILLEGAL", "LAUNCH_FAILED", "MISALIGNED", "ASSERT", "HARDWARE", "INVALID_PC", "UNKNOWN")
"""Parts of the names of driver errors after which a context is of no more use."""


def _serve(pipe: Connection, how: How, gpu_name: str) -> None:
    """A worker's life: row numbers in, outcomes out."""
    from .table import ROWS

    while True:
        try:
            index = pipe.recv()
        except EOFError:
            return
        pipe.send(run_row(ROWS[index], how, gpu_name))


def spoils_context(outcome: Outcome) -> bool:
    """Whether the process that had this outcome cannot launch any more."""
    return "CUDA_ERROR" in outcome.message and any(word in outcome.message for word in STICKY)


@dataclass
class _Worker:
    """A process and the row that it is busy with."""

    process: BaseProcess
    pipe: Connection
    row: int | None = None
    since: float = 0.0

    @classmethod
    def start(cls, how: How, gpu_name: str) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, how, gpu_name), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def take(self, row: int) -> bool:
        """Begins a row; False where the worker is gone."""
        try:
            self.pipe.send(row)
        except OSError:
            return False
        self.row, self.since = row, time.monotonic()
        return True

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def run_rows(
    indices: Sequence[int], how: How, gpu_name: str, jobs: int
) -> Iterator[tuple[int, Outcome]]:
    """Yields (row number, outcome) in the order in which rows end."""
    waiting = list(reversed(indices))
    workers = [_Worker.start(how, gpu_name) for _ in range(min(jobs, len(waiting)))]
    try:
        while waiting or any(worker.row is not None for worker in workers):
            for position, worker in enumerate(workers):
                while worker.row is None and waiting:
                    if worker.take(waiting[-1]):
                        waiting.pop()
                        break
                    worker.end()
                    worker = workers[position] = _Worker.start(how, gpu_name)
            busy = [worker for worker in workers if worker.row is not None]
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                outcome = _outcome(worker, worker.pipe in ready)
                if outcome is not None and worker.row is not None:
                    yield worker.row, outcome
                    worker.row = None
            workers = [w if not w.pipe.closed else _Worker.start(how, gpu_name) for w in workers]
    finally:
        for worker in workers:
            worker.end()


def _outcome(worker: _Worker, is_ready: bool) -> Outcome | None:
    """A busy worker's outcome, if its row has ended in any way."""
    if is_ready:
        try:
            outcome: Outcome = worker.pipe.recv()
            if spoils_context(outcome):
                worker.end()
            return outcome
        except (EOFError, OSError):
            worker.end()
            return Outcome("crashed", f"the process ended with {worker.process.exitcode}")
    if time.monotonic() - worker.since > ROW_LIMIT:
        worker.end()
        return Outcome("crashed", f"no end after {ROW_LIMIT:.0f} seconds")
    return None
