"""Wall times of the resident compiler, beside ours without it and NVIDIA's where it is given.

    VENDOR_TILEIRAS=/path/to/tileiras make bench-resident
    VENDOR_TILEIRAS=/path/to/tileiras python benchmarks/bench_resident.py [KERNEL...]

A server of its own is started and ends afterwards. The commands run in turn, after a pause in which
the server gets its next child ready, as between two kernels that a program compiles when it needs
them. What a user waits for is compared, so processor time, which the server spends before, is not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAUSE = 0.25
"""Policy: seconds before a request."""


def seconds(command: list[str], environ: Mapping[str, str]) -> float:
    """Wall time of a process; raises CalledProcessError."""
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(
    kernel: Path, target: str, runs: int, ours: str, vendor: str, folder: str
) -> dict[str, list[float]]:
    """Milliseconds of each kind of compilation."""
    environ = {name: value for name, value in os.environ.items() if name != "TILEIRAS_SERVER"}
    served = {**environ, "TILEIRAS_SERVER": "1", "TILEIRAS_SERVER_IDLE": "30"}
    words = [str(kernel), "--gpu-name", target, "-O3", "--lineinfo", "-o", f"{folder}/k.cubin"]
    kinds = {"resident": (ours, served), "cold": (ours, environ)}
    if vendor:
        kinds["vendor"] = (vendor, environ)
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    seconds([ours, *words], served)  # starts the server
    time.sleep(2.0)
    for _ in range(runs):
        for kind, (program, used) in kinds.items():
            time.sleep(PAUSE)
            found[kind].append(1e3 * seconds([program, *words], used))
    return found


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--runs", type=int, default=15, help="runs of each kind")
    parser.add_argument("--ours", default=str(Path(sys.executable).with_name("tileiras")))
    parser.add_argument("kernels", nargs="*", type=Path, help="bytecode or text")
    given = parser.parse_args()
    vendor = os.environ.get("VENDOR_TILEIRAS", "")
    table = Table("kernel", "kind", "min, ms", "median, ms", "of vendor, min", "median")
    with tempfile.TemporaryDirectory() as folder:
        kernels = given.kernels or [EXAMPLES / "vector_add.mlir", EXAMPLES / "matmul.mlir"]
        for kernel in kernels:
            source = kernel
            if kernel.suffix == ".mlir":
                source = Path(folder, f"{kernel.stem}.tileirbc")
                assembler = str(Path(given.ours).with_name("tileirasm"))
                subprocess.run([assembler, str(kernel), "-o", str(source)], check=True)
            times = measure(source, given.gpu_name, given.runs, given.ours, vendor, folder)
            base = times.get("vendor", [])
            for kind, all_times in times.items():
                least, middle = min(all_times), statistics.median(all_times)
                ratios = (
                    (f"{least / min(base):.2f}", f"{middle / statistics.median(base):.2f}")
                    if base
                    else ("", "")
                )
                table.add_row(kernel.stem, kind, f"{least:.1f}", f"{middle:.1f}", *ratios)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
