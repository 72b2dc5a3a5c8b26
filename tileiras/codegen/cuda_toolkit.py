"""Where files of the CUDA toolkit are: the pip packages first, then a toolkit, then PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")


def package_folders() -> list[str]:
    """Folders of the `nvidia` namespace package, found without importing it."""
    spec = find_spec("nvidia")
    locations = spec.submodule_search_locations if spec is not None else None
    return list(locations or ())


def candidates(
    knobs: Mapping[str, str], in_packages: Sequence[str], in_toolkit: str, on_path: str = ""
) -> Iterator[str]:
    """Every place where a file may be, best first.

    `in_packages` and `in_toolkit` are paths below a package's and a toolkit's folder; `on_path` is
    the name to look for on PATH, if any. `knobs` has CUDA_HOME, CUDA_PATH and PATH.
    """
    for package in package_folders():
        for relative in in_packages:
            yield os.path.join(package, relative)
    for variable in TOOLKIT_VARIABLES:
        if knobs.get(variable):
            yield os.path.join(knobs[variable], in_toolkit)
    if on_path:
        for folder in knobs.get("PATH", "").split(os.pathsep):
            if folder:
                yield os.path.join(folder, on_path)
