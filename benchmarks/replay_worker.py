"""Compiles many files to PTX in one process, for `replay.py`: what it reads and writes is JSON.

    PYTHONPATH=SOURCES python benchmarks/replay_worker.py SOURCES < request > answers

The request names the tasks; each is answered by one line as soon as it is done, so that the reader
knows which task ended the process if one does.
"""

from __future__ import annotations

import gc
import hashlib
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

TASKS_A_COLLECTION = 20
"""Python's garbage is collected between tasks only, as a process that compiles one file has none
collected."""


def compile_task(path: Path, gpu_name: str, features: list[str]) -> tuple[int, bytes]:
    """The exit code that the command would have, and the PTX or the message."""
    from tileiras.driver import compile_module
    from tileiras.errors import TileirasError
    from tileiras.options import CompileOptions

    options = CompileOptions(
        gpu_name=gpu_name, emit="ptx", disabled_features=tuple(features), opt_level=3
    )
    try:
        return 0, compile_module(path.read_bytes(), options, filename=path.name).output
    except TileirasError as error:
        return error.exit_code, error.render().encode()
    except Exception as error:  # noqa: BLE001 - a bug of the compiler is an outcome, too
        return 5, f"internal error: {type(error).__name__}: {error}".encode()


def answer(task: dict[str, Any], limit: float) -> list[Any]:
    """Compiles one file: exit code, digest and seconds of this process's time.

    Where the task names an output, the PTX or the message is written there.
    """
    signal.setitimer(signal.ITIMER_REAL, limit)  # whose signal ends the process
    start = time.process_time()
    code, made = compile_task(Path(task["path"]), task["gpu_name"], task["features"])
    seconds = time.process_time() - start
    signal.setitimer(signal.ITIMER_REAL, 0)
    if task.get("output"):
        Path(task["output"]).write_bytes(made)
    return [code, hashlib.sha256(made).hexdigest(), round(seconds, 4)]


def main() -> None:
    """Answers the request on the standard input."""
    sources = Path(sys.argv[1]).resolve()
    import tileiras

    if not Path(tileiras.__file__ or "").resolve().is_relative_to(sources):
        sys.exit(f"tileiras was imported from {tileiras.__file__}, expected {sources}")
    gc.disable()
    request = json.load(sys.stdin)
    for number, task in enumerate(request["tasks"]):
        if number % TASKS_A_COLLECTION == 0:
            gc.collect()
        print(json.dumps(answer(task, request["limit"])), flush=True)


if __name__ == "__main__":
    main()
