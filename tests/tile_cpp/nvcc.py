"""Runs nvcc on CUDA Tile C++, with the compiler under test as its `tileiras`.

nvcc looks for `tileiras` in its own folder first, then on PATH. The pip package nvidia-cuda-nvcc
brings none, so a launcher that is first on PATH is found; it also keeps the command lines and the
last input.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = """#!/bin/sh
printf '%s\\n' "$*" >> {folder}/calls
for word in "$@"; do case "$word" in *.tilebc) cp -- "$word" {folder}/input.tilebc ;; esac; done
exec {python} -c 'import sys; from tileiras.cli import main; sys.exit(main())' "$@"
"""


class NvccError(Exception):
    """nvcc ended with an error; the message is what it printed."""


def find_nvcc() -> Path | None:
    """The nvcc of the pip packages of this Python, else the one on PATH."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = sorted(packages.glob("cu*/bin/nvcc"))
    if found:
        return found[-1]
    on_path = shutil.which("nvcc")
    return Path(on_path) if on_path else None


def missing() -> str:
    """Why CUDA Tile C++ cannot be compiled here; empty if it can."""
    nvcc = find_nvcc()
    if nvcc is None:
        return "nvcc is not installed (pip install nvidia-cuda-nvcc)"
    include = nvcc.parent.parent / "include"
    for header, package in (
        ("cuda_tile.h", "nvidia-cuda-crt"),
        ("cuda_runtime.h", "nvidia-cuda-runtime"),
        ("cccl/nv/target", "nvidia-cuda-cccl"),
    ):
        if not (include / header).exists():
            return f"nvcc has no {header} (pip install {package})"
    if (nvcc.parent / "tileiras").exists():
        return f"{nvcc.parent} has a tileiras of its own, which nvcc prefers to any on PATH"
    if shutil.which("g++") is None:
        return "nvcc needs g++ for the preprocessor"
    return ""


@dataclass(frozen=True)
class Nvcc:
    """nvcc, and a folder whose `tileiras` runs the compiler of this checkout."""

    folder: Path

    @classmethod
    def prepare(cls, folder: Path) -> Nvcc:
        """Writes the launcher into a folder."""
        launcher = folder / "tileiras"
        place, python = shlex.quote(str(folder)), shlex.quote(sys.executable)
        launcher.write_text(LAUNCHER.format(folder=place, python=python))
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        return cls(folder)

    def calls(self) -> list[list[str]]:
        """The arguments of every call of `tileiras` so far."""
        log = self.folder / "calls"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def bytecode(self) -> bytes:
        """What nvcc gave to `tileiras` the last time."""
        return (self.folder / "input.tilebc").read_bytes()

    def run(self, source: Path, output: Path, *options: str, arch: str = "sm_90") -> str:
        """Compiles one file and returns what was printed; raises NvccError.

        Without `arch` the options must name the targets.
        """
        environment = dict(os.environ)
        environment["PATH"] = f"{self.folder}{os.pathsep}{environment.get('PATH', '')}"
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        command: Sequence[str | Path] = [
            find_nvcc() or "nvcc",
            "--enable-tile",
            "-std=c++20",
            *([f"-arch={arch}"] if arch else []),
            *options,
            source,
            "-o",
            output,
        ]
        done = subprocess.run(
            [str(part) for part in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            raise NvccError(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def cubin(self, source: Path, output: Path, *options: str, arch: str = "sm_90") -> str:
        """Machine code of the tile kernels alone, without host code."""
        return self.run(source, output, "--tilecubin", *options, arch=arch)
