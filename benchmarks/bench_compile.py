"""Cold compile times: whole processes, ours beside NVIDIA's compiler where it is given.

    VENDOR_TILEIRAS=/path/to/tileiras python benchmarks/bench_compile.py ../shared/corpus --every 20

Kernels are bytecode files, or folders of them; without any, the examples. For every kernel both
compilers run one after the other, in turn, so that a change of the machine's speed meets both; the
first pair is not counted. What is compared is the processor time of a process and its children
(user and system), which other work on the machine changes least; wall time stands beside it. One
more run says where our time goes (`--time-passes`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MODULE = [sys.executable, "-c", "from tileiras.cli import main; main()"]
PARTS = ("start", "import", "read", "passes", "LLVM", "ptxas")
QUANTILES = (("min", 0.0), ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


@dataclass(frozen=True)
class Run:
    """One process: seconds on the clock, seconds of processors, bytes of memory."""

    wall: float
    cpu: float
    memory: int


@dataclass
class Kernel:
    """The runs of one kernel, by compiler, and the parts of our time in milliseconds."""

    name: str
    runs: dict[str, list[Run]] = field(default_factory=dict[str, list[Run]])
    parts: dict[str, float] = field(default_factory=dict[str, float])

    def best(self, compiler: str, what: str) -> float:
        """The smallest wall or cpu time of a compiler."""
        return min(getattr(run, what) for run in self.runs[compiler])

    def ratio(self, what: str) -> float:
        """Our best time by the vendor's."""
        return self.best("ours", what) / self.best("vendor", what)


def find_ours() -> list[str]:
    """The installed command beside this interpreter, else the module."""
    script = Path(sys.executable).with_name("tileiras")
    return [str(script)] if script.exists() else MODULE


def find_vendor() -> str | None:
    """NVIDIA's compiler: $VENDOR_TILEIRAS, or `nvidia-tileiras` on PATH."""
    return os.environ.get("VENDOR_TILEIRAS") or shutil.which("nvidia-tileiras")


def find_kernels(places: Sequence[Path], every: int) -> list[Path]:
    """Every n-th bytecode file of the places, which are files or folders."""
    found = [
        kernel
        for place in places
        for kernel in (sorted(place.rglob("*.tileirbc")) if place.is_dir() else [place])
    ]
    return found[::every]


def write_bytecode(source: Path, directory: Path) -> Path:
    """The example as bytecode, which both compilers read."""
    from tileiras.bytecode.writer import write_module
    from tileiras.driver import read_source

    target = directory / source.with_suffix(".tileirbc").name
    target.write_bytes(write_module(read_source(source.read_bytes(), source.name)))
    return target


def run_once(command: Sequence[str]) -> Run | None:
    """One process, its output thrown away; None where it fails."""
    # Modules are compiled to bytecode once, as an installation has them, not by every process.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    nowhere = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in (0, 1, 2)]
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], list(command), environment, file_actions=nowhere)
    _, status, used = os.wait4(process, 0)
    wall = time.perf_counter() - start
    if status:
        return None
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def parts_of(command: Sequence[str]) -> dict[str, float]:
    """Milliseconds of our compiler's parts in one run."""
    start = time.perf_counter()
    done = subprocess.run([*command, "--time-passes"], capture_output=True, text=True)
    parts = dict.fromkeys(PARTS, 0.0)
    parts["start"] = (time.perf_counter() - start) * 1e3
    for name, text in re.findall(r"^  (\S.*?) +([\d.]+) ms", done.stderr, re.MULTILINE):
        milliseconds = float(text)
        if name == "total":
            parts["start"] -= milliseconds
            continue
        known = {
            "import passes": "import",
            "read input": "read",
            "verify input": "read",
            "LLVM": "LLVM",
            "ptxas": "ptxas",
        }
        parts[known.get(name, "passes")] += milliseconds
    return parts


