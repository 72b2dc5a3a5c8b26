"""The command `tileiras-bench`: times a kernel on this machine's GPU.

tileiras-bench kernel.mlir --grid 4096 --shape 4194304,4194304,4194304,4194304
tileiras-bench kernel.tileirbc --grid 64,64 --shape ... --against vendor --json k.json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tileiras import cli
from tileiras.command_line import INPUT, Option, Values, color_option
from tileiras.errors import TargetError, UsageError
from tileiras.file_io import read_input, write_output

OPTIONS: tuple[Option, ...] = (
    Option("grid", "Tile blocks along each axis, such as 64,64,1.", "X,Y,Z"),
    Option(
        "shape",
        "One word for each parameter: extents such as 128x64 of the array for a pointer, the value "
        "of a scalar.",
        "WORDS",
    ),
    Option("entry", "The kernel, where there are several.", "NAME"),
    Option(
        "against",
        "Another kernel on the same arguments: a cubin, Tile IR that is compiled, too, or vendor: "
        "what NVIDIA's compiler makes of FILE.",
        "FILE",
    ),
    Option("repeats", "How many launches are timed (20).", "N"),
    Option("relative", "Relative difference of results that agree (0).", "X"),
    Option("absolute", "Absolute difference of results that agree (0).", "X"),
    Option("output-file", "Name of the table (standard output).", "FILE", ("o",)),
    Option("json", "Writes the numbers as JSON, too.", "FILE"),
    color_option(),
    Option("version", "Show the version and exit."),
    Option("help", "Show this message and exit.", aliases=("h",)),
)
"""The options of `tileiras-bench`."""

VENDOR = "vendor"
DIFFERENT = 1
"""Exit code where results differ."""


def main() -> None:
    """The command `tileiras-bench`. Ends the process."""
    cli.run_as_process(run, sys.argv[1:])


def run(argv: Sequence[str]) -> int:
    """`tileiras-bench` with these arguments; returns the exit code and never raises."""
    agrees: list[bool] = []
    code = cli.guarded("tileiras-bench", argv, lambda words: _bench(words, agrees))
    return code or (DIFFERENT if False in agrees else 0)


def _bench(argv: Sequence[str], agrees: list[bool]) -> None:
    """The body of the command; `agrees` gets whether results do."""
    summary = "Times a kernel on this machine's GPU, alone or against another."
    values = cli.parse_command_line("tileiras-bench", argv, OPTIONS, summary)
    if "version" in values:
        from tileiras.versions import version_text

        print(version_text("tileiras-bench"))
        return
    if INPUT not in values:
        raise UsageError("no input file provided")
    for name in ("grid", "shape"):
        if name not in values:
            raise UsageError(f"no {name} given, expected --{name}")
    from tileiras import runtime
    from tileiras.api import compile
    from tileiras.bench.arguments import make_arguments, parse_shape, scalars_of
    from tileiras.bench.measurement import explained, measure
    from tileiras.bench.report import to_json, to_text
    from tileiras.explain.command import grid_of
    from tileiras.explain.prediction import Shape

    grid = grid_of(values)
    repeats, tolerance = (
        _repeats(values),
        (_number(values, "relative"), _number(values, "absolute")),
    )
    path = values[INPUT][0]
    source, target = read_input(path), runtime.current_target()
    compiled = compile(source, target, filename=path)
    entry = values.get("entry", [""])[-1] or compiled.name
    kernel = next((one for one in compiled.kernels if one.name == entry), None)
    if kernel is None or grid is None:
        names = ", ".join(one.name for one in compiled.kernels)
        raise UsageError(f"no entry '{entry}', found: {names}")
    arguments = make_arguments(parse_shape(values["shape"][-1], kernel), kernel)
    shape = Shape(grid, scalars_of(arguments))
    other = None
    if "against" in values:
        label = values["against"][-1]
        other = label, runtime.Module(_other(label, path, target), compiled.kernels)
    told = explained(source, path, target, entry, shape)
    found = measure(compiled.load(), told, shape, arguments, repeats, other, tolerance)
    write_output(values.get("output-file", ["-"])[-1], to_text(found).encode())
    if "json" in values:
        write_output(values["json"][-1], to_json(found).encode())
    if found.comparison is not None:
        agrees.append(found.comparison.agrees)


def _repeats(values: Values) -> int:
    """How often to launch."""
    text = values.get("repeats", ["20"])[-1]
    if not text.isdecimal() or not int(text):
        raise UsageError(f"--repeats is '{text}', expected a positive number")
    return int(text)


def _number(values: Values, name: str) -> float:
    """A tolerance."""
    text = values.get(name, ["0"])[-1]
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--{name} is '{text}', expected a number") from None


def _other(label: str, path: str, target: str) -> bytes:
    """The cubin to compare with."""
    if label == VENDOR:
        return _vendors(path, target)
    data = read_input(label)
    if data.startswith(b"\x7fELF"):
        return data
    from tileiras.api import compile

    return compile(data, target, filename=label).cubin


def _vendors(path: str, target: str) -> bytes:
    """What NVIDIA's compiler makes of the input; raises TargetError where it does not."""
    import subprocess

    from tileiras.codegen.cuda_toolkit import candidates
    from tileiras.driver import with_environment
    from tileiras.options import CompileOptions
    from tileiras.termination import make_folder, remove_folder

    knobs = with_environment(CompileOptions()).knobs
    places = candidates(knobs, ("cu13/bin/tileiras",), "bin/tileiras", on_path="")
    program = next((place for place in places if os.access(place, os.X_OK)), None)
    if program is None:
        raise TargetError(
            "NVIDIA's compiler is not found: install nvidia-cuda-tileiras, or set CUDA_HOME to a "
            "toolkit that has it"
        )
    folder = os.path.join(
        knobs.get("TMPDIR") or "/tmp", f"tileiras-bench-{os.getpid()}-{os.urandom(4).hex()}"
    )
    make_folder(folder)
    try:
        cubin = os.path.join(folder, "k.cubin")
        words = [program, path, "-o", cubin, "--gpu-name", target, "-O3"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetError(f"NVIDIA's compiler refuses '{path}': {done.stderr.strip()}")
        return read_input(cubin)
    finally:
        remove_folder(folder)
