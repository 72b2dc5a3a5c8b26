"""Cold compile times: whole processes, ours beside NVIDIA's compiler where it is given.

    VENDOR_TILEIRAS=/path/to/tileiras python benchmarks/bench_compile.py --gpu-name sm_90

NVIDIA's compiler reads bytecode only, so the examples are first written as bytecode. Runs are
interleaved, so that a change of the machine's speed meets both; the table has the median and the
fastest run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OURS = [sys.executable, "-c", "from tileiras.cli import main; main()"]


@dataclass
class Contender:
    """A compiler and its times in seconds, by kernel."""

    name: str
    command: list[str]
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])


def find_ours() -> list[str]:
    """The installed command beside this interpreter, else the module."""
    script = Path(sys.executable).with_name("tileiras")
    return [str(script)] if script.exists() else OURS


def find_vendor() -> str | None:
    """NVIDIA's compiler: $VENDOR_TILEIRAS, or `nvidia-tileiras` on PATH."""
    return os.environ.get("VENDOR_TILEIRAS") or shutil.which("nvidia-tileiras")


def write_bytecode(source: Path, directory: Path) -> Path:
    """The example as bytecode, which both compilers read."""
    from tileiras.bytecode.writer import write_module
    from tileiras.driver import read_source

    target = directory / source.with_suffix(".tileirbc").name
    target.write_bytes(write_module(read_source(source.read_bytes(), source.name)))
    return target


def time_once(command: list[str]) -> float:
    """Wall-clock seconds of one process; raises CalledProcessError where it fails."""
    # Modules are compiled to bytecode once, as an installation has them, not by every process.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


def measure(contenders: list[Contender], kernels: list[Path], target: str, runs: int) -> None:
    """Fills in the times, one run of everything after the other, after one run to warm caches."""
    with tempfile.TemporaryDirectory() as scratch:
        for run in range(runs + 1):
            for kernel in kernels:
                for contender in contenders:
                    seconds = time_once(
                        [
                            *contender.command,
                            str(kernel),
                            "-o",
                            f"{scratch}/out",
                            f"--gpu-name={target}",
                            "-O3",
                            "--lineinfo",
                        ]
                    )
                    if run:
                        contender.times.setdefault(kernel.stem, []).append(seconds)


def report(contenders: list[Contender], target: str, runs: int) -> Table:
    """One table: a row for each kernel, a column for each compiler."""
    table = Table(title=f"cold compile, {target}, ms: median (fastest) of {runs} processes")
    table.add_column("kernel")
    for contender in contenders:
        table.add_column(contender.name, justify="right")
    for kernel in contenders[0].times:
        cells = []
        for contender in contenders:
            times = contender.times[kernel]
            cells.append(f"{statistics.median(times) * 1e3:.0f} ({min(times) * 1e3:.0f})")
        table.add_row(kernel, *cells)
    return table


def main() -> int:
    """Parses the arguments, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("kernels", nargs="*", type=Path, help="bytecode files; default: examples/")
    options = parser.parse_args()
    contenders = [Contender("tileiras", find_ours())]
    if (vendor := find_vendor()) is not None:
        contenders.append(Contender("NVIDIA's tileiras", [vendor]))
    with tempfile.TemporaryDirectory() as scratch:
        kernels = options.kernels or [
            write_bytecode(EXAMPLES / name, Path(scratch))
            for name in ("vector_add.mlir", "matmul.mlir")
        ]
        try:
            measure(contenders, kernels, options.gpu_name, options.runs)
        except subprocess.CalledProcessError as error:
            print(f"{error}\n{error.stderr.decode(errors='replace')}", file=sys.stderr)
            return 1
    Console().print(report(contenders, options.gpu_name, options.runs))
    if len(contenders) == 1:
        print("VENDOR_TILEIRAS is not set: no comparison with NVIDIA's compiler")
    return 0


if __name__ == "__main__":
    sys.exit(main())
