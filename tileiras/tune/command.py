"""The command `tileiras-tune`: finds the best hints and tile constants of a kernel.

tileiras-tune gemm.py
tileiras-tune gemm.py --most 40 --seconds 60 --json gemm.json
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from tileiras import cli
from tileiras.command_line import INPUT, Option, Values, color_option
from tileiras.errors import UsageError
from tileiras.fast_start import cache_folder
from tileiras.file_io import write_output
from tileiras.tune.trials import Commands

OPTIONS: tuple[Option, ...] = (
    Option("variable", "The variable of FILE that says what to try (TUNE).", "NAME"),
    Option("gpu-name", "The GPU to compile for (that of this machine).", "ARCH", ("arch",)),
    Option("jobs", "How many kernels are made side by side (4).", "N", ("j",)),
    Option("most", "Points to try (200).", "N"),
    Option("patience", "Stop after so many points in a row that are no better (24).", "N"),
    Option("seconds", "Stop after so many seconds (0: never).", "S"),
    Option("timeout", "Seconds that a candidate may take on the GPU (20).", "S"),
    Option("compile-timeout", "Seconds that making a candidate may take (120).", "S"),
    Option("repeats", "How many batches of launches are timed (20).", "N"),
    Option("cache", "Folder of results (tune in the user's cache; empty: none).", "DIR"),
    Option("retry", "Try points again that failed in an earlier run."),
    Option("fresh", "Try all points again."),
    Option("quiet", "No progress bar.", aliases=("q",)),
    Option("output-file", "Name of the table (standard output).", "FILE", ("o",)),
    Option("json", "Writes all results as JSON, too.", "FILE"),
    color_option(),
    Option("version", "Show the version and exit."),
    Option("help", "Show this message and exit.", aliases=("h",)),
)
"""The options of `tileiras-tune`."""

NOTHING_RUNS = 1
"""Exit code where no point could be timed."""


def main() -> None:
    """The command `tileiras-tune`. Ends the process."""
    cli.run_as_process(run, sys.argv[1:])


def run(argv: Sequence[str], commands: Commands | None = None) -> int:
    """`tileiras-tune` with these arguments; returns the exit code and never raises.

    `commands` are the programs that make and launch candidates.
    """
    found: list[bool] = []
    chosen = Commands() if commands is None else commands
    code = cli.guarded("tileiras-tune", argv, lambda words: _tune(words, chosen, found))
    return code or (NOTHING_RUNS if False in found else 0)


def _tune(argv: Sequence[str], commands: Commands, found: list[bool]) -> None:
    """The body of the command; `found` gets whether there is a best point."""
    summary = "Finds the best hints and tile constants of a kernel of cuTile Python."
    values = cli.parse_command_line("tileiras-tune", argv, OPTIONS, summary)
    if "version" in values:
        from tileiras.versions import version_text

        print(version_text("tileiras-tune"))
        return
    if INPUT not in values:
        raise UsageError("no input file provided")
    from tileiras.termination import temporary_folder
    from tileiras.tune.report import to_json, to_text
    from tileiras.tune.tuning import Plan, tune

    plan = Plan(
        path=values[INPUT][0],
        variable=_last(values, "variable", "TUNE"),
        target=_last(values, "gpu-name", ""),
        jobs=int(_number(values, "jobs", "4", least=1, whole=True)),
        most=int(_number(values, "most", "200", least=1, whole=True)),
        patience=int(_number(values, "patience", "24", least=1, whole=True)),
        seconds=_number(values, "seconds", "0"),
        seconds_to_run=_number(values, "timeout", "20"),
        seconds_to_make=_number(values, "compile-timeout", "120"),
        repeats=int(_number(values, "repeats", "20", least=1, whole=True)),
        cache=_cache(values),
        retry="retry" in values,
        fresh="fresh" in values,
        shows_progress="quiet" not in values,
    )
    start = time.monotonic()
    with temporary_folder("tileiras-tune", os.environ.get("TMPDIR")) as folder:
        report = tune(plan, folder, commands, start)
    write_output(_last(values, "output-file", "-"), to_text(report).encode())
    if "json" in values:
        write_output(values["json"][-1], to_json(report).encode())
    found.append(report.best is not None)


def _last(values: Values, name: str, default: str) -> str:
    """The last value of an option."""
    return values.get(name, [default])[-1]


def _cache(values: Values) -> str | None:
    """The folder of results; None: they are not kept."""
    if "cache" in values:
        return values["cache"][-1] or None
    folder = cache_folder(os.environ)
    return None if folder is None else os.path.join(folder, "tune")


def _number(
    values: Values, name: str, default: str, least: float = 0.0, whole: bool = False
) -> float:
    """The value of an option that is a number; raises UsageError."""
    text = _last(values, name, default)
    kind: Any = int if whole else float
    try:
        number = kind(text)
    except ValueError:
        number = least - 1
    if not number >= least:
        what = f"a whole number from {least:g}" if whole else "seconds from 0"
        raise UsageError(f"--{name} is '{text}', expected {what}")
    return number