def measure(
    kernels: Sequence[Path], compilers: dict[str, list[str]], options: Sequence[str], runs: int
) -> Iterator[Kernel]:
    """The kernels that all compilers can compile, measured."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in kernels:
            kernel = Kernel(path.stem)
            arguments = [str(path), "-o", f"{scratch}/out", *options]
            for turn in range(runs + 1):
                for name, command in compilers.items():
                    run = run_once([*command, *arguments])
                    if run is None:
                        break
                    if turn:
                        kernel.runs.setdefault(name, []).append(run)
                else:
                    continue
                break
            if len(kernel.runs) == len(compilers):
                kernel.parts = parts_of([*compilers["ours"], *arguments])
                yield kernel


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which a part of the values lies; the nearest one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1 if part else 0)]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive values."""
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(kernels: Sequence[Kernel], compilers: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of the table: what, then min, median, p90, p99 and max over the kernels."""
    rows: list[tuple[str, ...]] = []
    for what, unit, scale in (("cpu", "ms", 1e3), ("wall", "ms", 1e3), ("memory", "MB", 1e-6)):
        for compiler in compilers:
            values = [scale * kernel.best(compiler, what) for kernel in kernels]
            numbers = (f"{quantile(values, part):.0f}" for _, part in QUANTILES)
            rows.append((f"{what}, {compiler} ({unit})", *numbers))
        if len(compilers) > 1 and what != "memory":
            ratios = [kernel.ratio(what) for kernel in kernels]
            numbers = (f"{quantile(ratios, part):.2f}" for _, part in QUANTILES)
            rows.append((f"{what}, ours / vendor", *numbers))
    return rows


def shares(kernels: Sequence[Kernel]) -> dict[str, float]:
    """The part of our wall time that each part takes, over all kernels."""
    sums = {part: sum(kernel.parts[part] for kernel in kernels) for part in PARTS}
    whole = sum(sums.values())
    return {part: value / whole for part, value in sums.items()}


def plot(kernels: Sequence[Kernel]) -> str:
    """Ours by the vendor's processor time, kernels in the order of the vendor's, as SVG."""
    width, height, most = 640, 240, 4.0
    ordered = sorted(kernels, key=lambda kernel: kernel.best("vendor", "cpu"))

    def level(ratio: float) -> float:
        return height - 20 - min(ratio, most) / most * (height - 40)

    lines = [
        f'<line x1="40" x2="{width - 10}" y1="{level(r):.1f}" y2="{level(r):.1f}" '
        f'stroke="{"#888" if r == 1 else "#ddd"}"/>'
        f'<text x="8" y="{level(r) + 4:.1f}" font-size="11">{r:.1f}x</text>'
        for r in (0.5, 1.0, 2.0, 3.0)
    ]
    step = (width - 60) / max(1, len(ordered) - 1)
    dots = [
        f'<circle cx="{45 + step * i:.1f}" cy="{level(kernel.ratio("cpu")):.1f}" r="2.5"/>'
        for i, kernel in enumerate(ordered)
    ]
    title = "ours / vendor, processor time; kernels from quick to slow (vendor)"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif"><text x="40" y="14" font-size="12">{title}</text>'
        f"{''.join(lines)}{''.join(dots)}</svg>\n"
    )


def report(kernels: Sequence[Kernel], compilers: Sequence[str], console: Console) -> None:
    """Prints the tables: over all kernels, and the kernels that compare worst."""
    table = Table("", *(name for name, _ in QUANTILES), title=f"{len(kernels)} kernels")
    for row in summary(kernels, compilers):
        table.add_row(*row)
    console.print(table)
    parts = ", ".join(f"{part} {share:.0%}" for part, share in shares(kernels).items())
    console.print(f"our wall time: {parts}")
    if len(compilers) == 1:
        console.print("VENDOR_TILEIRAS is not set: no comparison with NVIDIA's compiler")
        return
    for what in ("cpu", "wall"):
        mean = geometric_mean([kernel.ratio(what) for kernel in kernels])
        console.print(f"geometric mean of ours / vendor, {what}: {mean:.2f}")
    worst = Table("kernel", "ours, ms", "vendor, ms", "ratio", *PARTS, title="worst, cpu")
    for kernel in sorted(kernels, key=lambda kernel: -kernel.ratio("cpu"))[:20]:
        times = (f"{kernel.best(name, 'cpu') * 1e3:.0f}" for name in compilers)
        parts = (f"{kernel.parts[part]:.0f}" for part in PARTS)
        worst.add_row(kernel.name, *times, f"{kernel.ratio('cpu'):.2f}", *parts)
    console.print(worst)


def main() -> int:
    """Parses the arguments, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs for each kernel")
    parser.add_argument("--every", type=int, default=1, help="every n-th kernel only")
    parser.add_argument("--ours", default="", help="our command, if not the installed one")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--svg", type=Path, help="file for the plot")
    parser.add_argument("kernels", nargs="*", type=Path, help="bytecode files or folders")
    given = parser.parse_args()
    compilers = {"ours": shlex.split(given.ours) or find_ours()}
    if (vendor := find_vendor()) is not None:
        compilers["vendor"] = [vendor]
    options = [f"--gpu-name={given.gpu_name}", "-O3", "--lineinfo"]
    with tempfile.TemporaryDirectory() as scratch:
        examples = [EXAMPLES / name for name in ("vector_add.mlir", "matmul.mlir")]
        paths = find_kernels(given.kernels, given.every) or [
            write_bytecode(example, Path(scratch)) for example in examples
        ]
        kernels = list(measure(paths, compilers, options, given.runs))
    console = Console()
    if not kernels:
        console.print("no kernel that all compilers compile")
        return 1
    report(kernels, list(compilers), console)
    if given.json:
        given.json.write_text(json.dumps([asdict(kernel) for kernel in kernels], indent=1))
    if given.svg and len(compilers) > 1:
        given.svg.write_text(plot(kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
