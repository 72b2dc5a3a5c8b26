"""Compiles the kernels on one machine and runs them on another, which has a GPU.

    python -m tests.tile_cpp prepare DIR --arch sm_90     # nvcc and tileiras; no GPU
    python3 -m tests.tile_cpp run DIR                     # numpy and cuda-python; no compiler

`run` needs this checkout and DIR only. It launches every kernel, compares with numpy, and runs the
programs of `examples/tile_cpp`; the exit status is 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
from pathlib import Path

from .cases import CASES, EXAMPLES, SOURCES, KernelCase


def prepare(folder: Path, arch: str) -> int:
    """Writes a cubin with launch information for every file, and the programs of the examples."""
    from .nvcc import Nvcc, missing

    reason = missing()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = Nvcc.prepare(folder)
    for name, source in SOURCES.items():
        info = f"--emit-launch-info={folder / name}.json"
        nvcc.cubin(source, folder / f"{name}.cubin", "-Xtileiras", info, arch=arch)
        if source.parent == EXAMPLES:
            static = ("-Xcompiler", "-static-libstdc++,-static-libgcc")
            nvcc.run(source, folder / f"{name}.program", *static, arch=arch)
        print(f"{name}: compiled", flush=True)
    return 0


def run(folder: Path, size: int) -> int:
    """Launches every kernel and every program of a prepared folder."""
    wrong = 0
    for case in CASES:
        fault = _fault(folder, case, size)
        wrong += bool(fault)
        print(f"{case.name:32} {fault or 'ok'}", flush=True)
    for program in sorted(folder.glob("*.program")):
        done = subprocess.run([program.resolve()], capture_output=True, text=True, timeout=120)
        wrong += bool(done.returncode)
        print(f"{program.name:32} {(done.stdout + done.stderr).strip()}", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


def _fault(folder: Path, case: KernelCase, size: int) -> str:
    """What is wrong with one kernel's results; empty if nothing is."""
    from tests.gpu.launch import LaunchError, launch_cubin

    info = json.loads((folder / f"{case.file}.json").read_text())
    entry = case.entry([kernel["name"] for kernel in info["kernels"]])
    launch = case.launch(size)
    before = copy.deepcopy(launch.arguments)
    try:
        cubin = (folder / f"{case.file}.cubin").read_bytes()
        launch_cubin(cubin, entry, launch.arguments, launch.grid)
    except LaunchError as error:
        return str(error)
    return launch.fault(before)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--size", type=int, default=3, help="a factor for what is computed")
    options = parser.parse_args()
    if options.step == "prepare":
        return prepare(options.folder, options.arch)
    return run(options.folder, options.size)


if __name__ == "__main__":
    sys.exit(main())
