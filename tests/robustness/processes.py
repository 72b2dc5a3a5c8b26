"""Starts `tileiras` as a process of its own, with a ptxas of the test's choice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
TILEIRAS = [sys.executable, "-c", "from tileiras_command import main; main()"]
WITHOUT_PACKAGES = [
    sys.executable,
    "-c",
    "import tileiras_command; from tileiras.codegen import cuda_toolkit;"
    "cuda_toolkit.package_folders = list; tileiras_command.main()",
]
"""`tileiras` that finds ptxas on PATH."""

COMPILE = [str(VECTOR_ADD), "--gpu-name=sm_90"]


def environment(**variables: str | Path) -> dict[str, str]:
    """This process's variables with those given; the compiler is the one under test."""
    added = {name: str(value) for name, value in variables.items()}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **added}


def start(*arguments: str, program: list[str] = TILEIRAS, **options: Any) -> subprocess.Popen[str]:
    """Starts a process whose stderr is read."""
    return subprocess.Popen(
        [*program, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        **{"env": environment()} | options,
    )


def run(
    *arguments: str, program: list[str] = TILEIRAS, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a process to its end, at most 60 seconds."""
    defaults: dict[str, Any] = {"env": environment(), "timeout": 60}
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, **defaults | options
    )


def in_shell(redirections: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `tileiras` under a shell with redirections such as `>&-`."""
    words = [*TILEIRAS, *arguments]
    return run("-c", f'"$@" {redirections}', "sh", *words, program=["sh"])


def fake_ptxas(folder: Path, script: str) -> Path:
    """A ptxas that is a shell script; returns the folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ptxas"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def path_with(folder: Path) -> str:
    """PATH with this folder in front."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def wait_until(ready: Callable[[], bool], seconds: float = 30) -> None:
    """Waits until a condition holds; fails if it never does."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether a process with this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
