"""The command `tileiras-bench`: times a kernel on this machine's GPU.

tileiras-bench kernel.mlir --grid 4096 --shape 4194304,4194304,4194304,4194304
tileiras-bench kernel.tileirbc --grid 64,64 --shape ... --against vendor --json k.json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras import cli
from tileiras.command_line import INPUT, Option, Values, color_option
from tileiras.errors import TargetError, UsageError
from tileiras.file_io import read_input, write_output
from tileiras.runtime.cuda_driver import GpuError
from tileiras.runtime.isolated import WORKER, ArrayFile, ChildFailed, Job, KernelProcess
from tileiras.termination import temporary_folder, temporary_path

if TYPE_CHECKING:
    from tileiras.bench.measurement import Launched, Measurement
    from tileiras.launch_info import KernelLaunch

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
    Option("repeats", "How many batches of launches are timed (20).", "N"),
    Option("timeout", "Seconds that a kernel may take on the GPU, all launches (60).", "S"),
    Option("relative", "Relative difference of results that agree (0).", "X"),
    Option("absolute", "Absolute difference of results that agree (0).", "X"),
    Option("output-file", "Name of the table (standard output).", "FILE", ("o",)),
    Option("json", "Writes the numbers as JSON, too.", "FILE"),
    Option("plot", "Draws the times of all batches as an SVG file, too.", "FILE"),
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


def run(argv: Sequence[str], launcher: Sequence[str] = WORKER) -> int:
    """`tileiras-bench` with these arguments; returns the exit code and never raises.

    `launcher` is the program in whose process a kernel runs.
    """
    found: list[Measurement] = []
    code = cli.guarded("tileiras-bench", argv, lambda words: _bench(words, launcher, found))
    if not code and found and found[0].failure:
        return GpuError.exit_code
    differs = found and found[0].comparison is not None and not found[0].comparison.agrees
    return code or (DIFFERENT if differs else 0)


def _bench(argv: Sequence[str], launcher: Sequence[str], done: list[Measurement]) -> None:
    """The body of the command; `done` gets the measurement."""
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
    from tileiras.bench.report import to_json, to_text

    with temporary_folder("tileiras-bench", _temporary_place()) as folder:
        found = _measure(values, launcher, folder)
    write_output(values.get("output-file", ["-"])[-1], to_text(found).encode())
    if "json" in values:
        write_output(values["json"][-1], to_json(found).encode())
    if "plot" in values:
        from tileiras.bench.plot import to_svg

        write_output(values["plot"][-1], to_svg(found).encode())
    done.append(found)


def _measure(values: Values, launcher: Sequence[str], folder: str) -> Measurement:
    """Compiles and launches; `folder` is for files that go after it."""
    from tileiras.api import compile
    from tileiras.bench.arguments import make_arguments, parse_shape, scalars_of
    from tileiras.bench.measurement import explained, measure
    from tileiras.explain.command import grid_of
    from tileiras.explain.prediction import Shape
    from tileiras.runtime.isolated import ask_device

    grid, repeats = grid_of(values), _repeats(values)
    tolerance = _number(values, "relative", "0"), _number(values, "absolute", "0")
    seconds = _number(values, "timeout", "60")
    path = values[INPUT][0]
    source, target = read_input(path), ask_device(folder, launcher).target
    compiled = compile(source, target, filename=path)
    entry = values.get("entry", [""])[-1] or compiled.name
    kernel = next((one for one in compiled.kernels if one.name == entry), None)
    if kernel is None or grid is None:
        names = ", ".join(one.name for one in compiled.kernels)
        raise UsageError(f"no entry '{entry}', found: {names}")
    arguments = make_arguments(parse_shape(values["shape"][-1], kernel), kernel)
    shape = Shape(grid, scalars_of(arguments))
    launching = _Launching(kernel, grid, arguments, repeats, seconds, launcher, folder)
    second = None
    if "against" in values:
        label = values["against"][-1]
        second = label, _other(label, path, target)
    told = explained(source, path, target, entry, shape)
    (ours,) = launching.launch(compiled.cubin)
    if second is None:
        return measure(told, ours, arguments)
    label, cubin = second
    try:
        theirs, ours = launching.launch(cubin, compiled.cubin)
    except ChildFailed as failure:
        return measure(told, ours, arguments, (label, failure.message))
    return measure(told, ours, arguments, (label, theirs), tolerance)


class _Launching:
    """How kernels are launched: on the same arguments, each time in a new process."""

    def __init__(
        self,
        kernel: KernelLaunch,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        repeats: int,
        seconds: float,
        launcher: Sequence[str],
        folder: str,
    ) -> None:
        self._kernel, self._grid, self._repeats, self._seconds = kernel, grid, repeats, seconds
        self._launcher, self._folder = launcher, folder
        self._arguments: list[ArrayFile | int | float] = []
        for place, value in enumerate(arguments):
            if hasattr(value, "tofile"):
                path = os.path.join(folder, f"argument{place}")
                value.tofile(path)
                value = ArrayFile(path)
            self._arguments.append(value)

    def launch(self, *cubins: bytes) -> list[Launched]:
        """Launches cubins, then times them by turns; raises ChildFailed."""
        from tileiras.bench.measurement import Launched

        kernel = self._kernel
        types = tuple(parameter.type for parameter in kernel.parameters)
        results: list[dict[int, str]] = []
        with KernelProcess(self._folder, self._launcher) as process:
            for cubin in cubins:
                folder = temporary_path("kernel", self._folder)
                os.mkdir(folder)
                path = os.path.join(folder, "kernel.cubin")
                write_output(path, cubin)
                job = Job(
                    path,
                    kernel.name,
                    self._grid,
                    kernel.block,
                    types,
                    tuple(self._arguments),
                    kernel.cluster_size,
                )
                results.append(process.launch(job, folder, self._seconds))
            times = process.time(self._repeats)
        return [Launched(tuple(one), files) for one, files in zip(times, results)]


def _temporary_place() -> str | None:
    """What $TMPDIR says."""
    from tileiras.driver import with_environment
    from tileiras.options import CompileOptions

    return with_environment(CompileOptions()).knobs.get("TMPDIR")


def _repeats(values: Values) -> int:
    """How often to launch."""
    text = values.get("repeats", ["20"])[-1]
    if not text.isdecimal() or not int(text):
        raise UsageError(f"--repeats is '{text}', expected a positive number")
    return int(text)


def _number(values: Values, name: str, default: str) -> float:
    """A tolerance, or seconds."""
    text = values.get(name, [default])[-1]
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

    knobs = with_environment(CompileOptions()).knobs
    places = candidates(knobs, ("cu13/bin/tileiras",), "bin/tileiras", on_path="")
    program = next((place for place in places if os.access(place, os.X_OK)), None)
    if program is None:
        raise TargetError(
            "NVIDIA's compiler is not found: install nvidia-cuda-tileiras, or set CUDA_HOME to a "
            "toolkit that has it"
        )
    with temporary_folder("tileiras-bench-vendor", knobs.get("TMPDIR")) as folder:
        cubin = os.path.join(folder, "k.cubin")
        words = [program, path, "-o", cubin, "--gpu-name", target, "-O3"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TargetError(f"NVIDIA's compiler refuses '{path}': {done.stderr.strip()}")
        return read_input(cubin)
