"""What somebody needs to see a mistake of ours again, kept in a folder: input, options, versions.

    tileiras-reproducer-0123456789ab/
        input.tileirbc (or input.mlir)    the input, byte for byte
        reproduce.sh                      compiles it with the same options and variables
        report.json                       the message, the pass, the versions

The folder's name comes from its contents: the same mistake twice makes one folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileiras.errors import TileirasError

_DEFAULT_FOLDER = "/tmp"
_ENVIRONMENT_FOR_SEARCHING = ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME")
"""Variables that say where things are and belong to a machine, not to the mistake."""

_DISTRIBUTIONS = ("xdsl", "llvmlite", "nvidia-cuda-nvcc", "nvidia-nvvm")


@dataclass(frozen=True)
class Case:
    """A compilation: the input, the options in the form `--name=value`, the variables it read."""

    source: bytes
    is_bytecode: bool
    options: tuple[str, ...]
    knobs: Mapping[str, str]


def keep_case(case: Case, error: TileirasError, part: str) -> str:
    """Writes the folder and returns its path. `part` is what was being done. Raises OSError."""
    import json
    import shlex
    from hashlib import sha256

    name = "input.tileirbc" if case.is_bytecode else "input.mlir"
    variables = {k: v for k, v in case.knobs.items() if k not in _ENVIRONMENT_FOR_SEARCHING}
    words = ["tileiras", name, *case.options, "-o", os.devnull]
    assigned = [f"{key}={shlex.quote(value)}" for key, value in sorted(variables.items())]
    script = (
        f'#!/bin/sh\ncd "$(dirname "$0")" || exit\n{" ".join([*assigned, shlex.join(words)])}\n'
    )
    digest = sha256(b"\0".join((script.encode(), error.message.encode(), case.source)))
    folder = _make_folder(
        case.knobs.get("TMPDIR") or _DEFAULT_FOLDER,
        f"tileiras-reproducer-{digest.hexdigest()[:12]}",
    )
    report = {
        "error": error.message,
        "location": str(error.location) if error.location is not None else None,
        "part": part,
        "command": words,
        "environment": variables,
        "versions": _versions(),
    }
    for file, data in (
        (name, case.source),
        ("reproduce.sh", script.encode()),
        ("report.json", (json.dumps(report, indent=2) + "\n").encode()),
    ):
        with open(os.path.join(folder, file), "wb") as stream:
            stream.write(data)
    return folder


def options_of(values: Mapping[str, Sequence[str]], without: Sequence[str]) -> tuple[str, ...]:
    """The options of a parsed command line, written out again, but for those named."""
    return tuple(
        f"--{name}={value}"
        for name, given in values.items()
        if name not in without
        for value in given
    )


def _make_folder(parent: str, name: str) -> str:
    """A folder of ours; one of this name that is already ours is used again."""
    path = os.path.join(parent, name)
    try:
        os.mkdir(path, mode=0o700)
    except FileExistsError:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            path = f"{path}-{os.urandom(4).hex()}"
            os.mkdir(path, mode=0o700)
    return path


def _versions() -> dict[str, str]:
    """The versions of what takes part in a compilation and is installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from tileiras import __version__

    found = {"tileiras": __version__, "python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["system"] = platform.platform()
    return found
