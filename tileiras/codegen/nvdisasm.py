"""SASS of a cubin, where the CUDA toolkit's nvdisasm is installed: for people to read."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tileiras.codegen.cuda_toolkit import candidates


def find_nvdisasm(knobs: Mapping[str, str]) -> str | None:
    """nvdisasm in the pip package, then CUDA_HOME or CUDA_PATH, then PATH; None without one."""
    for path in candidates(knobs, ("cu13/bin/nvdisasm",), "bin/nvdisasm", on_path="nvdisasm"):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def disassemble(cubin: str, knobs: Mapping[str, str]) -> bytes | None:
    """The text that nvdisasm prints for the file; None where it is missing or fails."""
    program = find_nvdisasm(knobs)
    if program is None:
        return None
    import subprocess

    try:
        done = subprocess.run([program, cubin], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
