"""Installs the wheel for several Pythons and tries it as this user and as others.

    python tests/sweeps/pythons_sweep.py python3.11 python3.12 python3.13 --user nobody

For each Python: a fresh virtual environment with the wheel and what its tests need, in a temporary
folder that everybody may read; the commands' versions, the examples for every target, and the tests
of the command line, in a folder without the sources. Cubins must be the same for all. Other users
need root, and a Python that they may read. Exit status 1 if anything differs or fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU_NAMES = ("sm_80", "sm_90", "sm_100", "sm_120")
COMMANDS = ("tileiras", "tileirdisasm", "tileirasm", "tileiras-reduce", "tileiras-run")
NATIVE = "tileiras-native"
"""The name under which the native program is tried; there is none without a C compiler."""

EXAMPLES = ("vector_add.mlir", "matmul.mlir")
NEEDED = ("pytest", "hypothesis", "filecheck", "numpy", "ml_dtypes")
"""What the tests import of the development requirements."""

TESTS = (
    "tests/robustness",
    "tests/test_cli.py",
    "tests/test_command_line.py",
    "tests/test_response_files.py",
    "tests/test_bytecode_output.py",
    "tests/test_messages.py",
    "tests/test_message_page.py",
    "tests/test_native_launcher.py",
    "tests/codegen/test_llvm_backend.py",
)


class Failure(Exception):
    """A command that did not end with 0; the text says which, and its last lines."""


@dataclass(frozen=True)
class User:
    """Who runs something; no number stands for this process's own user."""

    name: str
    number: int | None = None
    group: int | None = None

    def run(self, command: list[str | Path], folder: Path, variables: dict[str, str]) -> str:
        """What the command prints. Raises Failure."""
        words = " ".join(map(str, command))
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=variables,
                user=self.number,
                group=self.group,
                extra_groups=None if self.number is None else [],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except OSError as error:
            raise Failure(f"{words}: {error.strerror} (may {self.name} read it?)") from error
        if done.returncode:
            raise Failure(f"{words}: exit code {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout


ME = User(pwd.getpwuid(os.geteuid()).pw_name)


def _other(name: str) -> User:
    entry = pwd.getpwnam(name)
    return User(name, entry.pw_uid, entry.pw_gid)


def requirements() -> list[str]:
    """What the tests need, as `pyproject.toml` has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [one for one in project["optional-dependencies"]["dev"] if one.startswith(NEEDED)]


def _variables(home: Path) -> dict[str, str]:
    """The environment of a user who has set nothing; loaders of libraries keep their paths."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, from a copy: building leaves files beside the sources."""
    sources = folder / "sources"
    copy_files(sources, ("pyproject.toml", "README.md", "LICENSE", "tileiras_command.py"))
    shutil.copytree(ROOT / "tileiras", sources / "tileiras", ignore=_CACHES)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, sources]
    ME.run(pip, folder, dict(os.environ))
    shutil.rmtree(sources)
    (wheel,) = folder.glob("*.whl")
    return wheel


_CACHES = shutil.ignore_patterns("__pycache__", "*.pyc")


def copy_files(folder: Path, names: tuple[str, ...]) -> None:
    """Copies files of the checkout, or folders of it, into another folder."""
    folder.mkdir(parents=True)
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=_CACHES)
        else:
            shutil.copy(ROOT / name, folder / name)


def make_environment(python: str, wheel: Path, folder: Path) -> Path:
    """A fresh virtual environment with the wheel; returns the folder of its commands."""
    environment = Path(tempfile.mkdtemp(prefix="environment-", dir=folder))
    environment.chmod(0o755)
    ME.run([python, "-m", "venv", environment], folder, dict(os.environ))
    commands = environment / "bin"
    pip = [commands / "python", "-m", "pip", "install", "-q", "--no-input"]
    ME.run([*pip, wheel, *requirements()], folder, dict(os.environ))
    ME.run(
        [commands / "python", "-m", "tileiras.native_launcher", NATIVE], commands, dict(os.environ)
    )
    return commands


def examine(commands: Path, tests: Path, user: User) -> tuple[str, dict[str, str]]:
    """What the tests say last, and the digest of each example's cubin. Raises Failure."""
    home = Path(tempfile.mkdtemp(prefix=f"tileiras-{user.name}-"))
    try:
        if user.number is not None:
            os.chown(home, user.number, user.group if user.group is not None else -1)
        variables = _variables(home)
        for command in COMMANDS:
            user.run([commands / command, "--help"], home, variables)
        user.run([commands / "tileiras", "--version"], home, variables)
        digests: dict[str, str] = {}
        programs = [commands / name for name in ("tileiras", NATIVE) if (commands / name).exists()]
        for program, example, gpu_name in product(programs, EXAMPLES, GPU_NAMES):
            output = home / f"{program.name}.{example}.{gpu_name}.cubin"
            compiling = [program, tests / "examples" / example, "-o", output]
            user.run([*compiling, "--gpu-name", gpu_name], home, variables)
            digests[output.name] = digest = hashlib.sha256(output.read_bytes()).hexdigest()
            if digests[f"tileiras.{example}.{gpu_name}.cubin"] != digest:
                raise Failure(f"{program}: other bytes than those of the script in {output.name}")
        flags = ["-q", "-p", "no:cacheprovider", "--rootdir", tests, "-m", "not gpu"]
        pytest = [commands / "python", "-m", "pytest", *flags, f"--basetemp={home}/tests"]
        said = user.run([*pytest, *(tests / name for name in TESTS)], tests, variables)
        return said.splitlines()[-1], digests
    finally:
        shutil.rmtree(home)


def try_python(
    python: str, users: list[User], folder: Path, wheel: Path, seen: dict[str, str]
) -> int:
    """Prints a line for each user; returns the number of failures. `seen` has digests so far."""
    failures = 0
    try:
        commands = make_environment(python, wheel, folder)
        version = ME.run([commands / "python", "-V"], folder, dict(os.environ)).strip()
    except Failure as failure:
        print(f"{python}: FAILED {failure}", flush=True)
        return 1
    for user in users:
        try:
            said, digests = examine(commands, folder / "checkout", user)
            other = [name for name, one in digests.items() if seen.setdefault(name, one) != one]
            if other:
                raise Failure(f"other bytes in {', '.join(other)}")
            print(f"{version}, {user.name}: {len(digests)} cubins, tests: {said}", flush=True)
        except Failure as failure:
            failures += 1
            print(f"{version}, {user.name}: FAILED {failure}", flush=True)
    return failures


def main() -> int:
    """Tries each Python; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--user", action="append", default=[], help="also as this user; root only")
    options = parser.parse_args()
    users = [ME, *map(_other, options.user)]
    seen: dict[str, str] = {}
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="tileiras-pythons-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        wheel = build_wheel(folder)
        print(wheel.name, flush=True)
        checkout = ("tests", "examples", "docs", "benchmarks", "pyproject.toml")
        copy_files(folder / "checkout", checkout)
        failures = [try_python(one, users, folder, wheel, seen) for one in options.pythons]
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
