"""The command `tileiras-explain`: what each line of a kernel's source costs, and why.

tileiras-explain kernel.tileirbc --gpu-name sm_90
tileiras-explain kernel.mlir --gpu-name sm_90 --grid 64,64 --arg 3=4096 --arg 4=4096 --html k.html
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tileiras import cli
from tileiras.command_line import INPUT, Option, Values, color_option
from tileiras.errors import UsageError
from tileiras.file_io import read_input, write_output

OPTIONS: tuple[Option, ...] = (
    Option("gpu-name", "The GPU, by its architecture.", "ARCH", ("arch",)),
    Option("entry", "The kernel, where there are several.", "NAME"),
    Option("grid", "Tile blocks along each axis, such as 64,64,1.", "X,Y,Z"),
    Option("arg", "A scalar argument by its place, counted from 0, such as 3=4096.", "N=VALUE"),
    Option("output-file", "Name of the text (standard output).", "FILE", ("o",)),
    Option("html", "Writes the report as one HTML file, too.", "FILE"),
    color_option(),
    Option("version", "Show the version and exit."),
    Option("help", "Show this message and exit.", aliases=("h",)),
)
"""The options of `tileiras-explain`."""

AXES = 3


def main() -> None:
    """The command `tileiras-explain`. Ends the process."""
    cli.run_as_process(run, sys.argv[1:])


def run(argv: Sequence[str]) -> int:
    """`tileiras-explain` with these arguments; returns the exit code and never raises."""
    return cli.guarded("tileiras-explain", argv, _explain)


def _explain(argv: Sequence[str]) -> None:
    """The body of the command."""
    summary = "Explains a kernel line by line: which instructions, their cost, what was missed."
    values = cli.parse_command_line("tileiras-explain", argv, OPTIONS, summary)
    if "version" in values:
        from tileiras.versions import version_text

        print(version_text("tileiras-explain"))
        return
    if INPUT not in values:
        raise UsageError("no input file provided")
    if "gpu-name" not in values:
        raise UsageError("no GPU architecture given, expected --gpu-name")
    from tileiras.explain.analysis import explain
    from tileiras.explain.prediction import Shape
    from tileiras.explain.report import to_text

    path = values[INPUT][0]
    grid, arguments = grid_of(values), _arguments(values)
    if arguments and grid is None:
        raise UsageError("--arg says nothing without --grid, expected both or neither")
    shape = None if grid is None else Shape(grid, arguments)
    entry = values.get("entry", [""])[-1]
    found = explain(read_input(path), path, values["gpu-name"][-1], entry, shape)
    write_output(values.get("output-file", ["-"])[-1], to_text(found).encode())
    if "html" in values:
        from tileiras.explain.page import to_html

        write_output(values["html"][-1], to_html(found).encode())


def grid_of(values: Values) -> tuple[int, int, int] | None:
    """The grid that is given; missing axes have one tile block. Raises UsageError for no grid."""
    if "grid" not in values:
        return None
    text = values["grid"][-1]
    words = text.split(",")
    if not 1 <= len(words) <= AXES or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"the grid is '{text}', expected one to three positive numbers: 64,64,1")
    x, y, z = (*map(int, words), 1, 1)[:AXES]
    return x, y, z


def _arguments(values: Values) -> dict[int, int]:
    """The scalar arguments that are given, by their place."""
    found: dict[int, int] = {}
    for text in values.get("arg", []):
        place, equals, number = text.partition("=")
        try:
            found[int(place)] = int(number)
        except ValueError:
            raise UsageError(f"the argument is '{text}', expected a form such as 3=4096") from None
        if not equals or int(place) < 0:
            raise UsageError(f"the argument is '{text}', expected a form such as 3=4096")
    return found
